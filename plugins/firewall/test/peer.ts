/**
 * A machine on the network for packet tests: runs inside a namespace (see lab.ts), takes orders over the IPC channel and
 * answers each. It serves echo ports, and it asks: which targets answer, and which do not.
 */
import { spawn } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { once, setMaxListeners } from 'node:events'
import { connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { setTimeout as after } from 'node:timers/promises'

/** What is asked for an echo. The address tells the family. */
export interface Target {
  proto: 'tcp' | 'udp' | 'ping'
  host: string
  /** 0 for ping. */
  port: number
  /** Source address, when it matters. */
  from?: string
  /** Source port, when it matters. */
  sport?: number
  /** UDP: bytes to send, more than a frame holds for fragments. */
  size?: number
}

export type Order =
  /** Echo on `port`, both families; with `everyMs` it also speaks unasked to whoever spoke last. */
  | { do: 'serve'; proto: 'tcp' | 'udp'; port: number; everyMs?: number }
  | { do: 'probe'; pass: readonly Target[]; drop: readonly Target[] }
  | { do: 'open'; name: string; target: Target }
  | { do: 'hears'; name: string; say: boolean; ms: number }
  | { do: 'spray'; name: string; target: Target; fresh: boolean; everyMs: number }
  | { do: 'stop'; name: string }
  | { do: 'heard'; port: number; count: number }

/** How long something that shall answer may take until it counts as dead. */
export const PASS_MS = 5000
/** How long something that shall be silent is listened to; less where others of the same batch have answered. */
export const SILENT_MS = 300
const FENCED_MS = 120
/** What is being sprayed may still be on its way. */
const QUIET_MS = 50

/** A conversation that stays open. */
interface Talk {
  say(): void
  /** Bytes that came back so far. */
  heard: number
  /** Runs when something comes back. */
  wake(): void
}

const arrived = new Map<number, number>()
const talks = new Map<string, Talk>()
const sprays = new Map<string, () => Promise<number>>()
/** Every datagram socket gets a port of its own, or an old entry of conntrack could let a new one pass. */
const udpPort = { next: 10_000 }

async function carryOut(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'serve':
      return order.proto === 'tcp' ? serveTcp(order.port, order.everyMs) : serveUdp(order.port, order.everyMs)
    case 'probe':
      return probe(order.pass, order.drop)
    case 'open':
      return void talks.set(order.name, await open(order.target))
    case 'hears':
      return hears(known(talks, order.name), order.say, order.ms)
    case 'spray':
      return void sprays.set(order.name, await spray(order.target, order.fresh, order.everyMs))
    case 'stop':
      return known(sprays, order.name)()
    case 'heard':
      return heard(order.port, order.count)
  }
}

function known<T>(map: ReadonlyMap<string, T>, name: string): T {
  const found = map.get(name)
  if (found === undefined) throw new Error(`nothing is called ${name}`)
  return found
}

async function serveTcp(port: number, everyMs?: number): Promise<void> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {}).pipe(socket)
    if (everyMs === undefined) return
    const timer = setInterval(() => socket.write('tick'), everyMs)
    socket.once('close', () => clearInterval(timer))
  })
  await once(server.listen({ host: '::', port }), 'listening')
}

/** A socket for each address beside those for all of them, so that an answer carries the address that was asked. */
async function serveUdp(port: number, everyMs?: number): Promise<void> {
  arrived.set(port, 0)
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  const global = own.filter(({ address }) => !address.startsWith('fe80:')).map(({ address }) => address)
  for (const host of ['0.0.0.0', '::', ...global]) {
    const type = host.includes(':') ? 'udp6' : 'udp4'
    const socket = createSocket({ type, reuseAddr: true, ipv6Only: type === 'udp6', recvBufferSize: 1 << 20 })
    let timer: NodeJS.Timeout | undefined
    socket.on('message', (message, { address, port: from }) => {
      arrived.set(port, (arrived.get(port) ?? 0) + 1)
      socket.send(message, from, address, () => {})
      clearInterval(timer)
      if (everyMs !== undefined) timer = setInterval(() => socket.send('tick', from, address, () => {}), everyMs)
    })
    socket.bind(port, host)
    await once(socket, 'listening')
  }
}

/**
 * Which of the targets answered. Those of `pass` may take their time; when all have answered, those of `drop` have had
 * the same way and more time, and are listened to a little longer.
 */
async function probe(pass: readonly Target[], drop: readonly Target[]): Promise<{ pass: boolean[]; drop: boolean[] }> {
  const [over, late] = [new AbortController(), AbortSignal.timeout(PASS_MS)]
  setMaxListeners(0, over.signal, late)
  const silent = drop.map((target) => ask(target, over.signal))
  const answered = await Promise.all(pass.map((target) => ask(target, late)))
  if (drop.length > 0) await after(pass.length > 0 ? FENCED_MS : SILENT_MS)
  over.abort()
  return { pass: answered, drop: await Promise.all(silent) }
}

