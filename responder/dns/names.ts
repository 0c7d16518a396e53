/**
 * Domain names as the wire has them (RFC 1035 §3.1), in a string of one character an octet: `\x03www\x07example\x00`.
 * Always lower case, which is their canonical form (RFC 4034 §6.2); so strings can be compared, cut and joined.
 */

export const MAX_NAME = 255
const MAX_LABEL = 63

/**
 * The name of absolute text: `www.example.org.`. Labels hold printable ASCII below `~` and no escapes; denial relies on
 * that, see `denial.ts`. Throws Error for anything else.
 */
export function nameOf(text: string): string {
  if (text === '.') return '\0'
  const labels = text.toLowerCase().split('.')
  if (labels.pop() !== '')
    throw new Error(`${JSON.stringify(text)} is no absolute domain name: it lacks the dot at its end`)
  for (const label of labels) {
    if (!/^[!-}]+$/.test(label) || label.length > MAX_LABEL || label.includes('\\')) {
      throw new Error(`${JSON.stringify(text)} is no domain name: labels are 1 to 63 letters, digits, - and _`)
    }
  }
  const name = `${labels.map(labelled).join('')}\0`
  if (name.length > MAX_NAME) throw new Error(`${JSON.stringify(text)} is longer than a domain name may be`)
  return name
}

/** `www.example.org.`; octets that text cannot hold as `\DDD`. */
export function textOf(name: string): string {
  const labels = labelsOf(name).map((label) =>
    label.replace(/[^!-~]|[.\\]/g, (octet) => `\\${String(octet.charCodeAt(0)).padStart(3, '0')}`),
  )
  return `${labels.join('.')}.`
}

/** From the first to the one below the root. */
export function labelsOf(name: string): string[] {
  const labels: string[] = []
  for (let at = 0; at < name.length - 1; ) {
    const size = name.charCodeAt(at)
    labels.push(name.slice(at + 1, at + 1 + size))
    at += size + 1
  }
  return labels
}

/** A label with its length in front. */
export function labelled(label: string): string {
  return String.fromCharCode(label.length) + label
}

/** Without its first label. The root has no parent. */
export function parentOf(name: string): string {
  return name.slice(name.charCodeAt(0) + 1)
}

/** Whether a name is `zone` or lies below it. */
export function isWithin(name: string, zone: string): boolean {
  if (!name.endsWith(zone)) return false
  // The same octets may begin in the middle of a label.
  let at = 0
  while (at < name.length - zone.length) at += name.charCodeAt(at) + 1
  return at === name.length - zone.length
}

/** The labels that a name has more than its zone, from the one right below the zone. */
export function labelsBelow(zone: string, name: string): string[] {
  return labelsOf(`${name.slice(0, name.length - zone.length)}\0`).reverse()
}

/** Where the name that begins at `from` in some data ends. */
export function nameEnd(data: string, from: number): number {
  let at = from
  while (data.charCodeAt(at) !== 0) at += data.charCodeAt(at) + 1
  return at + 1
}
