/**
 * Hears what others do to what is ours, so that the question whether somebody did costs nothing; and what becomes
 * possible that was refused before. Our own commands are told by the number of the socket; what the kernel does by
 * itself because of them is compared with the ledger, once the change that caused it is over.
 */
import { decodeAddress, RTM_DELADDR, RTM_NEWADDR } from './address.ts'
import { identityOf, type NetlinkEntry, policy } from './entries.ts'
import { AF_BRIDGE, decodeFdb } from './fdb.ts'
import { involved, type Ledger } from './ledger.ts'
import { decodeLink, RTM_DELLINK, RTM_NEWLINK } from './link.ts'
import type { LinkDetail } from './link-detail.ts'
import { type LinkState, LinkTable } from './link-table.ts'
import { decodeNeighbour, RTM_DELNEIGH, RTM_NEWNEIGH } from './neighbour.ts'
import { type Areas, observedNeighbour, observedPolicy, observedRoute } from './observed.ts'
import { decodeRoute, RTM_DELROUTE, RTM_NEWROUTE } from './route.ts'
import { decodeRule, RTM_DELRULE, RTM_NEWRULE } from './rule.ts'
import { sameNetlink } from './sameness.ts'
import { NLM_F_REPLACE, type Received } from './wire.ts'

/** With more than this while a change goes on, all is looked at anew. */
const MAX_BACKLOG = 40_000
/** What our own commands do of this is in the ledger. */
const OF_NO_INTEREST = new Set([RTM_DELROUTE, RTM_NEWRULE, RTM_DELRULE, RTM_NEWNEIGH, RTM_DELNEIGH])

export interface WatchParts {
  ledger: Ledger
  areas: Areas
  /** Number of the socket that our own commands go by. */
  port(): number
  /** An address, as the ledger knows it apart, has come or gone. */
  onAddress?(identity: string, gone: boolean): void
}

export class Watch {
  readonly #ledger: Ledger
  readonly #areas: Areas
  readonly #port: () => number
  readonly #onAddress: WatchParts['onAddress']
  readonly #links = new LinkTable()
  /** Links of which something changed: it takes a question to know what. */
  #suspects = new Set<string>()
  #backlog: Received[] = []
  #busy = 0
  #changed = true
  #blind = false
  /** Links and identities whose events, while these are judged, tell of a change of our own. */
  #quiet: ReadonlySet<string> = new Set()

  constructor({ ledger, areas, port, onAddress }: WatchParts) {
    this.#ledger = ledger
    this.#areas = areas
    this.#port = port
    this.#onAddress = onAddress
  }

  /** Whether others may have changed something of ours, or something may be possible now, since the last observation. */
  get changed(): boolean {
    return this.#changed || this.#blind
  }

