/**
 * The driver in the namespace of this process (imported after test/inside.ts), and what iproute2 says of that namespace,
 * which knows nothing of the driver.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import type { Scope } from '../../../test/netns.ts'
import { type Entry, type Passage, passages } from '../../entry.ts'
import { KernelError } from '../../libc.ts'
import { NETLINK_ROUTE } from '../bind.ts'
import { type NetlinkDriver, openNetlinkDriver } from '../driver.ts'
import type { NetlinkEntry } from '../entries.ts'
import { type Netlink, openNetlink } from '../socket.ts'

export const OWNERS = new Map([
  ['x', 240],
  ['y', 241],
])

/** Runs iproute2 or another command; throws with its stderr when it fails. */
export function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

export const ip = (...args: string[]): string => run('ip', ...args)

type Row = Record<string, unknown>

/** What iproute2 says to several questions, by one process. */
function rows(family: '-4' | '-6', ...questions: string[]): Row[][] {
  const input = questions.map((line) => `${line}\n`).join('')
  const said = execFileSync('ip', [family, '-j', '-d', '-batch', '-'], { encoding: 'utf8', input })
  const answers: Row[][] = said.split('\n').flatMap((line) => (line.startsWith('[') ? [JSON.parse(line)] : []))
  return questions.map((_, at) => (answers[at] ?? []).filter((row) => Object.keys(row).length > 0))
}

/** Sysctls of every device, as the files have them. */
function settings(): string[] {
  return ['ipv4', 'ipv6'].flatMap((family) => {
    const conf = `/proc/sys/net/${family}/conf`
    const files = readdirSync(conf).flatMap((dev) =>
      readdirSync(`${conf}/${dev}`).map((name) => `${conf}/${dev}/${name}`),
    )
    // This one cannot be read before it was set.
    return files
      .filter((path) => !path.endsWith('/stable_secret'))
      .map((path) => `${path} ${readFileSync(path, 'utf8').trim()}`)
  })
}

const pick = (row: Row, ...names: string[]): Row =>
  Object.fromEntries(names.flatMap((name) => (row[name] === undefined ? [] : [[name, row[name]]])))

/** Makes the kernel do nothing by itself that would differ from one moment to the next. */
export function quiet(): void {
  run('sysctl', '-qw', 'net.ipv6.conf.all.addr_gen_mode=1', 'net.ipv6.conf.default.addr_gen_mode=1')
}

export interface Dump {
  links: Row[]
  addresses: Row[]
  routes: Row[]
  rules: Row[]
  neighbours: Row[]
  /** Where VXLAN devices send frames: `<mac> dev <device> dst <vtep>`. */
  forwarding: string[]
  /** Sysctls of every device. */
  settings: string[]
}

/** All of the namespace that a change may touch, ours and foreign, in an order that does not depend on its history. */
export function dump(): Dump {
  const [links = [], addresses4 = [], routes4 = [], rules4 = [], neighbours4 = []] = rows(
    '-4',
    'link',
    'address',
    'route show table all',
    'rule',
    'neigh',
  )
  const [addresses6 = [], routes6 = [], rules6 = [], neighbours6 = []] = rows(
    '-6',
    'address',
    'route show table all',
    'rule',
    'neigh',
  )
  return {
    links: sorted(links.map(linkRow)),
    addresses: sorted([...addresses4, ...addresses6].flatMap(addressRows)),
    routes: sorted(
      // The kernel makes its own for every link and address of IPv6, some time after these.
      [...routes4, ...routes6.filter(({ table }) => table !== 'local')].map((row) =>
        pick(row, 'type', 'dst', 'gateway', 'via', 'dev', 'protocol', 'metric', 'table', 'scope', 'prefsrc'),
      ),
    ),
    rules: sorted([...rules4.map((row) => ({ version: 4, ...row })), ...rules6.map((row) => ({ version: 6, ...row }))]),
    neighbours: sorted([...neighbours4, ...neighbours6].map((row) => pick(row, 'dst', 'dev', 'lladdr', 'state'))),
    forwarding: Array.from(
      run('bridge', 'fdb').matchAll(/^\S+ dev \S+ dst \S+(?= .*permanent)/gm),
      ([line]) => line,
    ).sort(),
    settings: settings().sort(),
  }
}

