/** Overlays outlive the agent, are put right when others change them, and are for their peers alone. */
import { once } from 'node:events'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { NETWORKS, type Site, site } from './site.ts'

requireRoot(t)

async function restored(node: Site, wanted: object): Promise<void> {
  const signal = AbortSignal.timeout(20_000)
  while (JSON.stringify(node.kernel()) !== JSON.stringify(wanted)) {
    if (signal.aborted) throw new Error(`stands as ${JSON.stringify(node.kernel())}`)
    await new Promise((wait) => setTimeout(wait, 20))
  }
}

t.test('vxlan-13 state-01 killed and started again under traffic: nothing is lost and nothing to repair', async (t) => {
  const node = await site(t)
  const far = node.remote(11)
  const mac = '02:00:00:00:00:11'
  far.tunnel(100, { address: '10.0.0.11/24', mac })
  const near = node.guest('a')
  await node.guarded(near)
  await node.ok('POST', '/api/v1/networks', { name: 'red', cidr: '10.0.0.0/24' })
  const { nic } = await node.ok('POST', '/control/v1/compute/machines', {
    machine: 'm',
    network: 'red',
    ip: '10.0.0.1',
  })
  near.setMac((nic as { mac: string }).mac)
  near.ns.run('ip', 'address', 'add', '10.0.0.1/24', 'dev', 'eth0')
  await node.overlay(100, { subnet: '10.0.0.0/24' }, { ...far, mac })
  t.ok(near.reaches('10.0.0.11'))
  const before = node.kernel()
  const ping = near.ns.spawn('ping', ['-n', '-q', '-i', '0.02', '-c', '200', '10.0.0.11'])
  let said = ''
  ping.stdout?.on('data', (bytes: Buffer) => {
    said += bytes
  })
  const ended = once(ping, 'exit')
  const lines = node.agent.logged.length
  await node.agent.kill('SIGKILL')
  await node.agent.restart()
  await ended
  t.match(said, / 0% packet loss/)
  t.same(node.kernel(), before)
  const repairs = node.agent.logged.slice(lines).filter(({ added, changed, removed }) => added || changed || removed)
  t.same(repairs, [])
  const { status, found } = await node.ok('POST', '/control/v1/drift', { dry_run: true })
  t.same({ status, found }, { status: 'clean', found: [] })
})

t.test('what others change comes back, what they add goes', async (t) => {
  const node = await site(t)
  const [one, two] = [node.remote(11), node.remote(12)]
  const mac = '02:00:00:00:00:11'
  await node.overlay(100, {}, { ...one, mac }, two)
  const whole = node.kernel()
  // Who undoes a repair at once is answered later each time, so many things are changed at a time.
  const flood = ['00:00:00:00:00:00', 'dev', 'vx100', 'dst']
  const rounds: Record<string, string[][]> = {
    'what others remove and add': [
      ['bridge', 'fdb', 'del', ...flood, two.vtep],
      ['bridge', 'fdb', 'append', ...flood, '192.0.2.99'],
      ['bridge', 'fdb', 'del', mac, 'dev', 'vx100'],
      ['bridge', 'fdb', 'add', '02:00:00:00:00:99', 'dev', 'vx100', 'dst', one.vtep],
      ['bridge', 'link', 'set', 'dev', 'vx100', 'isolated', 'off'],
      ['nft', 'delete', 'element', 'inet', 'stratum', 'vxlan_vteps4', `{ ${one.vtep} }`],
    ],
    'what others change': [
      ['bridge', 'fdb', 'replace', mac, 'dev', 'vx100', 'dst', two.vtep],
      ['ip', 'link', 'set', 'vx100', 'mtu', '1400'],
    ],
    'a device that goes': [['ip', 'link', 'del', 'vx100']],
  }
  for (const [what, commands] of Object.entries(rounds)) {
    for (const [command = '', ...args] of commands) {
      const before = node.kernel()
      node.ns.run(command, ...args)
      t.notSame(node.kernel(), before, `control: ${command} ${args.join(' ')}`)
    }
    await restored(node, whole)
    t.pass(`${what}: as it was`)
  }
  t.same(await node.agent.call('POST', '/control/v1/drift', {}).then(({ body }) => body.found), [])
})

t.test('UDP 4789 is for peers, whatever the default action is', async (t) => {
  // Otherwise what machines say to each other would be judged, too.
  const node = await site(t, 4, { bridge_netfilter: 'off' })
  const [far, stranger] = [node.remote(11), node.remote(66)]
  far.tunnel(100, { address: '10.7.0.11/24' })
  stranger.tunnel(100, { address: '10.7.0.66/24' })
  const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
  await node.guarded(near)
  await node.overlay(100, {}, far)
  const holds = async (when: string) => {
    t.ok(far.reaches('10.7.0.1'), `${when}: a peer`)
    t.notOk(stranger.pings('10.7.0.1'), `${when}: who is none`)
    t.notOk(
      (await node.fdb()).some(({ vtep_ip }) => vtep_ip === stranger.vtep),
      'and nothing is learned of it',
    )
  }
  await holds('allow')
  await node.ok('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  await holds('deny')
  const traced = async (src: string) => {
    const query = `src=${src}&dst=192.0.2.1&proto=udp&sport=40000&dport=4789`
    const { action, spared } = (await node.agent.call('GET', `/control/v1/firewall/trace?${query}`)).body
    return { action, spared }
  }
  t.same(await traced(far.vtep), { action: 'accept', spared: 'yes' }, 'and rules trace says the same')
  t.same(await traced(stranger.vtep), { action: 'drop', spared: 'no' })
  await node.overlay(200, {}, far)
  await node.ok('DELETE', `${NETWORKS}/200`)
  t.same(node.kernel().vteps, [far.vtep], 'of two overlays with one VTEP the other keeps it')
  await node.ok('POST', '/api/v1/rules', { action: 'drop', source_ip: far.vtep })
  t.notOk(far.pings('10.7.0.1'), 'a rule against it wins')
  t.match(await traced(far.vtep), { action: 'drop', spared: undefined })
})

t.test('the overlays follow the local VTEP', async (t) => {
  const node = await site(t)
  const far = node.remote(11)
  await node.overlay(100, {}, far)
  const config = (value: string) => node.agent.call('PUT', '/control/v1/config/vxlan_local_ip', { value })
  node.ns.run('ip', 'address', 'add', '192.0.2.2/24', 'dev', 'up0')
  t.equal((await config('192.0.2.2')).status, 200)
  t.match(node.kernel().devices, [/192\.0\.2\.2/])
  t.same(node.kernel().fdb, [`vx100 00:00:00:00:00:00 dst ${far.vtep}`])
  t.equal((await node.agent.call('DELETE', '/control/v1/config/vxlan_local_ip')).status, 200)
  t.match(node.kernel().devices, [/192\.0\.2\.1/])
  const before = node.kernel()
  node.ns.run('ip', 'address', 'flush', 'dev', 'up0')
  node.ns.run('ip', 'address', 'add', '192.0.2.3/24', 'dev', 'up0')
  await restored(node, { ...before, devices: ['vx100 100 4789 192.0.2.3 mtu 1450 br-work isolated'] })
  t.equal((await config('2001:db8::1')).status, 409, 'no device has it')
  t.match(node.kernel().devices, [/192\.0\.2\.3/])
})
