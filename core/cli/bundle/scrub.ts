/**
 * Takes secrets and people's own words out of what leaves the node. Text is kept where its form shows that it is none of either:
 * addresses, times, ids, and the words that the API itself uses. Any other becomes `text-N`, the same N wherever the same
 * text stands in one bundle, so that what belongs together can still be seen. N is a count and tells nothing.
 */
import { isIP } from 'node:net'

const SECRET_NAME =
  /secret|password|passphrase|token|hash|digest|md5|psk|credential|signature|private|fingerprint|(^|_)key$|(^|_)code$|dnskey|(^|_)ds$/i
/** Sentences that the agent has made: they are kept without what stands in them. */
const SENTENCE_NAMES: ReadonlySet<string> = new Set([
  'msg',
  'message',
  'detail',
  'reason',
  'error',
  'summary',
  'off',
  'stack',
  'troubles',
  'problem',
  'note',
  'what',
  'remedy',
  'about',
])
/** `rule.created`: fields of this name hold nothing that people chose. */
const EVENT_TYPE = /^[a-z_]+\.[a-z_]+$/
const REMOVED = '[removed]'

export interface Scrubber {
  /** A value out of JSON, each string judged by the name that it stands under. */
  value(value: unknown, name?: string): unknown
  /** Text that stands as a value elsewhere is known only when that has been seen: what is scrubbed twice is right. */
  sentence(text: string): string
}

/** @param words kept as they are: those of the API, devices of this node */
export function openScrubber(words: ReadonlySet<string>): Scrubber {
  const names = new Map<string, string>()

  function instead(text: string): string {
    const known = names.get(text) ?? `text-${names.size + 1}`
    names.set(text, known)
    return known
  }
  const isKept = (text: string): boolean =>
    text === '' ||
    words.has(text) ||
    isPlain(text) ||
    (text.includes(',') && text.split(',').every((one) => isKept(one.trim())))

  function text(text: string): string {
    if (isKept(text)) return text
    if (!/^\/[\w./:%-]+$/.test(text)) return instead(text)
    return text
      .split('/')
      .map((part) => (isKept(part) ? part : instead(part)))
      .join('/')
  }

  function value(of: unknown, name = ''): unknown {
    if (SECRET_NAME.test(name) && of !== null && (typeof of === 'string' || typeof of === 'object')) return REMOVED
    if (typeof of === 'string' && name === 'type' && EVENT_TYPE.test(of)) return of
    if (typeof of === 'string') return SENTENCE_NAMES.has(name) ? sentence(of) : text(of)
    if (Array.isArray(of)) return of.map((item) => value(item, name))
    if (typeof of !== 'object' || of === null) return of
    // A name that is data, such as a device or a user's label, is judged as such.
    return Object.fromEntries(
      Object.entries(of).map(([inner, item]) => [
        /^[a-z][A-Za-z0-9_]*$/.test(inner) ? inner : text(inner),
        value(item, inner),
      ]),
    )
  }

  function sentence(line: string): string {
    const plain = line
      .replace(/-----BEGIN [\s\S]*?(-----END [A-Z ]+-----|$)/g, REMOVED)
      .replace(/"[^"\n]*"|'[^'\n]*'|`[^`\n]*`/g, (quoted) => (isKept(quoted.slice(1, -1)) ? quoted : '[text]'))
      .replace(/[A-Za-z0-9+/=_~.-]{16,}/g, (run) => (looksSecret(run) ? REMOVED : run))
      .replace(/[\p{L}\p{N}_.@-]+/gu, (word) => (isKept(word) ? word : (names.get(word) ?? word)))
    let result = plain
    for (const [said, known] of names)
      if (said.includes(' ') && result.includes(said)) result = result.replaceAll(said, known)
    return result
  }
  return { value, sentence }
}

/** Addresses, prefixes, MACs, times, numbers, ids that the agent makes. */
function isPlain(text: string): boolean {
  const [address = '', length] = text.split('/')
  if (isIP(address) !== 0 && (length === undefined || /^\d{1,3}$/.test(length))) return true
  // Where something listens.
  const [, host = ''] = /^\[?([0-9a-f.:]+)\]?:\d{1,5}$/.exec(text) ?? []
  if (isIP(host) !== 0) return true
  return [
    /^-?\d{1,20}(\.\d{1,9})?$/,
    /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i,
    /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/,
    /^[a-z]{2,5}-[0-9a-f]{12}$/,
    /^v?\d{1,4}\.\d{1,4}(\.\d{1,4})?$/,
    /^(\d+[dhms] ?){1,4}$/,
  ].some((form) => form.test(text))
}

/** A run of letters and digits that is no word of any language: a path is judged part by part. */
function looksSecret(run: string): boolean {
  return run.split(/[/.]/).some((part) => {
    if (part.length < 16) return false
    const classes = [/[a-z]/, /[A-Z]/, /[0-9]/].filter((one) => one.test(part)).length
    return classes >= 2 || /^[0-9a-f]{24,}$/i.test(part)
  })
}
