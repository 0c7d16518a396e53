/** Port forwards on real packets. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { ask, open } from './host.ts'
import { CLIENT, FAMILIES, LAN, lab, MATE, PROTOCOLS, PUBLIC, SERVER } from './lab.ts'

requireRoot(t)
const KINDS = FAMILIES.flatMap((family) => PROTOCOLS.map((proto) => ({ family, proto })))

t.test('fwd-08 D61 whoever asks the public address reaches the target and nobody else', async (t) => {
  const { node, client, server, mate, forward, held } = await lab(t)
  t.equal(await ask(client, 'tcp', PUBLIC[4], 80, { silent: true }), undefined, 'before')
  for (const family of FAMILIES) await forward(PUBLIC[family], 80, SERVER[family], 8080)
  t.same(held('nat_forward4'), [`${PUBLIC[4]} . 80 : ${SERVER[4]} . 8080`])
  t.same(held('nat_forward6'), [`${PUBLIC[6]} . 80 : ${SERVER[6]} . 8080`])
  for (const { family, proto } of KINDS) {
    const name = `${proto} over IPv${family}`
    const to = (from: typeof client, port = 80) => ask(from, proto, PUBLIC[family], port, { silent: port !== 80 })
    t.equal(await to(client), `${CLIENT[family]} server`, `${name} from outside, under its own address`)
    t.equal(await to(mate), `${LAN[family]} server`, `${name} from the target’s own network (hairpin)`)
    t.equal(await to(server), `${LAN[family]} server`, `${name} from the target itself`)
    t.equal(await to(node), `${LAN[family]} server`, `${name} from the node`)
    t.equal(await to(client, 81), undefined, `${name} to another port`)
    t.equal(await ask(mate, proto, CLIENT[family], 8080), `${MATE[family]} client`, `${name} otherwise untouched`)
  }
})

t.test('datagrams that flow already follow a new forward', async (t) => {
  const { client, forward, node } = await lab(t)
  for (const family of FAMILIES) {
    const stream = await open(client, 'udp', PUBLIC[family], 80)
    // Nobody is there yet, and conntrack holds on to that.
    t.equal(await stream?.say(300), undefined)
    t.match(node.run('conntrack', '-L', '-f', `ipv${family}`, '-p', 'udp'), /dport=80 /)
    await forward(PUBLIC[family], 80, SERVER[family], 8080)
    let answer: string | undefined
    for (let tries = 0; tries < 10 && answer === undefined; tries++) answer = await stream?.say(500)
    t.equal(answer, `${CLIENT[family]} server`)
  }
})
