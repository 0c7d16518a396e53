/** Packets from a neighbour on a cable, byte by byte, and which of them got past the classifier of this namespace. */
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import koffi from 'koffi'
import { frame, tap } from '../../../../test/frames.ts'
import { type Netns, netns, type Scope } from '../../../../test/netns.ts'
import { parsePrefix } from '../../../nft/text.ts'

export const NEAR = { 4: '198.18.0.1', 6: 'fd18::1' } as const
export const FAR = { 4: '198.18.0.2', 6: 'fd18::2' } as const
const TCP = 6
const UDP = 17

/** What nft has: in front of the classifier as the area does it, and behind it who got there. */
const BEFORE = (spared: string) => `
table inet before {
  chain firewall {
    type filter hook prerouting priority -150; policy accept;
    ct state established,related accept
    ${spared}
  }
}`
/** Port of the packet by which is told that all before it were judged: it comes by the same queue. */
const MARKER = 65_432
const BEHIND = `
table inet behind {
  set passed4 { typeof ip id; flags dynamic; size 65535; }
  set passed6 { typeof ip6 flowlabel; flags dynamic; size 65535; }
  counter marked { }
  chain came {
    type filter hook prerouting priority -300; policy accept;
    udp dport ${MARKER} counter name marked drop
  }
  chain passed {
    type filter hook prerouting priority -100; policy accept;
    meta nfproto ipv4 add @passed4 { ip id }
    meta nfproto ipv6 add @passed6 { ip6 flowlabel }
  }
}`

/** Takes the mark from whoever brings it; marks what IPv6 needs to find its neighbours. */
export const SPARED = `meta priority ffff:5354 meta priority set 0:0
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } meta priority set ffff:5354`

export interface Wire {
  peer: Netns
  /** Of the neighbour. */
  mac: string
  /** Sends packets, each with the number it is told by; resolves to the numbers of those that got past, in order. */
  send(...packets: ((id: number) => Buffer | Buffer[])[]): Promise<boolean[]>
  /** Loads a ruleset in place of what stands before the classifier. */
  before(spared: string | undefined): void
  nft(text: string): void
}

/** Lays `near` of this namespace to a neighbour that says nothing by itself. */
export function wire(t: Scope, spared = ''): Wire {
  const run = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const peer = netns(t, 'peer')
  run('link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far', 'netns', peer.name)
  t.teardown(() => run('link', 'del', 'near'))
  peer.run('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1')
  run('address', 'add', `${NEAR[4]}/24`, 'dev', 'near')
  run('address', 'add', `${NEAR[6]}/64`, 'dev', 'near', 'nodad')
  run('link', 'set', 'near', 'up')
  peer.run('ip', 'link', 'set', 'far', 'up')
  execFileSync('sysctl', ['-qw', 'net.netfilter.nf_conntrack_checksum=0'])
  const nft = (text: string) => void execFileSync('nft', ['-f', '-'], { input: text })
  const before = (text: string | undefined) =>
    nft(`table inet before\ndelete table inet before\n${text === undefined ? '' : BEFORE(text)}`)
  before(spared)
  nft(BEHIND)
  t.teardown(() => nft('table inet before\ndelete table inet before\ntable inet behind\ndelete table inet behind\n'))
  const far = tap(t, peer, 'far')
  for (const family of [4, 6] as const) run('neighbour', 'add', FAR[family], 'lladdr', far.mac, 'dev', 'near')
  const [link] = JSON.parse(execFileSync('ip', ['-j', 'link', 'show', 'near'], { encoding: 'utf8' })) as {
    address: string
  }[]
  const to = link?.address ?? ''
  let [next, marked] = [1, 0]
  const count = () => {
    const text = execFileSync('nft', ['-j', 'list', 'counter', 'inet', 'behind', 'marked'], { encoding: 'utf8' })
    const { nftables } = JSON.parse(text) as { nftables: { counter?: { packets: number } }[] }
    return nftables.find((one) => one.counter)?.counter?.packets ?? 0
  }
  const passed = () => {
    const text = ['passed4', 'passed6'].map((set) => execFileSync('nft', ['-j', 'list', 'set', 'inet', 'behind', set]))
    const found = text.flatMap(
      (it) => (JSON.parse(String(it)) as { nftables: { set?: { elem?: number[] } }[] }).nftables,
    )
    return new Set(found.flatMap(({ set }) => set?.elem ?? []))
  }
  return {
    peer,
    mac: far.mac,
    before,
    nft,
    async send(...packets) {
      const first = next
      for (const make of packets) {
        for (const packet of [make(next++)].flat()) {
          const type = (packet[0] ?? 0) >> 4 === 4 ? 0x0800 : 0x86dd
          far.send(frame({ to, from: far.mac, type }, packet))
        }
      }
      far.send(frame({ to, from: far.mac, type: 0x0800 }, udp4(1, MARKER)(0)))
      marked++
      do await new Promise(setImmediate)
      while (count() < marked)
      const got = passed()
      return packets.map((_, n) => got.has(first + n))
    },
  }
}

