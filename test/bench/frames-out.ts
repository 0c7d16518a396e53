/**
 * A process of its own that sends one frame again and again: `frames-out.js <ifindex> <count> <frame in hexadecimal> [offset]`.
 * With an offset the 16 bits there (a port) count up from frame to frame, so that each is of another flow.
 * Prints the CPU time of its thread a frame, ns, in which is what the kernel does with the frame up to the receiver's device.
 */
import { frameSender } from '../raw-socket.ts'

const [index = '', count = '', text = '', offset] = process.argv.slice(2)
const WARM_UP = 20_000
const send = frameSender(Number(index))
const frame = Buffer.from(text, 'hex')

function sendMany(times: number, counted?: number): void {
  const from = counted === undefined ? 0 : frame.readUInt16BE(counted)
  for (let n = 0; n < times; n++) {
    if (counted !== undefined) frame.writeUInt16BE((from + n) & 0xffff, counted)
    send(frame)
  }
}

sendMany(WARM_UP)
const before = process.cpuUsage()
sendMany(Number(count), offset === undefined ? undefined : Number(offset))
const { user, system } = process.cpuUsage(before)
process.stdout.write(`${((user + system) * 1000) / Number(count)}\n`)
