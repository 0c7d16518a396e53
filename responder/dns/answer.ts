/**
 * What a name is answered with: a pure function of zones, view, name, type and DO bit, apart from signatures, which are
 * made when they are needed. RFC 1034 §4.3.2, 2308 (denial), 4035 §3.1 and 4470 (DNSSEC), 8020, 8482 (ANY).
 */
import { writeBody } from './body.ts'
import { behind, predecessor, successor, typeBitmap } from './denial.ts'
import { KEY_TTL } from './keys.ts'
import { isWithin, labelled, labelsBelow, labelsOf, nameEnd } from './names.ts'
import { TYPE } from './rdata.ts'
import { type RecordSet, type Signer, signatureSet } from './sign.ts'
import type { View } from './views.ts'
import type { Node, Zone, Zones } from './zones.ts'

/** IANA DNS parameters: RCODEs. */
export const RCODE = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5, BADVERS: 16 } as const

const MAX_CHAIN = 16
/** Octets behind the body: the OPT record. */
const OPT_ROOM = 11

export interface Question {
  /** Lower case, as in `names.ts`. */
  name: string
  type: number
  /** DNSSEC OK (RFC 3225). */
  secure: boolean
  view: View | undefined
}

export interface Answer {
  /** Whose generation it is good for; undefined: no zone of ours. */
  zone: Zone | undefined
  rcode: number
  authoritative: boolean
  answers: number
  authorities: number
  additionals: number
  /** Behind the question, without OPT. */
  body: Buffer
  /** Seconds since the epoch during which its signatures are given out. */
  from: number
  until: number
}

export interface Parts {
  zones: Zones
  signer: Signer
}

/** undefined: it takes a signature, and `spend` says that none may be made now. */
export function answer({ zones, signer }: Parts, question: Question, spend: () => boolean): Answer | undefined {
  const labels = labelsOf(question.name)
  const enclosing = zones.enclosing(labels)
  let zone = enclosing.at(-1)
  // What delegates a zone lies in the one around it.
  if (question.type === TYPE.DS && zone?.name === question.name) zone = enclosing.at(-2) ?? zone
  const draft = new Draft(zone, zones.views.chain(question.view), question.secure)
  if (zone === undefined) return draft.finish(question.name, RCODE.REFUSED, signer, spend)
  const rcode = draft.look(zone, question.name, question.type)
  return draft.finish(question.name, rcode, signer, spend)
}

/** Where a name is in its zone; for one that does not exist, its closest encloser and the name right below that. */
type Place =
  | { found: 'node'; node: Node }
  | { found: 'cut'; node: Node; name: string }
  | { found: 'nothing'; name: string; next: string }

class Draft {
  readonly #zone: Zone | undefined
  readonly #chain: readonly View[]
  readonly #secure: boolean
  readonly #answers: RecordSet[] = []
  readonly #authorities: RecordSet[] = []
  readonly #additionals: RecordSet[] = []
  /** Sets at and below a cut, which the zone does not sign; and those made for names that do not exist. */
  readonly #unsigned = new Set<RecordSet>()
  readonly #passing = new Set<RecordSet>()
  /** Only its signature is wanted. */
  #hidden: RecordSet | undefined
  #authoritative = true

  constructor(zone: Zone | undefined, chain: readonly View[], secure: boolean) {
    this.#zone = zone
    this.#chain = chain
    this.#secure = secure && zone?.csk !== undefined
  }

  /** Fills the sections; the return code. */
  look(zone: Zone, qname: string, type: number): number {
    let name = qname
    const seen = new Set<string>()
    for (;;) {
      seen.add(name)
      const place = this.#place(zone, name)
      if (place.found === 'nothing') return this.#nothing(zone, place)
      if (place.found === 'cut' && !(place.name === name && type === TYPE.DS)) {
        // Where an alias leads out of the zone, the resolver asks on.
        if (name === qname) this.#refer(zone, place)
        return RCODE.NOERROR
      }
      const target = this.#at(zone, place.node, name, type)
      // An alias that is followed to a name outside, or in a circle, is the whole answer.
      if (target === undefined || !isWithin(target, zone.name)) return RCODE.NOERROR
      if (seen.has(target) || seen.size >= MAX_CHAIN) return RCODE.NOERROR
      name = target
    }
  }