const libc = koffi.load(null)
const ioctl: (fd: number, request: number, argument: Buffer) => number = libc.func(
  'int ioctl(int fd, unsigned long request, void *argument)',
)
/** linux/if_tun.h */
const TUNSETIFF = 0x400454ca
const IFF_TUN_NO_PI = 0x1001

/** A device of packets without any link layer; what is written to it comes in by it. */
export function tun(t: Scope, name: string): (packet: Buffer) => void {
  const fd = openSync('/dev/net/tun', 'r+')
  t.teardown(() => closeSync(fd))
  const request = Buffer.alloc(40)
  request.write(name, 'latin1')
  request.writeUInt16LE(IFF_TUN_NO_PI, 16)
  if (ioctl(fd, TUNSETIFF, request) < 0) throw new Error(`cannot make ${name}`)
  execFileSync('ip', ['link', 'set', name, 'up'])
  return (packet) => void writeSync(fd, packet)
}

const bytesOf = (address: string): number[] => [...(parsePrefix(address)?.bytes ?? [])]

export interface Ip {
  from?: string
  protocol: number
  payload: Buffer
  /** Bytes behind the first 20, a multiple of 4. */
  options?: Buffer
  /** Offset in bytes, and whether more fragments come. */
  fragment?: [offset: number, more: boolean]
}

export function ip4(id: number, { from = FAR[4], protocol, payload, options = Buffer.alloc(0), fragment }: Ip): Buffer {
  const head = Buffer.alloc(20)
  head[0] = 0x45 + options.length / 4
  head.writeUInt16BE(20 + options.length + payload.length, 2)
  head.writeUInt16BE(id, 4)
  if (fragment) head.writeUInt16BE(fragment[0] / 8 + (fragment[1] ? 0x2000 : 0), 6)
  head[8] = 64
  head[9] = protocol
  head.set([...bytesOf(from), ...bytesOf(NEAR[4])], 12)
  const all = Buffer.concat([head, options])
  let sum = 0
  for (let at = 0; at < all.length; at += 2) sum += all.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  all.writeUInt16BE(~sum & 0xffff, 10)
  return Buffer.concat([all, payload])
}

/** `headers`: extension headers, each as type and content whose first byte is set here. */
export function ip6(id: number, ip: Ip, headers: readonly [type: number, content: Buffer][] = []): Buffer {
  const { from = FAR[6], protocol, payload } = ip
  const types = [...headers.map(([type]) => type), protocol]
  const chain = headers.map(([, content], n) => Buffer.concat([Buffer.of(types[n + 1] ?? 0), content.subarray(1)]))
  const rest = Buffer.concat([...chain, payload])
  const head = Buffer.alloc(40)
  head.writeUInt32BE(0x6000_0000 + id, 0)
  head.writeUInt16BE(rest.length, 4)
  head[6] = types[0] ?? 0
  head[7] = 255
  head.set([...bytesOf(from), ...bytesOf(NEAR[6])], 8)
  return Buffer.concat([head, rest])
}

/** An extension header of `length` bytes; `length / 8 - 1` stands in its second byte, as for all but AH. */
export function extension(length: number): Buffer {
  const out = Buffer.alloc(length)
  out[1] = length / 8 - 1
  // PadN
  out.set([1, length - 4], 2)
  return out
}

/** The fragment header. */
export function fragment6(id: number, offset: number, more: boolean): Buffer {
  const out = Buffer.alloc(8)
  out.writeUInt16BE(offset + (more ? 1 : 0), 2)
  out.writeUInt32BE(id, 4)
  return out
}

export function udp(sourcePort: number, destPort: number, size = 16): Buffer {
  const out = Buffer.alloc(8 + size)
  out.writeUInt16BE(sourcePort, 0)
  out.writeUInt16BE(destPort, 2)
  out.writeUInt16BE(out.length, 4)
  return out
}

export const SYN = 2
export const RST = 4

export function tcp(sourcePort: number, destPort: number, flags: number): Buffer {
  const out = Buffer.alloc(20)
  out.writeUInt16BE(sourcePort, 0)
  out.writeUInt16BE(destPort, 2)
  out[12] = 0x50
  out[13] = flags
  out.writeUInt16BE(1024, 14)
  return out
}

export const udp4 =
  (sourcePort: number, destPort: number, more: Partial<Ip> = {}) =>
  (id: number) =>
    ip4(id, { protocol: UDP, payload: udp(sourcePort, destPort), ...more })
export const udp6 =
  (sourcePort: number, destPort: number, headers: readonly [number, Buffer][] = []) =>
  (id: number) =>
    ip6(id, { protocol: UDP, payload: udp(sourcePort, destPort) }, headers)
export const tcp4 = (sourcePort: number, destPort: number, flags: number) => (id: number) =>
  ip4(id, { protocol: TCP, payload: tcp(sourcePort, destPort, flags) })
