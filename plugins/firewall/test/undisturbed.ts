import type { Test } from 'tap'
import { type Lab, OPEN, SERVER, SHUT, sees, tcp, udp } from './lab.ts'

/** Where the node serves itself: loopback, which a default deny spares. */
export const SPARED = 1003

/**
 * Carries out `work` under traffic and default deny: nothing that is admitted or spared may be lost, nothing that is
 * forbidden may pass. The server serves 1000 and 1001, the node SPARED.
 */
export async function undisturbed(t: Test, { client, server, node }: Lab, work: () => Promise<unknown>): Promise<void> {
  const talk = await client.open(tcp(SERVER.v4, 1000))
  t.ok(await talk.lives(), 'control: a connection lives')
  const [open, shut] = [await server.heard(1000, 0), await server.heard(1001, 0)]
  const spared = await node.heard(SPARED, 0)
  const sprays = [
    await client.spray(udp(SERVER.v4, 1000), { fresh: true, everyMs: 3 }),
    await client.spray(udp(SERVER.v4, 1000), { fresh: false, everyMs: 3 }),
  ]
  const forbidden = await client.spray(udp(SERVER.v4, 1001), { fresh: true, everyMs: 3 })
  const local = await node.spray(udp('127.0.0.1', SPARED), { fresh: true, everyMs: 3 })
  await work()
  t.ok(await talk.lives(), 'the connection lives on')
  await sees(t, client, { pass: OPEN, drop: SHUT }, 'new connections are judged as before')
  let sent = 0
  for (const spray of sprays) sent += await spray.stop()
  t.ok((await forbidden.stop()) > 20 && sent > 40, `${sent} packets were sent meanwhile`)
  // The probes above send some more, so more than sent may have arrived.
  t.ok((await server.heard(1000, open + sent)) - open >= sent, 'no admitted packet was lost')
  t.equal(await server.heard(1001, shut), shut, 'no forbidden packet passed')
  const said = await local.stop()
  t.ok(said > 20)
  t.equal(await node.heard(SPARED, spared + said), spared + said, 'no spared packet was lost')
}
