/** Limits that come, change and go keep the frames of a flow in order. */
import t from 'tap'
import { type Netns, requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, place } from './lab.ts'

requireRoot(t)

const RATE = 8_000_000
const ROUNDS = 20

/** Hears the numbers that lab.ts counts its datagrams by. */
const HEAR = `
const socket = require('node:dgram').createSocket('udp4')
let [got, late, highest] = [0, 0, 0]
socket.on('message', (bytes) => {
  const number = bytes.readUInt32BE(0)
  got++
  if (number < highest) late++
  else highest = number
})
process.on('SIGTERM', () => { process.stdout.write(JSON.stringify({ got, late, highest })); socket.close() })
socket.bind(9999, () => process.stdout.write('ready '))
`

interface Heard {
  got: number
  /** Those that came after one that was sent later. */
  late: number
  highest: number
}

async function ear(ns: Netns): Promise<() => Promise<Heard>> {
  const child = ns.spawn(process.execPath, ['-e', HEAR])
  let said = ''
  const ready = new Promise<void>((resolve) =>
    child.stdout?.on('data', (bytes: Buffer) => {
      said += bytes.toString()
      resolve()
    }),
  )
  const ended = new Promise((resolve) => child.once('close', resolve))
  await ready
  return async () => {
    child.kill('SIGTERM')
    await ended
    return JSON.parse(said.replace('ready ', '')) as Heard
  }
}

for (const [way, target] of [
  ['sends', 1],
  ['gets', 2],
] as const) {
  t.test(`bw-06 bw-21 what a MAC ${way} stays in order while its limit is raised, lowered and removed`, async (t) => {
    const { node, mac, send, guest } = await place(t, 2)
    const heard = await ear(guest(2).ns)
    const stream = send(1, 2, RATE * 2)
    const limit = { id: 'one', target_mac: mac(target) }
    const wait = () => new Promise((resolve) => setTimeout(resolve, 20))
    for (let round = 0; round < ROUNDS; round++) {
      // Below what is offered, above it, below it again: frames wait when it is removed.
      for (const rate_bps of [RATE, RATE * 4, RATE]) {
        await node.ok('POST', BANDWIDTH, { ...limit, rate_bps })
        await wait()
      }
      await node.ok('DELETE', `${BANDWIDTH}/one`)
      await wait()
    }
    const sent = await stream.stop()
    const { got, late, highest } = await heard()
    t.ok(got > 500 && highest > sent / 2, `${got} of ${sent} came, to number ${highest}`)
    // One that another CPU is just taking out of the queue can be overtaken at a removal; what waits there never is.
    t.ok(late <= ROUNDS, `${late} of ${got} came late`)
  })
}
