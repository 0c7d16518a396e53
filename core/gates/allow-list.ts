import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import type { Config } from '../config.ts'
import { forbidden } from '../errors.ts'
import type { Gate } from './gate.ts'

/** D1 step 1: with `api_allowed_ips` set, only the addresses on it are listened to. */
export function allowList(config: Config): { gate: Gate; admits: (address: string) => boolean } {
  let prefixes: Prefix[] = []
  let verdicts = new Map<string, boolean>()
  const read = () => {
    prefixes = config.list('api_allowed_ips').flatMap((text) => parsePrefix(text) ?? [])
    verdicts = new Map()
  }
  read()
  config.onChange((key) => key === 'api_allowed_ips' && read())

  const judge = (address: string): boolean => {
    const parsed = parsePrefix(address)
    return parsed !== undefined && prefixes.some((prefix) => contains(prefix, parsed))
  }
  const admits = (address: string): boolean => {
    if (prefixes.length === 0) return true
    const known = verdicts.get(address)
    if (known !== undefined) return known
    if (verdicts.size > 10_000) verdicts.clear()
    const verdict = judge(address)
    verdicts.set(address, verdict)
    return verdict
  }
  return {
    admits,
    gate: ({ client }) => (client.control || admits(client.address) ? undefined : REFUSAL),
  }
}

const REFUSAL = forbidden('SOURCE_NOT_ALLOWED', 'forbidden: source address not allowed')
