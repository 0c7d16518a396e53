/**
 * A process of its own that sends one frame again and again: `frames-out.js <ifindex> <count> <frame in hexadecimal> [offset]`.
 * With an offset the 16 bits there (a port) count up from frame to frame, so that each is of another flow.
 * Prints the CPU time of its thread a frame, ns, in which is what the kernel does with the frame up to the receiver's device.
 */
import koffi from 'koffi'
import { bind, socket } from '../../dataplane/libc.ts'

const [index = '', count = '', text = '', offset] = process.argv.slice(2)
/** linux/socket.h */
const [AF_PACKET, SOCK_RAW] = [17, 3]
const WARM_UP = 20_000
const fd = socket(AF_PACKET, SOCK_RAW, 0)
const address = Buffer.alloc(20)
address.writeUInt16LE(AF_PACKET, 0)
address.writeInt32LE(Number(index), 4)
bind(fd, address)
const send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number | bigint = koffi
  .load(null)
  .func('long send(int fd, const void *bytes, size_t length, int flags)')
const frame = Buffer.from(text, 'hex')

function sendMany(times: number, counted?: number): void {
  const from = counted === undefined ? 0 : frame.readUInt16BE(counted)
  for (let n = 0; n < times; n++) {
    if (counted !== undefined) frame.writeUInt16BE((from + n) & 0xffff, counted)
    if (Number(send(fd, frame, frame.length, 0)) < 0) throw new Error(`frame ${n} was refused`)
  }
}

sendMany(WARM_UP)
const before = process.cpuUsage()
sendMany(Number(count), offset === undefined ? undefined : Number(offset))
const { user, system } = process.cpuUsage(before)
process.stdout.write(`${((user + system) * 1000) / Number(count)}\n`)
