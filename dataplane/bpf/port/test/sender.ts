/**
 * A process of its own that sends a numbered stream on an interface of its namespace: `sender.js <ifindex> <most> <frame>
 * <frame>`, the frames in hexadecimal and taking turns. The number stands behind the UDP header and `strt`, little-endian.
 * Ends when its input does, or after so many, and prints how many there were.
 */
import { frameSender } from '../../../../test/raw-socket.ts'

const [index = '', most = '', ...frames] = process.argv.slice(2)
const send = frameSender(Number(index))
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
    send(frame)
  }
  await new Promise(setImmediate)
}
process.stdout.write(`${state.sent}\n`)
process.exit()
