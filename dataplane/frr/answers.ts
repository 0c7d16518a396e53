/**
 * What the daemons answer, read. Fed with anything else these return what can be read of it, or nothing: an answer is never trusted
 * to have a shape.
 */

import { inSlices } from '../slices.ts'
import { type BfdState, BGP_STATES, type BgpRoute, type BgpState, type NeighborState } from './bgp.ts'
import { communityName, communityNumber } from './communities.ts'
import type { Outcome } from './vty.ts'

type Fields = Readonly<Record<string, unknown>>

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const number = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0)
const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** A neighbor and how BFD is set for it, which the running configuration does not tell. */
export interface ReadNeighbor extends Omit<NeighborState, 'bfd'> {
  bfd?: { multiplier: number; rx: number; tx: number } | undefined
}

/** Of `show work-queues`: how many things wait in all queues of a daemon. A row begins with a flag or none, then the number. */
export const readQueued = (answer: string): number =>
  Array.from(answer.matchAll(/^[^\S\n]*(?:[A-Z-][^\S\n]+)?(\d+)[^\S\n]/gm), ([, items]) => Number(items)).reduce(
    (sum, items) => sum + items,
    0,
  )

/** Where a neighbor begins in the answer, as json-c indents it, and where its fields end. */
const NEIGHBOR = /^ {2}"([0-9a-f.:]{2,45})":(?=\{$)/gm
const NEIGHBOR_END = '\n  }'

/** Of `show bgp vrf all neighbors json`, which is some kilobytes a neighbor: read in slices. */
export async function readNeighbors(answer: string): Promise<ReadNeighbor[]> {
  const found: ReadNeighbor[] = []
  await inSlices(answer.matchAll(NEIGHBOR), (match) => {
    const start = match.index + match[0].length
    const end = answer.indexOf(NEIGHBOR_END, start)
    const value = end < 0 ? undefined : parse(answer.slice(start, end + NEIGHBOR_END.length))
    if (value !== undefined) found.push(readNeighbor(match[1] ?? '', fields(value)))
  })
  return found
}

function readNeighbor(address: string, all: Fields): ReadNeighbor {
  const [messages, restart, bfd] = [all.messageStats, all.gracefulRestartInfo, all.peerBfdInfo].map(fields)
  const state = BGP_STATES.find((name) => name === all.bgpState) ?? ('Idle' satisfies BgpState)
  const established = number(all.bgpTimerUpEstablishedEpoch)
  return {
    address,
    state,
    messagesIn: number(messages?.totalRecv),
    messagesOut: number(messages?.totalSent),
    ...(state === 'Established' && established > 0 && { establishedAt: established }),
    peerGracefulRestart: state === 'Established' && restart?.remoteGrMode === 'Restart',
    ...(all.peerBfdInfo !== undefined && {
      bfd: {
        multiplier: number(bfd?.detectMultiplier),
        rx: number(bfd?.rxMinInterval),
        tx: number(bfd?.txMinInterval),
      },
    }),
  }
}

const BFD: ReadonlyMap<string, BfdState> = new Map([
  ['up', 'up'],
  ['init', 'init'],
  ['down', 'down'],
  ['shutdown', 'admin_down'],
])

/** Of `show bfd peers json`: address → state. */
export function readBfd(answer: string): Map<string, BfdState> {
  return new Map(
    list(parse(answer)).map((value) => {
      const { peer, status } = fields(value)
      return [text(peer), BFD.get(text(status)) ?? 'down']
    }),
  )
}

/** Of `show bgp … statistics json`: how many prefixes each speaker has. */
export function readPrefixCounts(answer: string): number[] {
  return Object.entries(fields(parse(answer))).flatMap(([key, value]) =>
    /unicast$/i.test(key) ? list(value).map((it) => number(fields(it).totalPrefixes)) : [],
  )
}

/** FRR 8: `"192.0.2.0/24": [` and what follows, up to the end of the line. */
const ROUTE_LINE = /^[\s,]*(?:"routes": \{\s*)?"([0-9a-f.:]+\/\d+)": (\[.*\])\s*$/

/** FRR 10 has a line for the prefix, and a later one for its paths. */
const PREFIX_LINE = /^"prefix": "([0-9a-f.:]+\/\d+)",\s*$/
const PATHS_LINE = /^,?"paths": (\[.*\])\s*$/

/** Takes the lines of one `show bgp … json detail` in order; each returns the routes in it that neighbors have told. */
export function routeReader(): (line: string) => BgpRoute[] {
  let current = ''
  return (line) => {
    current = PREFIX_LINE.exec(line)?.[1] ?? current
    const whole = ROUTE_LINE.exec(line)
    const [prefix = '', json = ''] = whole ? whole.slice(1) : [current, PATHS_LINE.exec(line)?.[1]]
    return json === '' ? [] : list(parse(json)).flatMap((value) => readRoute(prefix, fields(value)) ?? [])
  }
}

const ORIGINS = { IGP: 'igp', EGP: 'egp', incomplete: 'incomplete' } as const

function readRoute(prefix: string, all: Fields): BgpRoute | undefined {
  const [peer, path, community, best, updated] = [
    all.peer,
    all.aspath,
    all.community,
    all.bestpath,
    all.lastUpdate,
  ].map(fields)
  // The first of each prefix says nothing of a route; what we tell ourselves the store knows better.
  if (all.aspath === undefined || all.sourced === true || all.local === true) return undefined
  const hops = list(all.nexthops).map(fields)
  const hop = hops.find(({ scope }) => scope !== 'link-local') ?? hops[0] ?? {}
  const asPath = list(path?.segments).flatMap((segment) => list(fields(segment).list).map(number))
  return {
    prefix,
    nextHop: text(hop.ip),
    asPath,
    communities: list(community?.list).map(spelled),
    ...(typeof all.locPrf === 'number' && { localPref: all.locPrf }),
    ...(typeof all.metric === 'number' && { med: all.metric }),
    origin: ORIGINS[text(all.origin) as keyof typeof ORIGINS] ?? 'incomplete',
    peer: text(peer?.peerId),
    best: best?.overall === true,
    receivedAt: number(updated?.epoch),
  }
}

const spelled = (value: unknown): string => communityName(communityNumber(text(value)))

/** Instances of `show bgp vrf all … json`: `default`, `as65009`. */
export const readInstances = (answer: string): string[] =>
  Array.from(answer.matchAll(/^"(default|as\d{1,10})":(?=\{)/gm), ([, name]) => name ?? '')

/** One line of what bgpd said; what it says of an unknown command may repeat a secret. */
export function saidOf(outcome: Outcome | undefined, command = ''): string {
  if (/ password /.test(command)) return 'the md5_key was refused'
  const line = (outcome?.text ?? '')
    .split('\n')
    .map((it) =>
      it
        .replace(/[^\x20-\x7e]/g, '')
        .replace(/^%\s*/, '')
        .trim(),
    )
    .find((it) => it !== '')
  return (line ?? 'a command failed').slice(0, 200)
}
