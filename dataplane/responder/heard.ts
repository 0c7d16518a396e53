/**
 * What the agent takes from the responder. That process parses what strangers send, so it may be theirs: nothing it says is believed
 * to have the right shape, to name a process, or to speak of anything but DNS and DHCP.
 */
import { isIPv4 } from 'node:net'
import { isResponder, type ResponderEntry } from './entries.ts'
import type { Answer, FromResponder, LeaseNews, Reply, Waiting } from './protocol.ts'

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/
const HOSTNAME = /^[A-Za-z0-9.-]{0,253}$/
const LONGEST_TEXT = 500
const LONGEST_KEY = 1024
/** Documents have fewer of anything; see PORTION. */
const MOST = 10_000

type Fields = Readonly<Record<string, unknown>>

/** undefined for what no responder of this build says. Texts come as printable ASCII of limited length. */
export function heard(document: unknown): FromResponder | undefined {
  if (!isFields(document)) return undefined
  const { hello, leases, waiting, problem } = document
  if (hello !== undefined) {
    const { build } = isFields(hello) ? hello : {}
    return typeof build === 'string' && build.length <= 64 ? { hello: { build } } : undefined
  }
  if (leases !== undefined) return isListOf(leases, isNews) ? { leases } : undefined
  if (waiting !== undefined) {
    return isListOf(waiting, isWaiting)
      ? { waiting: waiting.map(({ key, reason }) => ({ key, reason: plain(reason) })) }
      : undefined
  }
  if (problem !== undefined) return typeof problem === 'string' ? { problem: plain(problem) } : undefined
  return answer(document)
}

function answer({ id, ok, refused, failed }: Fields): Answer | undefined {
  if (!isCount(id)) return undefined
  if (typeof refused === 'string') return { id, refused: plain(refused) }
  if (typeof failed === 'string') return { id, failed: plain(failed) }
  return isReply(ok) ? { id, ok } : undefined
}

function isReply(reply: unknown): reply is Reply {
  if (!isFields(reply)) return false
  const { digest = '', size = 0, entries = [] } = reply
  return typeof digest === 'string' && isCount(size) && isListOf(entries, isEntry)
}

/** An entry of another driver's kind, or by the key of one, would have that driver take something away. */
function isEntry(entry: unknown): entry is ResponderEntry {
  if (!isFields(entry)) return false
  const { kind, key } = entry
  if (typeof kind !== 'string' || typeof key !== 'string' || key.length > LONGEST_KEY) return false
  const [area, what] = kind.split('_')
  return isResponder({ kind }) && key.startsWith(`${area}/${what}/`)
}

function isNews(news: unknown): news is LeaseNews {
  if (!isFields(news)) return false
  const { seq, net, address, mac, hostname, state, expiresAt, at, unbound } = news
  return (
    [seq, net, expiresAt, at].every(isCount) &&
    typeof address === 'string' &&
    isIPv4(address) &&
    isText(mac, MAC) &&
    isText(hostname, HOSTNAME) &&
    (state === 'active' || state === 'revoked') &&
    (unbound === undefined || unbound === true)
  )
}

const isWaiting = (one: unknown): one is Waiting =>
  isFields(one) && typeof one.key === 'string' && one.key.length <= LONGEST_KEY && typeof one.reason === 'string'

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
const isText = (value: unknown, shape: RegExp): value is string => typeof value === 'string' && shape.test(value)
const isListOf = <T>(list: unknown, is: (one: unknown) => one is T): list is T[] =>
  Array.isArray(list) && list.length <= MOST && list.every(is)
const plain = (text: string): string => text.slice(0, LONGEST_TEXT).replace(/[^\x20-\x7e]/g, '?')

/** Passes on so many texts in a time, and says how many it has kept back. Milliseconds. */
export function openSieve(tell: (text: string) => void, most = 20, ms = 60_000, clock = () => performance.now()) {
  let [began, told, kept] = [clock(), 0, 0]
  return (text: string): void => {
    if (clock() - began >= ms) {
      if (kept > 0) tell(`${kept} more problems were not told`)
      ;[began, told, kept] = [clock(), 0, 0]
    }
    if (told++ < most) tell(text)
    else kept++
  }
}
