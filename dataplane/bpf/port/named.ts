/** Which entries name which port: a port may come and go, be named before it is there, and get another ifindex. */
import type { PortEntry } from './entries.ts'

/** The port that an entry names, if any. */
function portOf(entry: PortEntry): string | undefined {
  if (entry.kind === 'overlay' || entry.kind === 'peer') return entry.link
  return entry.kind === 'macbind' || entry.kind === 'binding' ? entry.port || undefined : undefined
}

/** The ports that any of the entries names. */
export const names = (...entries: readonly (PortEntry | undefined)[]): Set<string> =>
  new Set(entries.flatMap((entry) => (entry && portOf(entry)) ?? []))

export class Named {
  readonly #byPort = new Map<string, Map<string, PortEntry>>()
  readonly #portOf = new Map<string, string>()
  readonly #uplinks = new Map<string, string>()

  put(entry: PortEntry): void {
    this.drop(entry)
    if (entry.kind === 'uplink') this.#uplinks.set(entry.key, entry.link)
    const port = portOf(entry)
    if (port === undefined) return
    const there = this.#byPort.get(port) ?? new Map<string, PortEntry>()
    this.#byPort.set(port, there.set(entry.key, entry))
    this.#portOf.set(entry.key, port)
  }

  drop({ key }: PortEntry): void {
    this.#uplinks.delete(key)
    const port = this.#portOf.get(key)
    if (port === undefined) return
    this.#portOf.delete(key)
    const there = this.#byPort.get(port)
    there?.delete(key)
    if (there?.size === 0) this.#byPort.delete(port)
  }

  clear(): void {
    this.#byPort.clear()
    this.#portOf.clear()
    this.#uplinks.clear()
  }

  /** Keys of the entries that name a port. */
  keys(port: string): Iterable<string> {
    return this.#byPort.get(port)?.keys() ?? []
  }

  /** The net that a port is declared for. */
  net(port: string): number | undefined {
    for (const entry of this.#byPort.get(port)?.values() ?? []) if (entry.kind === 'binding') return entry.net
    return undefined
  }

  /** Ports that lead off the node, other than overlays. */
  uplinks(): ReadonlySet<string> {
    return new Set(this.#uplinks.values())
  }

  /** The net that an overlay carries; undefined when the port is none. */
  overlay(port: string): number | undefined {
    for (const entry of this.#byPort.get(port)?.values() ?? []) if (entry.kind === 'overlay') return entry.net
    return undefined
  }
}