  /** Links to be looked at; they are not told again. None while a change goes on. */
  takeSuspects(): string[] {
    if (this.#busy > 0) return []
    const suspects = [...this.#suspects]
    this.#suspects.clear()
    return suspects
  }

  /** Something differs, or it is not known whether it does. */
  mark(): void {
    this.#changed = true
  }

  /** Notifications were lost. */
  lose(): void {
    this.#changed = true
    this.#ledger.wake(() => true)
  }

  /** Nothing will be heard any more. */
  blind(): void {
    this.#blind = true
    this.lose()
  }

  /** What happens until `resume` is judged afterwards. */
  pause(): void {
    this.#busy++
  }

  /**
   * Judges what happened meanwhile. `touched`: names of links, and identities, that the change was about. Of those links
   * counts only what they were before and are now: what rests on a link that is another one, or down, may be lost.
   */
  resume(touched: ReadonlySet<string> = new Set()): void {
    if (--this.#busy > 0) return
    const before = Array.from(touched, (name) => ({ name, was: this.#links.get(name) }))
    this.#quiet = touched
    for (const message of this.#backlog.splice(0)) this.#judge(message)
    this.#quiet = new Set()
    for (const { name, was } of before) {
      const is = this.#links.get(name)
      // A bond takes its members down and brings them up; they are members throughout.
      const counts = (kind: NetlinkEntry['kind']) => was?.index !== is?.index || kind !== 'member'
      if (was && (was.index !== is?.index || was.up !== is.up) && this.#ledger.restsOn(name, counts)) this.mark()
    }
  }

  /** Takes over what an observation found. Entries that wait for a link that is another one now are woken. */
  adoptLinks(details: readonly LinkDetail[]): void {
    for (const name of this.#links.replace(details)) this.#wakeFor(name)
  }

  /** The observation is over: from here on counts what is heard. */
  settle(): void {
    this.#changed = false
    this.#suspects.clear()
  }

  link(name: string): LinkState | undefined {
    return this.#links.get(name)
  }

  hear(message: Received): void {
    if (this.#busy === 0) this.#judge(message)
    else if (this.#isOwn(message) && OF_NO_INTEREST.has(message.type)) return
    else if (this.#backlog.length >= MAX_BACKLOG) this.lose()
    else this.#backlog.push({ ...message, payload: Buffer.from(message.payload) })
  }

  #isOwn({ port }: Pick<Received, 'port'>): boolean {
    return port !== 0 && port === this.#port()
  }

  #judge(message: Received): void {
    try {
      this.#read(message)
    } catch {
      // A message that cannot be read may be about anything.
      this.lose()
    }
  }

  #read({ type, flags, port, payload }: Received): void {
    const own = this.#isOwn({ port })
    switch (type) {
      case RTM_NEWLINK:
      case RTM_DELLINK:
        this.#link(type === RTM_DELLINK, payload)
        break
      case RTM_NEWADDR:
      case RTM_DELADDR:
        this.#address(type === RTM_DELADDR, own, payload)
        break
      case RTM_NEWROUTE:
        this.#newRoute(own, (flags & NLM_F_REPLACE) !== 0, payload)
        break
      case RTM_DELROUTE:
        this.#goneRoute(own, payload)
        break
      case RTM_NEWRULE:
      case RTM_DELRULE:
        this.#rule(type === RTM_DELRULE, own, payload)
        break
      case RTM_NEWNEIGH:
      case RTM_DELNEIGH:
        this.#neighbour(type === RTM_DELNEIGH, own, payload)
    }
  }

  #link(gone: boolean, payload: Buffer): void {
    const { name, index, up, master } = decodeLink(payload)
    this.#suspect(name)
    if (master !== undefined && this.#isStranger(name, master)) this.mark()
    if (payload.readUInt8(0) === AF_BRIDGE) return
    const known = this.#links.nameOf(index)
    if (known !== undefined && (gone || known !== name)) this.#goneLink(known, index)
    if (gone) return
    const before = this.#links.get(name)
    this.#links.put(name, { index, up })
    if (before?.index === index && before.up === up) return
    if (!this.#quiet.has(name) && this.#ledger.restsOn(name)) this.mark()
    this.#wakeFor(name, up)
  }

  /** Somebody put a device into a bond of ours. */
  #isStranger(name: string, master: number): boolean {
    const bond = this.#ledger.held(`link/${this.#links.nameOf(master)}`)
    if (bond?.kind !== 'link' || bond.device.type !== 'bond' || this.#quiet.has(name)) return false
    return this.#ledger.held(`member/${name}`) === undefined
  }

  #goneLink(name: string, index: number): void {
    this.#links.remove(name, index)
    const lost = this.#ledger.held(`link/${name}`) ?? this.#ledger.nearOf(name) ?? this.#ledger.restsOn(name)
    if (lost && !this.#quiet.has(name)) this.mark()
    this.#wakeFor(name)
  }

  #suspect(name: string): void {
    if (this.#ledger.uses(name)) this.#suspects.add(name)
  }

  #wakeFor(name: string, up = false): void {
    const waits = (entry: NetlinkEntry) =>
      involved(entry).includes(name) || (up && entry.kind === 'route' && entry.link === undefined)
    if (this.#ledger.wake(waits)) this.mark()
  }

  #address(gone: boolean, own: boolean, payload: Buffer): void {
    const address = decodeAddress(payload)
    const name = address && this.#links.nameOf(address.index)
    if (address === undefined || name === undefined) return
    const identity = `address/${name}/${address.cidr}`
    this.#onAddress?.(identity, gone)
    const ours = this.#areas.has(address.protocol)
    const held = this.#ledger.held(identity) !== undefined
    if (ours && !own && held === gone && !this.#quiet.has(identity)) this.mark()
    if (gone) {
      // The kernel removes the routes of a link with its last address, and says nothing.
      if (this.#ledger.restsOn(name, (kind) => kind === 'route')) this.mark()
      this.#wakeAt(identity)
    } else this.#wakeRoutes(address.version === 6)
  }

  #wakeRoutes(ipv6: boolean): void {
    const waits = (entry: NetlinkEntry) =>
      entry.kind === 'route' &&
      entry.destination.includes(':') === ipv6 &&
      (entry.gateway ?? entry.source) !== undefined
    if (this.#ledger.wake(waits)) this.mark()
  }

  /** Those that were refused because their place was taken. */
  #wakeAt(identity: string): void {
    if (this.#ledger.wake(({ key }) => identityOf(key) === identity)) this.mark()
  }

  #newRoute(own: boolean, replaced: boolean, payload: Buffer): void {
    // Routing daemons make many: those of others are not read, unless they overwrite.
    const ours = this.#areas.has(payload.readUInt8(5))
    const route = ours || replaced ? decodeRoute(payload) : undefined
    if (route === undefined) return
    const entry = observedRoute(route, (index) => this.#links.nameOf(index), this.#areas)
    if (entry && own) {
      this.#ledger.learn(entry)
      return
    }
    const held = this.#ledger.held(`route/${route.table}/${route.dst}/${route.metric ?? 0}`)
    if (ours ? !(entry && held && sameNetlink(entry, held)) : held) this.mark()
  }

  #goneRoute(own: boolean, payload: Buffer): void {
    const ours = this.#areas.has(payload.readUInt8(5))
    if (own || (!ours && !this.#ledger.anySleeps)) return
    const route = decodeRoute(payload)
    if (route === undefined) return
    const identity = `route/${route.table}/${route.dst}/${route.metric ?? 0}`
    if (ours && this.#ledger.held(identity)) this.mark()
    if (!ours) this.#wakeAt(identity)
  }

  #rule(gone: boolean, own: boolean, payload: Buffer): void {
    const rule = decodeRule(payload)
    if (rule === undefined || own) return
    const entry = observedPolicy(rule, this.#areas)
    if (entry === undefined) {
      if (gone) this.#wakeAt(identityOf(policy('', rule).key))
      return
    }
    if ((this.#ledger.held(identityOf(entry.key)) !== undefined) === gone) this.mark()
  }

  #neighbour(gone: boolean, own: boolean, payload: Buffer): void {
    if (payload.readUInt8(0) === AF_BRIDGE) this.#forwarding(gone, payload)
    if (own || payload.readUInt8(0) === AF_BRIDGE) return
    const name = this.#links.nameOf(payload.readInt32LE(4))
    if (name === undefined || !this.#ledger.uses(name)) return
    const neighbour = decodeNeighbour(payload)
    if (neighbour === undefined) return
    const identity = `neighbour/${name}/${neighbour.address}`
    if (gone) this.#wakeAt(identity)
    const held = this.#ledger.held(identity)
    if (held === undefined) return
    const entry = observedNeighbour(neighbour, (index) => this.#links.nameOf(index), this.#areas)
    if (gone || entry === undefined || !sameNetlink(entry, held)) this.mark()
  }

  /** The kernel does not tell who asked for it, so what we did ourselves is compared, too. */
  #forwarding(gone: boolean, payload: Buffer): void {
    const found = decodeFdb(payload)
    const name = found && this.#links.nameOf(found.index)
    if (found === undefined || name === undefined || !this.#ledger.uses(name)) return
    const identity = `fdb/${name}/${found.mac}/${found.vtep}`
    const stands = !gone && found.permanent
    if ((this.#ledger.held(identity) !== undefined) !== stands && !this.#quiet.has(identity)) this.mark()
  }
}
