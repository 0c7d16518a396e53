/** Strangers who take every connection that they can get, from a whole IPv6 site, while operators ask for something. */
import { once } from 'node:events'
import t from 'tap'
import { overTls, startAgent } from '../agent.ts'
import { netns, requireRoot, veth } from '../netns.ts'

const [NODE, OPERATOR] = ['2001:db8:0:ff::1', '2001:db8:1:2::2']
// More than there are places, so that whoever is ended is replaced at once.
const NETS = 20
const EACH = 256

/** Opens connections from each address and keeps silent; opens another one for each that is ended. Says when many were. */
const CROWD = `
const net = require('node:net')
const [host, each, ...from] = process.argv.slice(1)
let ended = 0
const come = (localAddress) => {
  const s = net.connect({ host, port: 7070, localAddress })
  s.on('error', () => {}).on('close', () => {
    if (++ended === 2000) console.log('no more come in')
    setTimeout(come, 50, localAddress)
  })
}
for (const address of from) for (let n = 0; n < +each; n++) come(address)`

t.test('operators are served while strangers hold all the connections that they can get', async (t) => {
  if (!requireRoot(t)) return
  const [node, crowd, operator] = [netns(t, 'n'), netns(t, 'c'), netns(t, 'o')]
  for (const ns of [node, crowd, operator]) {
    ns.run('sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0', 'net.ipv6.conf.all.accept_dad=0')
  }
  // Of one site.
  const from = Array.from({ length: NETS }, (_, n) => `2001:db8:0:${(0x10 + n).toString(16)}::2`)
  veth(
    t,
    { ns: node, name: 'wan0', addr: `${NODE}/64` },
    { ns: crowd, name: 'eth0', addr: ['2001:db8:0:ff::2/64', ...from.map((address) => `${address}/128`)] },
  )
  node.run('ip', '-6', 'route', 'add', '2001:db8:0::/58', 'via', '2001:db8:0:ff::2')
  veth(
    t,
    { ns: node, name: 'lan0', addr: '2001:db8:1:2::1/64' },
    { ns: operator, name: 'eth0', addr: `${OPERATOR}/64` },
  )
  // So few that the crowd takes them all at once, on any machine.
  const agent = await startAgent(t, { ns: node, config: { max_connections: '512' } })
  const ask = (ns: typeof node, base: string) => overTls(ns, base, 5000)('GET', '/api/v1/rules/default')
  const far = `https://[2001:db8:1:2::1]:7070`
  t.equal((await ask(operator, far)).status, 200, 'an operator from afar, before')

  const strangers = crowd.spawn(process.execPath, ['-e', CROWD, NODE, String(EACH), ...from])
  if (strangers.stdout === null) throw new TypeError('no stdout')
  await once(strangers.stdout, 'data')
  for (let n = 0; n < 3; n++) {
    t.equal((await ask(node, 'https://127.0.0.1:7070')).status, 200, 'from the node itself')
    t.equal((await ask(operator, far)).status, 200, 'from an address that has shown a credential before')
  }
  t.equal(agent.child.exitCode, null)
})