function addressRows(row: Row): Row[] {
  return ((row.addr_info ?? []) as Row[]).map((info) => ({
    dev: row.ifname,
    ...pick(info, 'family', 'local', 'prefixlen', 'scope', 'noprefixroute', 'nodad', 'address'),
  }))
}

function linkRow(row: Row): Row {
  const info = (row.linkinfo ?? {}) as { info_kind?: string; info_data?: Row; info_slave_data?: Row }
  const flags = (row.flags as string[]).includes('UP')
  return {
    ...pick(row, 'ifname', 'mtu', 'address', 'master', 'ifalias', 'group', 'link'),
    up: flags,
    kind: info.info_kind,
    cost: info.info_slave_data?.cost,
    isolated: info.info_slave_data?.isolated,
    data: pick(
      info.info_data ?? {},
      'stp_state',
      'mcast_snooping',
      'nf_call_iptables',
      'nf_call_ip6tables',
      'id',
      'port',
      'local',
      'local6',
      'link',
      'learning',
      'ttl',
    ),
  }
}

function sorted(list: Row[]): Row[] {
  return list.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}

/** A socket that counts what is sent, and can be told to have the kernel refuse. */
export interface Rigged {
  socket: Netlink
  messages: number
  dumps: number
  /** Commands for which this is true are not sent, and refused with EIO. `n` counts them from 1. */
  refuse: (n: number) => boolean
  /** Commands so far. */
  commands: number
}

const EIO = 5

export function riggedSocket(): Rigged {
  const socket = openNetlink(NETLINK_ROUTE)
  const rigged: Rigged = { socket, messages: 0, dumps: 0, commands: 0, refuse: () => false }
  rigged.socket = {
    async request(messages) {
      const all = [...messages]
      rigged.messages += all.length
      const refused = all.map(() => rigged.refuse(++rigged.commands))
      const errors = await socket.request(all.filter((_, at) => !refused[at]))
      return refused.map((it) => (it ? new KernelError(EIO) : errors.shift()))
    },
    command: (message) => socket.command(message),
    ask(message) {
      rigged.messages++
      return socket.ask(message)
    },
    askEach(messages) {
      const all = [...messages]
      rigged.messages += all.length
      return socket.askEach(all)
    },
    port: () => socket.port(),
    dump(type, payload, decode) {
      rigged.dumps++
      return socket.dump(type, payload, decode)
    },
    close: () => socket.close(),
  }
  return rigged
}

/** A driver that has observed, closed when the test ends. */
export async function openDriver(t: Scope, openSocket?: () => Netlink): Promise<NetlinkDriver> {
  const driver = await openNetlinkDriver({ owners: OWNERS, ...(openSocket && { openSocket }) })
  t.teardown(() => driver.close())
  await driver.observe([])
  return driver
}

/** What leads from what the driver observes to `desired`. */
export async function differing(driver: NetlinkDriver, desired: readonly Entry[]): Promise<Passage[]> {
  return passages(await driver.observe(desired), desired)
}

export const added = (...entries: NetlinkEntry[]): Passage[] => entries.map((after) => ({ after }))
export const removed = (...entries: NetlinkEntry[]): Passage[] => entries.map((before) => ({ before }))
export const changed = (before: NetlinkEntry, after: NetlinkEntry): Passage[] => [{ before, after }]

/** Applies as a change does, and returns how to take it back. */
export async function change(driver: NetlinkDriver, diff: readonly Passage[]): Promise<() => Promise<void>> {
  const undo = await driver.apply(diff)
  if (!undo) throw new TypeError('the netlink driver tells how to take a change back')
  return undo
}

/** A foreign link that is up, with a neighbourhood: `<name>` and its other end `<name>p`. */
export function site(name: string): void {
  ip('link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}p`)
  ip('link', 'set', `${name}p`, 'up')
  ip('link', 'set', name, 'up')
  ip('address', 'add', '10.1.0.1/24', 'dev', name)
  ip('address', 'add', 'fd01::1/64', 'dev', name, 'nodad')
}
