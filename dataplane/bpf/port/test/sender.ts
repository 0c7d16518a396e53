/**
 * A process of its own that sends a numbered stream on an interface of its namespace: `sender.js <ifindex> <most> <frame>
 * <frame>`, the frames in hexadecimal and taking turns. The number stands behind the UDP header and `strt`, little-endian.
 * Ends when its input does, or after so many, and prints how many there were.
 */
import koffi from 'koffi'
import { bind, socket } from '../../../libc.ts'

const [index = '', most = '', ...frames] = process.argv.slice(2)
/** linux/socket.h */
const [AF_PACKET, SOCK_RAW] = [17, 3]
const fd = socket(AF_PACKET, SOCK_RAW, 0)
const address = Buffer.alloc(20)
address.writeUInt16LE(AF_PACKET, 0)
address.writeInt32LE(Number(index), 4)
bind(fd, address)

const send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number | bigint = koffi
  .load(null)
  .func('long send(int fd, const void *bytes, size_t length, int flags)')
const NUMBER_AT = 14 + 20 + 8 + 4
const two = frames.map((frame) => Buffer.from(frame, 'hex'))
const state = { sent: 0, ended: false }
process.stdin.on('end', () => {
  state.ended = true
})
process.stdin.resume()
while (!state.ended && state.sent < Number(most)) {
  for (let burst = 0; burst < 1000; burst++, state.sent++) {
    const frame = two[state.sent % two.length] ?? Buffer.alloc(0)
    frame.writeUInt32LE(state.sent, NUMBER_AT)
    if (Number(send(fd, frame, frame.length, 0)) < 0) throw new Error(`frame ${state.sent} was refused`)
  }
  await new Promise(setImmediate)
}
process.stdout.write(`${state.sent}\n`)
process.exit()