function ask(target: Target, over: AbortSignal): Promise<boolean> {
  if (target.proto === 'ping') return ping(target, over)
  return target.proto === 'tcp' ? knock(target, over) : echo(target, over)
}

/** Whether the connection is made and carries an echo. */
function knock({ host, port, from, sport }: Target, over: AbortSignal): Promise<boolean> {
  const local = { ...(from && { localAddress: from }), ...(sport && { localPort: sport }) }
  const socket = connect({ host, port, noDelay: true, ...local })
  return new Promise((resolve) => {
    const done = (answered: boolean) => {
      socket.on('error', () => {}).resetAndDestroy()
      resolve(answered)
    }
    socket.once('connect', () => socket.write('?'))
    socket.once('data', () => done(true)).once('error', () => done(false))
    over.addEventListener('abort', () => done(false))
  })
}

/** Asks every 100 ms, since nobody else repeats a lost datagram. */
async function echo(target: Target, over: AbortSignal): Promise<boolean> {
  const socket = await udpSocket(target)
  const send = () => socket.send(Buffer.alloc(target.size ?? 1), target.port, target.host, () => {})
  return new Promise((resolve) => {
    const timer = setInterval(send, 100)
    let open = true
    const done = (answered: boolean) => {
      clearInterval(timer)
      if (open) socket.close()
      open = false
      resolve(answered)
    }
    socket.once('message', () => done(true))
    over.addEventListener('abort', () => done(false))
    if (over.aborted) done(false)
    else send()
  })
}

async function udpSocket({ host, from, sport }: Target): Promise<Socket> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  if (udpPort.next === 60_000) udpPort.next = 10_000
  socket.on('error', () => {}).bind({ port: sport ?? udpPort.next++, ...(from && { address: from }) })
  await once(socket, 'listening')
  return socket
}

async function ping({ host, from }: Target, signal: AbortSignal): Promise<boolean> {
  const source = from === undefined ? [] : ['-I', from]
  const limits = ['-n', '-q', '-c', '1', '-W', String(PASS_MS / 1000)]
  const child = spawn('ping', [...limits, ...source, host], { stdio: 'ignore', signal })
  return new Promise((resolve) => child.on('error', () => {}).once('close', (code) => resolve(code === 0)))
}

async function open(target: Target): Promise<Talk> {
  const talk: Talk = { say: () => {}, heard: 0, wake: () => {} }
  const hear = (bytes: Buffer) => {
    talk.heard += bytes.length
    talk.wake()
  }
  if (target.proto === 'udp') {
    const socket = (await udpSocket(target)).on('message', hear)
    talk.say = () => socket.send('say', target.port, target.host, () => {})
    return talk
  }
  const { host, port, from } = target
  const socket = connect({ host, port, noDelay: true, ...(from && { localAddress: from }) })
  await once(socket, 'connect')
  socket.on('error', () => {}).on('data', hear)
  talk.say = () => socket.write('say')
  return talk
}

/** Whether anything comes back within `ms`, after a word of ours if `say`. What was on its way before does not count. */
async function hears(talk: Talk, say: boolean, ms: number): Promise<boolean> {
  await after(QUIET_MS)
  const before = talk.heard
  const over = new AbortController()
  talk.wake = () => over.abort()
  if (say) talk.say()
  await after(ms, undefined, { signal: over.signal }).catch(() => {})
  return talk.heard > before
}

/** Datagrams at a steady pace, all from one port or each from its own. Returns what ends it and tells their number. */
async function spray(target: Target, fresh: boolean, everyMs: number): Promise<() => Promise<number>> {
  const shared = await udpSocket(target)
  const pending = new Set<Promise<void>>()
  let sent = 0
  const one = async () => {
    const socket = fresh ? await udpSocket(target) : shared
    await new Promise<void>((resolve, reject) =>
      socket.send('spray', target.port, target.host, (error) => (error ? reject(error) : resolve())),
    )
    sent++
    if (fresh) socket.close()
  }
  const timer = setInterval(() => {
    const work = one().finally(() => pending.delete(work))
    pending.add(work)
  }, everyMs)
  return async () => {
    clearInterval(timer)
    await Promise.all(pending)
    shared.close()
    return sent
  }
}

/** How many datagrams a served port has received: as soon as it is `count`, or when no more come. */
async function heard(port: number, count: number): Promise<number> {
  const now = () => arrived.get(port) ?? 0
  for (let last = -1; now() < count && now() !== last; ) {
    last = now()
    await after(SILENT_MS)
  }
  return now()
}

process.on('message', ({ id, order }: { id: number; order: Order }) => {
  carryOut(order).then(
    (result) => process.send?.({ id, result }),
    (error: unknown) => process.send?.({ id, problem: String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))
process.send?.({ id: 0 })
