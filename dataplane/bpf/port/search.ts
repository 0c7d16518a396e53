/**
 * Finds the ports of bound MACs that keep silent. A port belongs to a network from the first frame of a bound MAC on, so a
 * guest that never speaks first would never be spoken to. It is asked by ARP for its own address, at every port that is
 * nobody's; the answer is that first frame. The question has no sender address, so it leaves no trace in the guest
 * (RFC 5227 section 2.1.1), and goes to the guest's MAC alone.
 */
import { close, KernelError, sendTo, setOption, socket } from '../../libc.ts'
import { addressBytes, macBytes } from '../../netlink/inet.ts'
import { PORT_ROWS, STAMP } from '../../numbers.ts'
import type { Binding } from './entries.ts'

/** linux/if_packet.h, asm-generic/socket.h, linux/if_ether.h, linux/if_arp.h */
const AF_PACKET = 17
const SOCK_RAW = 3
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_MARK = 36
const ETH_P_ARP = 0x0806
const ETH_P_IP = 0x0800
const ARPHRD_ETHER = 1
const ARPOP_REQUEST = 1

/** Locally administered, of nobody: the guest answers to it, and the programs see to it that the answer goes nowhere. */
const ASKER = '02:73:74:00:00:01'

const TICK_MS = 200
/** Before the first question for a MAC, before the second, and so on; the last pause is that of all that follow. */
const PAUSES_MS = [0, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]
/** For so long a MAC is asked for. */
const GIVE_UP_MS = 600_000
/** A flood of attaches must become neither a flood of questions nor one of work: so many MACs are looked at a tick, … */
const MACS_A_TICK = 128
/** … and so many frames sent; one question at every port there can be is among them. */
const FRAMES_A_TICK = PORT_ROWS

export interface SearchParts {
  /** Whether the MAC is at a port of its network, or is no longer bound. */
  found(binding: Binding): boolean
  /** Guarded ports that are nobody's. */
  openPorts(): { ifindex: number }[]
  onProblem(error: unknown): void
}

export interface Search {
  begin(binding: Binding): void
  close(): void
}

interface Wanted {
  binding: Binding
  began: number
  next: number
}

export function openSearch({ found, openPorts, onProblem }: SearchParts): Search {
  /** By pause, in each the one that is due first at the front: a tick costs what is due, not what is wanted. */
  const queues = PAUSES_MS.map((pause) => ({ pause, wanted: new Map<string, Wanted>() }))
  const fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)
  // Stamped as of no network: it leaves by ports of none.
  setOption(fd, SOL_SOCKET, SO_MARK, STAMP)
  let timer: NodeJS.Timeout | undefined

  function ask({ mac, address }: Binding, ports: readonly { ifindex: number }[]): void {
    const frame = question(mac, address)
    for (const { ifindex } of ports) {
      try {
        sendTo(fd, frame, place(ifindex))
      } catch (error) {
        // The port is gone or down, or its queue is full: the next question comes.
        if (!(error instanceof KernelError)) throw error
      }
    }
  }

  function tick(): void {
    const now = performance.now()
    const ports = openPorts()
    let [macs, frames] = [MACS_A_TICK, FRAMES_A_TICK]
    for (const [at, { wanted }] of queues.entries()) {
      const following = queues[at + 1] ?? queues[at]
      for (const [key, one] of wanted) {
        if (one.next > now || macs <= 0 || frames <= 0) break
        macs--
        wanted.delete(key)
        if (found(one.binding) || now - one.began > GIVE_UP_MS) continue
        ask(one.binding, ports)
        frames -= ports.length
        following?.wanted.set(key, { ...one, next: now + following.pause })
      }
    }
    timer = queues.some(({ wanted }) => wanted.size > 0) ? setTimeout(run, TICK_MS).unref() : undefined
  }

  function run(): void {
    try {
      tick()
    } catch (error) {
      timer = undefined
      onProblem(error)
    }
  }

  return {
    begin(binding) {
      const now = performance.now()
      for (const { wanted } of queues) wanted.delete(binding.key)
      queues[0]?.wanted.set(binding.key, { binding, began: now, next: now })
      timer ??= setTimeout(run, 0).unref()
    },
    close() {
      clearTimeout(timer)
      for (const { wanted } of queues) wanted.clear()
      close(fd)
    },
  }
}

/** An ARP request for `address` to `mac` (RFC 826), padded to the least size of a frame. */
function question(mac: string, address: string): Buffer {
  const frame = Buffer.alloc(60)
  frame.set(macBytes(mac), 0)
  frame.set(macBytes(ASKER), 6)
  frame.writeUInt16BE(ETH_P_ARP, 12)
  frame.writeUInt16BE(ARPHRD_ETHER, 14)
  frame.writeUInt16BE(ETH_P_IP, 16)
  frame.writeUInt8(6, 18)
  frame.writeUInt8(4, 19)
  frame.writeUInt16BE(ARPOP_REQUEST, 20)
  frame.set(macBytes(ASKER), 22)
  frame.set(addressBytes(address), 38)
  return frame
}

/** struct sockaddr_ll: by which device it leaves. */
function place(ifindex: number): Buffer {
  const address = Buffer.alloc(20)
  address.writeUInt16LE(AF_PACKET, 0)
  address.writeUInt16BE(ETH_P_ARP, 2)
  address.writeInt32LE(ifindex, 4)
  address.writeUInt8(6, 11)
  return address
}