  /** Answers from a name that exists; the target of an alias that is to be followed. */
  #at(zone: Zone, node: Node, name: string, type: number): string | undefined {
    // ANY gets one set, RRSIG the signature of one (RFC 8482 §4.1, §7).
    const any = type === TYPE.ANY || (type === TYPE.RRSIG && this.#secure)
    const wanted = any ? this.#types(zone, node)[0] : type
    const set = wanted === undefined ? undefined : this.#set(zone, node, name, wanted)
    if (set) {
      this.#answers.push(set)
      if (type === TYPE.RRSIG) this.#hidden = set
      return undefined
    }
    const alias = this.#set(zone, node, name, TYPE.CNAME)
    if (alias) {
      this.#answers.push(alias)
      return alias.rdatas[0]
    }
    this.#authorities.push(this.#soa(zone))
    if (this.#secure) this.#deny(zone, node, name)
    return undefined
  }

  #nothing(zone: Zone, { name, next }: Place & { found: 'nothing' }): number {
    this.#authorities.push(this.#soa(zone))
    if (this.#secure) {
      this.#cover(zone, next)
      this.#cover(zone, labelled('*') + name)
    }
    return RCODE.NXDOMAIN
  }

  /** RFC 1034 §4.3.2 3b. The servers' addresses are part of it where they are known here. */
  #refer(zone: Zone, { node, name }: Place & { found: 'cut' }): void {
    this.#authoritative = false
    const servers = this.#set(zone, node, name, TYPE.NS)
    if (servers === undefined) return
    this.#authorities.push(servers)
    this.#unsigned.add(servers)
    if (this.#secure) this.#deny(zone, node, name)
    for (const server of servers.rdatas) {
      if (!isWithin(server, zone.name)) continue
      const host = descend(zone, server)
      for (const type of [TYPE.A, TYPE.AAAA]) {
        const glue = host && this.#set(zone, host, server, type)
        if (glue === undefined) continue
        this.#additionals.push(glue)
        this.#unsigned.add(glue)
      }
    }
  }

