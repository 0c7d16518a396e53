/** D72: a new drop ends the connections that it forbids, and those only; IPv4 and IPv6. What else makes it so: packets-evict-more.test.ts. */
import t from 'tap'
import { CLIENT, lab, ROUTER, SERVER, tcp, udp } from './lab.ts'
import { judged, requireLane } from './lane.ts'
import { entry, fates, forgotten, open, serveAll } from './talks.ts'

requireLane(t)
const here = await lab(t)
const { client, other, router, rule, reset } = here
await serveAll(here)

for (const [family, host, self] of [
  ['IPv4', SERVER.v4, ROUTER.v4],
  ['IPv6', SERVER.v6, ROUTER.v6],
] as const) {
  judged(`D72 a new drop ends established connections through the node and to it, ${family}`, async (t) => {
    const [through, to, datagrams, beside] = await Promise.all([
      open(client, tcp(host, 1000)),
      open(client, tcp(self, 1000)),
      open(client, udp(host, 1000)),
      open(client, tcp(host, 1001)),
    ])
    await rule({ action: 'drop', dest_port: 1000 })
    await fates(t, 'TCP, UDP, and another port', { ended: [through, to, datagrams], alive: [beside] })
    await reset()
    t.ok(await through.lives(), 'nobody was told: what is allowed again goes on')
  })

  judged(`D72 a new drop with a MAC or an interface ends the connections from there, ${family}`, async (t) => {
    for (const where of family === 'IPv4' ? [{ mac: CLIENT.mac }, { interface: 'r1' }] : [{ mac: CLIENT.mac }]) {
      const [ours, theirs, beside] = await Promise.all([
        open(client, tcp(host, 1100)),
        open(other, tcp(host, 1000)),
        open(client, tcp(host, 1001)),
      ])
      const id = entry(router, 1100)
      await rule({ action: 'drop', ...where, dest_port: 1000, dest_port_max: 1100 })
      await rule({ action: 'drop', interface: 'absent0' })
      t.ok(await forgotten(router, id, 1100), `${JSON.stringify(where)}: conntrack forgets it`)
      t.ok((await ours.deaf()) && (await ours.dies()), 'the connection from there is ended')
      await fates(t, 'the one from elsewhere lives', { ended: [beside], alive: [theirs] })
      await reset()
    }
  })

  judged(`D72 a drop of an address or prefix ends only its connections, ${family}`, async (t) => {
    const [near, far] = family === 'IPv4' ? [CLIENT.v4, CLIENT.second4] : [CLIENT.v6, CLIENT.second6]
    const prefix = family === 'IPv4' ? '10.1.0.0/25' : 'fd01::/65'
    for (const match of [{ source_ip: near }, { source_ip: prefix }, { source_ip: near, dest_ip: host }]) {
      const [ours, theirs] = await Promise.all([
        open(client, tcp(host, 1000, { from: near })),
        open(client, tcp(host, 1000, { from: far })),
      ])
      await rule({ action: 'drop', ...match })
      await fates(t, JSON.stringify(match), { ended: [ours], alive: [theirs] })
      await reset()
    }
  })

  judged(`D72 a connection on which the other end goes on to speak stays ended, ${family}`, async (t) => {
    for (const [where, target] of [
      ['through the node', tcp(host, 1100)],
      ['to the node', tcp(self, 1100)],
    ] as const) {
      const [stream, beside] = await Promise.all([open(client, target), open(client, { ...target, port: 1101 })])
      const id = entry(router, 1100)
      await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100 })
      t.ok(await forgotten(router, id, 1100), `${where} conntrack forgets it`)
      t.ok(await stream.deaf(), 'it falls silent')
      t.ok(await stream.dies(), 'and what this end says does not bring it back')
      t.ok(await beside.hears(), 'another port goes on')
      await reset()
    }
  })
}
