/** Frames out of a device of our own network namespace, as they are (packet(7)). */
import koffi from 'koffi'
import { bind, socket } from '../dataplane/libc.ts'

/** linux/socket.h */
const [AF_PACKET, SOCK_RAW] = [17, 3]

/** What it returns waits for room, and throws when a frame is refused. */
export function frameSender(ifindex: number): (frame: Buffer) => void {
  const fd = socket(AF_PACKET, SOCK_RAW, 0)
  const address = Buffer.alloc(20)
  address.writeUInt16LE(AF_PACKET, 0)
  address.writeInt32LE(ifindex, 4)
  bind(fd, address)
  const send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number | bigint = koffi
    .load(null)
    .func('long send(int fd, const void *bytes, size_t length, int flags)')
  return (frame) => {
    if (Number(send(fd, frame, frame.length, 0)) < 0) throw new Error('a frame was refused')
  }
}
