/**
 * The addresses that members have blocked for failed authentication, each in etcd on a lease that ends with the block. In
 * memory only, as everywhere: what cannot be told now is told when there is a majority again, unless there is too much of it.
 */
import type { Block } from '../../core/gates/lockout.ts'
import type { EngineContext } from './engine.ts'
import type { Etcd, WatchEvent } from './etcd/client.ts'
import { put, remove } from './etcd/words.ts'
import { BLOCKS, encode, partsOf } from './keys.ts'
import { fieldsIn, isTime } from './reading.ts'

export interface Blocks {
  start(etcd: Etcd): void
  stop(): void
  /** From the watch: keys that are no rows. */
  told(events: readonly WatchEvent[]): void
  /** Takes over all that the others have blocked, and tells them what is blocked here. */
  exchange(): Promise<void>
}

/** Blocks that wait to be told; of more than that the oldest stay this node's own. */
const MOST_WAITING = 1000
const RETRY_MS = 1000
/** A block whose key goes so long before its end was lifted by somebody. */
const EARLY_MS = 5000

/** Blocks that are read in one go. */
const PAGE = 500

const keyOf = (address: string) => BLOCKS + encode(address)
const addressIn = (key: string) => partsOf(key, BLOCKS)[0] ?? ''

function blockIn(text: string): Block | undefined {
  const { address, until, failures } = fieldsIn(text) ?? {}
  const isWhole = typeof address === 'string' && isTime(until) && typeof failures === 'number'
  return isWhole ? { address, until, failures } : undefined
}

export function openBlocks({ lockout, log, now }: Pick<EngineContext, 'lockout' | 'log' | 'now'>): Blocks {
  /** undefined: the block is lifted. */
  const waiting = new Map<string, Block | undefined>()
  /** Until when each address is blocked that etcd knows of, ms. */
  const known = new Map<string, number>()
  let etcd: Etcd | undefined
  let telling = false
  let stopListening: (() => void)[] = []

  function tell(address: string, block: Block | undefined): void {
    waiting.delete(address)
    waiting.set(address, block)
    const oldest = waiting.keys().next()
    if (waiting.size > MOST_WAITING && !oldest.done) waiting.delete(oldest.value)
    if (!telling) void tellAll()
  }

  async function tellAll(): Promise<void> {
    telling = true
    while (etcd) {
      const next = waiting.entries().next()
      if (next.done) break
      const [address, block] = next.value
      try {
        await tellOne(etcd, address, block)
        // Another one may have come for the address meanwhile.
        if (waiting.get(address) === block) waiting.delete(address)
      } catch (error) {
        log.debug({ err: error }, 'a block could not be told to the other members; it is tried again')
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
      }
    }
    telling = false
  }

  async function tellOne(to: Etcd, address: string, block: Block | undefined): Promise<void> {
    const key = keyOf(address)
    if (block === undefined) return void (await to.txn([], [remove(key)]))
    const seconds = Math.ceil((Date.parse(block.until) - now().getTime()) / 1000)
    if (seconds <= 0) return
    await to.txn([], [put(key, JSON.stringify(block), await to.grant(seconds))])
  }

  function take(key: string, value: string | undefined): void {
    const address = addressIn(key)
    if (value !== undefined) {
      const block = blockIn(value)
      if (block?.address !== address) return
      known.set(address, Date.parse(block.until))
      lockout.impose(block)
      return
    }
    const until = known.get(address) ?? 0
    known.delete(address)
    if (until - now().getTime() > EARLY_MS) lockout.lift(address)
  }

  return {
    start(to) {
      etcd = to
      stopListening = [
        lockout.onBlock((block) => tell(block.address, block)),
        lockout.onUnblock((address) => tell(address, undefined)),
      ]
    },
    stop() {
      etcd = undefined
      for (const stop of stopListening) stop()
      stopListening = []
      waiting.clear()
      known.clear()
    },
    told(events) {
      for (const { key, value } of events) if (key.startsWith(BLOCKS)) take(key, value)
    },
    async exchange() {
      const of = etcd
      if (of === undefined) return
      const gone = new Set(known.keys())
      for (let from = BLOCKS; ; ) {
        const { kvs, more } = await of.range(BLOCKS, { local: true, limit: PAGE, from })
        for (const { key, value } of kvs) {
          take(key, value)
          gone.delete(addressIn(key))
        }
        const last = kvs.at(-1)
        if (!more || last === undefined) break
        from = `${last.key}\0`
      }
      for (const address of gone) take(keyOf(address), undefined)
      for (const block of lockout.blocks()) if (!known.has(block.address)) tell(block.address, block)
    },
  }
}
