/** The client of the DHCP bench, in a process of its own: frames of as many MACs as asked for, on the far end of the cable. */
import { setImmediate as turn } from 'node:timers/promises'
import { ethernet, ipv4, PROTOCOL, TYPE, udp } from '../../dataplane/bpf/port/test/packet.ts'
import { EAGAIN } from '../../dataplane/errno.ts'
import { bind, deviceIndex, receive, sendNow, socket } from '../../dataplane/libc.ts'
import { ask } from '../../responder/dhcp/test/client.ts'
import { macOf } from './dhcp.ts'

export interface ClientTask {
  first: number
  count: number
  window: number
}

/** linux/socket.h, linux/if_ether.h */
const [AF_PACKET, SOCK_RAW, SOCK_NONBLOCK, ETH_P_IP, MSG_DONTWAIT] = [17, 3, 0o4000, 0x0008, 0x40]
const EVERYBODY = 'ff:ff:ff:ff:ff:ff'
/** Where in a frame the message of a reply begins, and in it the transaction and the type, which comes first. */
const [MESSAGE, XID, KIND] = [14 + 20 + 8, 4, 242]
const [OFFER, ACK] = [2, 5]
/** Nothing came for so long: what is missing is lost. */
const PATIENCE_MS = 5000

if (process.send) {
  const fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, ETH_P_IP)
  // struct sockaddr_ll
  const address = Buffer.alloc(20)
  address.writeUInt16LE(AF_PACKET, 0)
  address.writeUInt16LE(ETH_P_IP, 2)
  address.writeInt32LE(deviceIndex('client0'), 4)
  bind(fd, address)
  process.on('message', (task: ClientTask) => void exchange(fd, task).then((done) => process.send?.({ done })))
  process.send('ready')
}

async function exchange(fd: number, { first, count, window }: ClientTask): Promise<number> {
  const buffer = Buffer.alloc(2048)
  let [sent, done, heard] = [0, 0, performance.now()]
  const frame = (n: number, rest: Parameters<typeof ask>[0]) => {
    const message = ask({ mac: macOf(n), xid: n, ...rest })
    return ethernet(
      EVERYBODY,
      macOf(n),
      TYPE.ipv4,
      ipv4('0.0.0.0', '255.255.255.255', PROTOCOL.udp, udp(68, 67, message)),
    )
  }
  while (done < count && performance.now() - heard < PATIENCE_MS) {
    while (sent < count && sent - done < window) sendNow(fd, frame(first + sent++, {}))
    for (let size = receive(fd, buffer, MSG_DONTWAIT); size !== -EAGAIN; size = receive(fd, buffer, MSG_DONTWAIT)) {
      if (size < MESSAGE + KIND || buffer.readUInt16BE(36) !== 68) continue
      heard = performance.now()
      const [n, kind] = [buffer.readUInt32BE(MESSAGE + XID), buffer[MESSAGE + KIND]]
      if (kind === ACK) done++
      if (kind !== OFFER) continue
      const wants = Array.from(buffer.subarray(MESSAGE + 16, MESSAGE + 20)).join('.')
      sendNow(fd, frame(n, { type: 3, wants, server: '10.1.0.1' }))
    }
    await turn()
  }
  return done
}
