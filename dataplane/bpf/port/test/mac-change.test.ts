import '../../../../test/inside.ts'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { u32, u64 } from '../../codec.ts'
import { attachTcx } from '../../link.ts'
import { type Bridge, bridge } from './bridge.ts'
import { ethernet, ipv4, TYPE, udp } from './packet.ts'
import { loadProps } from './stage.ts'
import { IP, MAC, NET, PORT, SLOT, world } from './world.ts'

/** How many changes; `CHANGES=3000` for a long run. One after so many frames that passed. */
const CHANGES = Number(process.env.CHANGES ?? 250)
const PASSED_A_CHANGE = 600
const MOST_FRAMES = 131_072 * 64
const OTHER = '02:ce:0a:00:00:42'

requireRoot(t)

/** From a1's port by turns with the one and the other MAC, until all changes are made; how many frames that were. */
async function stream(here: Bridge): Promise<number> {
  const payload = Buffer.from('strt\0\0\0\0abcdefgh')
  const frame = (mac: string) => ethernet(MAC.a2, mac, TYPE.ipv4, ipv4(IP.a1, IP.a2, 17, udp(1, 2, payload)))
  const script = fileURLToPath(new URL('./sender.js', import.meta.url))
  const index = /^([0-9]+):/.exec(here.peers.run('ip', '-o', 'link', 'show', 'dev', 'a1'))?.[1] ?? ''
  // On one CPU: from two, frames could overtake each other.
  const args = ['-c', '0', process.execPath, script, index, String(MOST_FRAMES)]
  const frames = [frame(MAC.a1), frame(OTHER)].map((one) => one.toString('hex'))
  const sender = here.peers.spawn('taskset', [...args, ...frames], { stdio: ['pipe', 'pipe', 'inherit'] })
  const output: Buffer[] = []
  sender.stdout?.on('data', (chunk: Buffer) => output.push(chunk))
  const ended = once(sender, 'close')
  const passed = () => Number(here.slots.account(SLOT.a2).downPackets)
  const row = { address: IP.a1, claims: 0, home: PORT.a1, slot: SLOT.a1 }
  let [mac, old]: [string, string] = [OTHER, MAC.a1]
  for (let changes = 0; changes < CHANGES; changes++) {
    const next = passed() + PASSED_A_CHANGE
    while (passed() < next && sender.exitCode === null) await new Promise(setImmediate)
    here.maps.byMac.set({ net: NET.a, mac }, row)
    here.slots.bind(SLOT.a1, { mac, routed: false })
    here.maps.byMac.delete({ net: NET.a, mac: old })
    ;[old, mac] = [mac, old]
  }
  const next = passed() + PASSED_A_CHANGE
  while (passed() < next && sender.exitCode === null) await new Promise(setImmediate)
  sender.stdin?.end()
  await ended
  return Number(Buffer.concat(output).toString())
}

t.test('net-32 a MAC change under a stream has no frame with neither or both', async (t) => {
  const here = await bridge(t, ['a1', 'a2'])
  here.set(world())
  const props = await loadProps(t, here)
  const recorder = await attachTcx(props.program('record'), PORT.a2, 'egress')
  t.teardown(() => recorder.close())
  const frames = await stream(here)
  t.ok(frames > 2 * PASSED_A_CHANGE * CHANGES && frames < MOST_FRAMES, `${frames} frames`)

  const words = new Map(await props.map('passed', u32, u64).lookupBatch())
  const hasPassed = (frame: number) => Number(((words.get(frame >> 6) ?? 0n) >> BigInt(frame & 63)) & 1n)
  let [switches, passed, before] = [0, 0, 1]
  for (let frame = 0; frame < frames; frame++) {
    passed += hasPassed(frame)
    // 1 while the first MAC counts: then the even frames pass, and the odd ones do not.
    const state = hasPassed(frame) ^ (frame & 1)
    if (state !== before) switches++
    before = state
  }
  t.equal(switches, CHANGES, 'every change is one instant')
  const tallies = await here.tallies()
  const dropped = (tallies.get('stale') ?? 0) + (tallies.get('unbound') ?? 0)
  t.equal(passed + dropped, frames, 'no frame is lost')
  t.equal(props.map('doubled', u32, u64).get(0), 0n, 'no frame comes twice')
  t.equal(Number(here.slots.account(SLOT.a1).upPackets), passed, 'both MACs count for the same endpoint')
})
