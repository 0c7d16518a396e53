/** Raw frames on an interface of any namespace: sent as they are, received with the tag that the kernel took out. */
import { closeSync } from 'node:fs'
import koffi from 'koffi'
import type { Netns, Scope } from '../../../../test/netns.ts'
import { EAGAIN } from '../../../errno.ts'
import { bind, inNamespace, KernelError, setOption, socket } from '../../../libc.ts'

/** linux/socket.h, linux/if_ether.h, linux/if_packet.h */
const [AF_PACKET, SOCK_RAW, ETH_P_ALL, SOL_PACKET] = [17, 3, 3, 263]
const [PACKET_AUXDATA, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING] = [8, 15, 23]
const TP_STATUS_VLAN_VALID = 0x10
const MSG_DONTWAIT = 0x40
/** asm-generic/socket.h */
const [SOL_SOCKET, SO_RCVBUFFORCE] = [1, 33]

const LARGEST = 70_000

interface Iovec {
  iov_base: Buffer
  iov_len: number
}
interface Msghdr {
  msg_name: null
  msg_namelen: number
  msg_iov: Iovec[]
  msg_iovlen: number
  msg_control: Buffer
  msg_controllen: number
  msg_flags: number
}
koffi.struct('stage_iovec', { iov_base: 'void *', iov_len: 'size_t' })
koffi.struct('stage_msghdr', {
  msg_name: 'void *',
  msg_namelen: 'uint32_t',
  msg_iov: 'stage_iovec *',
  msg_iovlen: 'size_t',
  msg_control: 'void *',
  msg_controllen: 'size_t',
  msg_flags: 'int',
})
const libc = koffi.load(null)
const recvmsg: (fd: number, message: Msghdr, flags: number) => number | bigint = libc.func(
  'long recvmsg(int fd, _Inout_ stage_msghdr *message, int flags)',
)
const send: (fd: number, bytes: Uint8Array, length: number, flags: number) => number | bigint = libc.func(
  'long send(int fd, const void *bytes, size_t length, int flags)',
)

/** struct virtio_net_hdr: a TCP frame over IPv4 that is still to be cut into parts of `size` bytes. */
export function segmented(frame: Buffer, size: number): Buffer {
  const header = Buffer.alloc(10)
  // Checksum needed; TCP over IPv4; length of all headers; where the checksum begins and stands.
  const network = 14 + (frame.readUInt16BE(12) === 0x8100 ? 4 : 0)
  header[0] = 1
  header[1] = 1
  header.writeUInt16LE(network + 20 + ((frame[network + 32] ?? 0) >> 4) * 4, 2)
  header.writeUInt16LE(size, 4)
  header.writeUInt16LE(network + 20, 6)
  header.writeUInt16LE(16, 8)
  return Buffer.concat([header, frame])
}

export class Wire {
  readonly #fd: number

  /** Opens the interface; with `vnet` every frame sent is preceded by a struct virtio_net_hdr. Closed at the end. */
  constructor(t: Scope, ns: Pick<Netns, 'path' | 'run'>, name: string, { vnet = false } = {}) {
    const index = Number(/^([0-9]+):/.exec(ns.run('ip', '-o', 'link', 'show', 'dev', name))?.[1])
    this.#fd = inNamespace(ns.path, () => socket(AF_PACKET, SOCK_RAW, 0))
    t.teardown(() => closeSync(this.#fd))
    setOption(this.#fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    setOption(this.#fd, SOL_PACKET, PACKET_AUXDATA, 1)
    setOption(this.#fd, SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    if (vnet) setOption(this.#fd, SOL_PACKET, PACKET_VNET_HDR, 1)
    const address = Buffer.alloc(20)
    address.writeUInt16LE(AF_PACKET, 0)
    address.writeUInt16BE(ETH_P_ALL, 2)
    address.writeInt32LE(index, 4)
    bind(this.#fd, address)
  }

  send(frame: Uint8Array): void {
    if (Number(send(this.#fd, frame, frame.length, 0)) < 0) throw new KernelError(koffi.errno())
  }

  /** The next frame that came in, none while there is none. */
  receive(): Buffer | undefined {
    const [data, control] = [Buffer.alloc(LARGEST), Buffer.alloc(64)]
    const message: Msghdr = {
      msg_name: null,
      msg_namelen: 0,
      msg_iov: [{ iov_base: data, iov_len: data.length }],
      msg_iovlen: 1,
      msg_control: control,
      msg_controllen: control.length,
      msg_flags: 0,
    }
    const length = Number(recvmsg(this.#fd, message, MSG_DONTWAIT))
    if (length < 0 && koffi.errno() === EAGAIN) return undefined
    if (length < 0) throw new KernelError(koffi.errno())
    return withTag(data.subarray(0, length), control)
  }

  /** Everything that has come in. */
  drain(): Buffer[] {
    const frames: Buffer[] = []
    for (let frame = this.receive(); frame; frame = this.receive()) frames.push(frame)
    return frames
  }
}

/** struct cmsghdr (16 bytes) and struct tpacket_auxdata. */
function withTag(frame: Buffer, control: Buffer): Buffer {
  if ((control.readUInt32LE(16) & TP_STATUS_VLAN_VALID) === 0) return Buffer.from(frame)
  const tag = Buffer.alloc(4)
  tag.writeUInt16BE(control.readUInt16LE(34), 0)
  tag.writeUInt16BE(control.readUInt16LE(32), 2)
  return Buffer.concat([frame.subarray(0, 12), tag, frame.subarray(12)])
}
