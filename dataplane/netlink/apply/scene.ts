/** What one change knows of the kernel: asked for by name, once, never listed. */
import { areaOf, type NetlinkEntry } from '../entries.ts'
import { getDetails, type LinkDetail } from '../link-detail.ts'
import type { Areas } from '../observed.ts'
import type { Netlink } from '../socket.ts'
import type { Journal } from './journal.ts'

export class Scene {
  readonly netlink: Netlink
  readonly journal: Journal
  /** Owner's number → area. */
  readonly areas: Areas
  /** Links that were removed or changed in a way by which the kernel takes away what rests on them. */
  readonly disturbed = new Set<string>()
  readonly #owners: ReadonlyMap<string, number>
  readonly #known = new Map<string, LinkDetail | undefined>()

  constructor(netlink: Netlink, journal: Journal, owners: ReadonlyMap<string, number>) {
    this.netlink = netlink
    this.journal = journal
    this.#owners = owners
    this.areas = new Map([...owners].map(([area, owner]) => [owner, area]))
  }

  /** Number that marks what is of the entry's area. Throws TypeError for an area that declared none. */
  owner({ key }: NetlinkEntry): number {
    const owner = this.#owners.get(areaOf(key))
    if (owner === undefined) throw new TypeError(`area ${areaOf(key)} declares no owner number for netlink`)
    return owner
  }

  /** Asks for links that are not known yet; afterwards `link` tells of them. */
  async ask(names: Iterable<string>): Promise<void> {
    const unknown = [...new Set(names)].filter((name) => !this.#known.has(name))
    const found = await getDetails(this.netlink, unknown)
    for (const [at, name] of unknown.entries()) this.#known.set(name, found[at])
  }

  /** What `ask` found; undefined when there is no such link. */
  link(name: string): LinkDetail | undefined {
    return this.#known.get(name)
  }

  async fresh(name: string): Promise<LinkDetail | undefined> {
    this.#known.delete(name)
    await this.ask([name])
    return this.link(name)
  }

  forget(): void {
    this.#known.clear()
  }
}