  #place(zone: Zone, name: string): Place {
    let node = zone.apex
    let at = zone.name
    for (const label of labelsBelow(zone.name, name)) {
      const next = labelled(label) + at
      const child = node.children?.get(label)
      if (child === undefined || !this.#exists(child)) return { found: 'nothing', name: at, next }
      node = child
      at = next
      if (node.cut || this.#sees(node, TYPE.NS)) return { found: 'cut', node, name: at }
    }
    return { found: 'node', node }
  }

  #exists(node: Node): boolean {
    return node.open > 0 || (node.scoped !== undefined && this.#chain.some((view) => node.scoped?.has(view)))
  }

  #sees(node: Node, type: number): boolean {
    for (const record of node.records) {
      if (record.type === type && (record.view === undefined || this.#chain.includes(record.view))) return true
    }
    return false
  }

  /** The set as the client sees it: of its smallest view that has any, else what is for everybody. */
  #set(zone: Zone, node: Node, name: string, type: number): RecordSet | undefined {
    const set = (ttl: number, rdatas: string[]): RecordSet => ({ owner: name, type, ttl, rdatas })
    if (node === zone.apex) {
      if (type === TYPE.SOA) return set(zone.soaTtl, [zone.soa])
      if (type === TYPE.DNSKEY && zone.csk) return set(KEY_TTL, [zone.csk.dnskey])
    }
    if (type === TYPE.DS && node.cut?.csk) return set(KEY_TTL, [node.cut.csk.ds])
    let best = this.#chain.length + 1
    let ttl = 0
    let rdatas: string[] = []
    for (const record of node.records) {
      if (record.type !== type) continue
      const rank = record.view === undefined ? this.#chain.length : this.#chain.indexOf(record.view)
      if (rank < 0 || rank > best) continue
      if (rank < best) {
        best = rank
        ttl = record.ttl
        rdatas = []
      }
      // One set has one TTL (RFC 2181 §5.2).
      ttl = Math.min(ttl, record.ttl)
      rdatas.push(record.rdata)
    }
    if (rdatas.length > 1) rdatas = [...new Set(rdatas)].sort()
    if (rdatas.length > 0) return set(ttl, rdatas)
    // A zone must have a name server: without one of the operator's it is the one that the SOA names.
    if (type === TYPE.NS && node === zone.apex) return set(zone.soaTtl, [primary(zone)])
    if (type === TYPE.NSEC && this.#secure) return this.#nsec(zone, node, name)
    return undefined
  }

  /** That the client sees at a name, in an order by which ANY picks the first. */
  #types(zone: Zone, node: Node): number[] {
    const types = new Set<number>()
    if (node === zone.apex) types.add(TYPE.SOA).add(TYPE.NS)
    if (node === zone.apex && zone.csk) types.add(TYPE.DNSKEY)
    if (node.cut) types.add(TYPE.NS)
    if (node.cut?.csk) types.add(TYPE.DS)
    const atCut = node !== zone.apex && (node.cut !== undefined || this.#sees(node, TYPE.NS))
    for (const { type, view } of node.records) {
      if ((!atCut || type === TYPE.NS) && (view === undefined || this.#chain.includes(view))) types.add(type)
    }
    return [...types]
  }

  #soa(zone: Zone): RecordSet {
    return { owner: zone.name, type: TYPE.SOA, ttl: negativeTtl(zone), rdatas: [zone.soa] }
  }

  #nsec(zone: Zone, node: Node, name: string): RecordSet {
    const types = [...this.#types(zone, node), TYPE.RRSIG, TYPE.NSEC]
    return { owner: name, type: TYPE.NSEC, ttl: negativeTtl(zone), rdatas: [successor(name) + typeBitmap(types)] }
  }

  /** That no other types are at a name. */
  #deny(zone: Zone, node: Node, name: string): void {
    this.#authorities.push(this.#nsec(zone, node, name))
  }

  /** That a name and everything below it does not exist. */
  #cover(zone: Zone, name: string): void {
    const owner = predecessor(name)
    if (this.#authorities.some((set) => set.owner === owner && set.type === TYPE.NSEC)) return
    // Mostly a made-up name; where it is one that exists, what it says of that must be true.
    const place = this.#place(zone, owner)
    const types = place.found === 'nothing' ? [] : this.#types(zone, place.node)
    const rdata = behind(name) + typeBitmap([...types, TYPE.RRSIG, TYPE.NSEC])
    const set = { owner, type: TYPE.NSEC, ttl: negativeTtl(zone), rdatas: [rdata] }
    this.#authorities.push(set)
    this.#passing.add(set)
  }

  finish(qname: string, rcode: number, signer: Signer, spend: () => boolean): Answer | undefined {
    const window = { from: 0, until: Number.POSITIVE_INFINITY }
    const { csk, name = '' } = this.#zone ?? {}
    const sections: RecordSet[][] = []
    for (const section of [this.#answers, this.#authorities, this.#additionals]) {
      const sets: RecordSet[] = []
      for (const set of section) {
        if (set !== this.#hidden) sets.push(set)
        if (!this.#secure || csk === undefined || this.#unsigned.has(set)) continue
        const signature = signer.signature(name, csk, set, this.#passing.has(set), spend)
        if (signature === undefined) return undefined
        window.from = Math.max(window.from, signature.from)
        window.until = Math.min(window.until, signature.until)
        sets.push(signatureSet(set, signature))
      }
      sections.push(sets)
    }
    const [answers = 0, authorities = 0, additionals = 0] = sections.map((sets) =>
      sets.reduce((sum, { rdatas }) => sum + rdatas.length, 0),
    )
    const body = writeBody(qname, sections.flat(), OPT_ROOM)
    const authoritative = this.#zone !== undefined && this.#authoritative
    return { zone: this.#zone, rcode, authoritative, answers, authorities, additionals, body, ...window }
  }
}

function descend(zone: Zone, name: string): Node | undefined {
  let node: Node | undefined = zone.apex
  for (const label of labelsBelow(zone.name, name)) node = node?.children?.get(label)
  return node
}

/** MNAME of the SOA. */
function primary({ soa }: Zone): string {
  return soa.slice(0, nameEnd(soa, 0))
}

/** RFC 2308 §3, 9077. */
function negativeTtl({ soa, soaTtl }: Zone): number {
  return Math.min(soaTtl, Buffer.from(soa.slice(-4), 'latin1').readUInt32BE())
}
