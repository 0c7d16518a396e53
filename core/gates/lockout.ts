import type { Config } from '../config.ts'
import { type ApiError, tooMany } from '../errors.ts'
import { forgetting } from './forget.ts'
import type { Gate } from './gate.ts'

/** A source address that is blocked now. */
export interface Block {
  /** Address, or the /64 of an IPv6 one. */
  address: string
  /** RFC 3339 UTC. */
  until: string
  failures: number
}

/** Where credentials are presented. */
export type Transport = 'rest' | 'grpc' | 'events' | 'cluster'
/** A block at the moment of the failure that brought it. */
export type NewBlock = Block & { transport: Transport }

interface Record {
  /** Milliseconds of the failures within the window, oldest first. */
  failures: number[]
  blockedUntil: number
  /** Failures that led to the block. */
  counted: number
}

export interface Lockout {
  gate: Gate
  /** The refusal for a blocked address, for the transports that have no Fastify request. */
  refusal(key: string): ApiError | undefined
  /** Counts a credential that was presented and is wrong. */
  fail(key: string, transport?: Transport): void
  blocks(): Block[]
  /** How many of them there are. */
  blockCount(): number
  unblock(address: string): boolean
  /** Takes a block over that was made elsewhere; nobody is told. Without effect where a longer one stands. */
  impose(block: Block): void
  /** Ends a block that was ended elsewhere; nobody is told. */
  lift(address: string): void
  /** Is told of every block that is made here, a longer one of an address that is blocked included. Returns how to stop that. */
  onBlock(listener: (block: Block) => void): () => void
  /** Is told of every address that is unblocked here. Returns how to stop that. */
  onUnblock(listener: (address: string) => void): () => void
}

/** More addresses than this are not remembered: the ones whose failures lie longest back go first. */
const MAX_ADDRESSES = 100_000

/**
 * D36: as many failures within the window as the limit says block the source address for a while.
 * Success does not clear the count. In memory only: a restart forgets. `blocked` is told of every new block.
 */
export function lockout(config: Config, now: () => number, blocked: (block: NewBlock) => void = () => {}): Lockout {
  const records = new Map<string, Record>()
  const [blockListeners, unblockListeners] = [new Set<(block: Block) => void>(), new Set<(address: string) => void>()]
  const limits = { failures: 0, windowMs: 0, blockMs: 0 }
  const read = () => {
    limits.failures = config.int('api_auth_fail_limit')
    limits.windowMs = config.int('api_auth_fail_window') * 1000
    limits.blockMs = config.int('api_auth_block_seconds') * 1000
  }
  read()
  config.onChange((key) => key.startsWith('api_auth_') && read())
  const forget = forgetting(
    records,
    ({ failures, blockedUntil }, time) => blockedUntil <= time && (failures.at(-1) ?? 0) <= time - limits.windowMs,
  )

  const refusal = (key: string): ApiError | undefined => {
    if (records.size === 0) return undefined
    const time = now()
    forget(time)
    const left = (records.get(key)?.blockedUntil ?? 0) - time
    if (left <= 0) return undefined
    return tooMany('BLOCKED', 'too many failed authentication attempts', left / 1000)
  }

  /** As the one that failed last. */
  function keep(key: string, record: Record): void {
    records.delete(key)
    records.set(key, record)
    if (records.size > MAX_ADDRESSES) forgetOldest(records)
  }

  return {
    refusal,
    gate: ({ client }) => (client.control ? undefined : refusal(client.key)),
    fail(key, transport = 'rest') {
      const time = now()
      const since = time - limits.windowMs
      const record = records.get(key) ?? { failures: [], blockedUntil: 0, counted: 0 }
      while ((record.failures[0] ?? time) <= since) record.failures.shift()
      record.failures.push(time)
      if (record.failures.length >= limits.failures) {
        const isNew = record.blockedUntil <= time
        record.blockedUntil = time + limits.blockMs
        record.counted = record.failures.length
        record.failures = []
        if (isNew) blocked({ ...shown(key, record), transport })
        for (const listener of blockListeners) listener(shown(key, record))
      }
      keep(key, record)
    },
    blocks: () =>
      [...records].filter(([, { blockedUntil }]) => blockedUntil > now()).map(([key, record]) => shown(key, record)),
    blockCount() {
      let count = 0
      for (const { blockedUntil } of records.values()) if (blockedUntil > now()) count++
      return count
    },
    unblock(address) {
      const found = records.delete(address)
      if (found) for (const listener of unblockListeners) listener(address)
      return found
    },
    impose({ address, until, failures }) {
      const blockedUntil = Date.parse(until)
      const known = records.get(address)
      if (blockedUntil > (known?.blockedUntil ?? now()))
        keep(address, { failures: [], blockedUntil, counted: failures })
    },
    lift: (address) => void records.delete(address),
    onBlock: (listener) => listening(blockListeners, listener),
    onUnblock: (listener) => listening(unblockListeners, listener),
  }
}

function listening<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

const shown = (address: string, { blockedUntil, counted }: Record): Block => ({
  address,
  until: new Date(blockedUntil).toISOString(),
  failures: counted,
})

/**
 * Insertion order is order of the last failure. The oldest go even if they are blocked: memory has to end somewhere.
 * Many at once, because a Map that loses its first entry again and again is searched from its start each time.
 */
function forgetOldest(records: Map<string, Record>): void {
  let count = MAX_ADDRESSES / 10
  for (const key of records.keys()) {
    records.delete(key)
    if (--count <= 0) return
  }
}
