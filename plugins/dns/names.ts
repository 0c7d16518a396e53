/** Domain names as clients write them → as they are stored: absolute, in lower case. Throws a 400 that names the field. Pure. */
import { badRequest } from '../../core/errors.ts'

/** RFC 1035 §2.3.4; the length is that on the wire, one octet a label and one for the root. */
const MAX_LABEL = 63
const MAX_WIRE = 255
/** Host names (RFC 1123 §2.1), and the underscore of names that are no hosts (RFC 8552). */
const LABEL = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/
const HOST_LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/

/** `Example.org` → `example.org.` */
export function readZoneName(text: string): string {
  const name = readAbsolute(text, 'name', LABEL)
  if (name === '.') throw badRequest('name: the root is not served here')
  return name
}

/** `www`, `@`, `www.example.org` or `www.example.org.` in zone `example.org.` → `www.example.org.` */
export function readName(text: string, zone: string): string {
  if (text === '') throw badRequest('name is required')
  if (text === '@') return zone
  const whole = text.toLowerCase().replace(/\.?$/, '.')
  const inside = whole === zone || whole.endsWith(`.${zone}`)
  if (text.endsWith('.') && !inside) throw badRequest(`name: ${shownName(text)} is not in ${zone}`)
  return readAbsolute(inside ? whole : whole + zone, 'name', LABEL)
}

/** The name of a host, always taken as whole: `mail.example.org` → `mail.example.org.`; '.' where `root` allows it. */
export function readHost(text: string, field: string, { root = false, service = false } = {}): string {
  const name = readAbsolute(text, field, service ? LABEL : HOST_LABEL)
  if (name === '.' && !root) throw badRequest(`${field}: not a host name`)
  // As a zone file reads it this would be a name of the zone, as it is written a top-level domain: nobody means both.
  if (!text.includes('.'))
    throw badRequest(
      `${field}: write ${shownName(text)} in full, such as ${shownName(text)}.example.org; ${name} with a dot at its end is a top-level name`,
    )
  return name
}

function readAbsolute(text: string, field: string, label: RegExp): string {
  if (text === '.') return '.'
  if (text === '') throw badRequest(`${field} is required`)
  const labels = text.toLowerCase().replace(/\.$/, '').split('.')
  if (labels[0] === '*') throw badRequest(`${field}: wildcards are not served; add each name`)
  const bad = labels.find((one) => one.length > MAX_LABEL || !label.test(one))
  if (bad !== undefined) throw badRequest(`${field}: ${why(bad)}`)
  const name = `${labels.join('.')}.`
  if (name.length + 1 > MAX_WIRE) throw badRequest(`${field}: longer than ${MAX_WIRE - 2} characters`)
  return name
}

function why(label: string): string {
  if (label === '') return 'has an empty label'
  if (label.length > MAX_LABEL) return `has a label longer than ${MAX_LABEL} characters`
  // RFC 5890: what is not ASCII is written in its xn-- form.
  if (/[^\x20-\x7e]/.test(label)) return 'write international names in their xn-- form'
  return `"${shownName(label)}" is no DNS label: use letters, digits, hyphens and underscores, no hyphen at either end`
}

const shownName = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, MAX_LABEL)
