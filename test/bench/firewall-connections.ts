/** New connections through each firewall, one after the other: a TCP connect that the far host refuses. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { wordsOf } from '../firewall/address.ts'
import { PROTOCOLS } from '../firewall/packets.ts'
import { reference } from '../firewall/reference.ts'
import { rule } from '../firewall/rulesets.ts'
import { type Netns, netns, type Scope } from '../netns.ts'
import { quantile, type Report } from './figure.ts'
import type { Contender } from './firewall-lanes.ts'

const ROUNDS = 7
const CONNECTS = 15_000
const CLIENT = '10.200.0.2'
const SERVER = '10.201.0.2'

/** The rule that lets them through stands behind all others. */
export async function connections(
  scope: Scope,
  all: readonly Contender[],
  rules: readonly FilterRule[],
  report: Report,
): Promise<void> {
  const { prefix, words } = host(SERVER)
  const last = rule(20_000_000, [7, 1_000_000], true, { dest: prefix })
  const list = [...rules, last]
  const port = openPort(list, last, words)
  const clients = new Map<Contender['name'], Netns>()
  for (const each of all) {
    clients.set(each.name, road(scope, each.lane.ns))
    await each.hold(list, SERVER)
  }
  const costs = new Map<string, number[]>(all.map(({ name }) => [name, []]))
  const rates = new Map<string, number[]>(all.map(({ name }) => [name, []]))
  for (let round = -1; round < ROUNDS; round++) {
    for (const { name, lane } of all) {
      const client = clients.get(name)
      if (client === undefined) continue
      lane.forget()
      const [ns = Number.NaN, rate = Number.NaN] = connect(client, port)
      if (round < 0) continue
      costs.get(name)?.push(ns)
      rates.get(name)?.push(rate)
    }
  }
  const ns = (name: string) => quantile(costs.get(name) ?? [], 0.25)
  for (const { name } of all) {
    const note = `${Math.round(quantile(rates.get(name) ?? [], 0.5))}/s by the clock`
    report({ figure: `connect_10k_${name}`, value: ns(name) / 1000, unit: 'us', note })
  }
  const value = ns('floor') / ns('ours')
  const note = 'by CPU time of a connection'
  report({ figure: 'connections_10k_over_floor', value, unit: 'times', goal: 0.95, better: 'higher', note })
  for (const each of all) await each.hold(rules)
}

function host(text: string) {
  const prefix = parsePrefix(text)
  if (prefix === undefined) throw new TypeError(text)
  return { prefix, words: wordsOf(prefix) }
}

/** A port about which no rule but the last says anything. */
function openPort(rules: readonly FilterRule[], last: FilterRule, dest: readonly number[]): number {
  const decide = reference(rules)
  const packet = { family: 4, source: host(CLIENT).words, dest, protocol: PROTOCOLS.tcp, ident: 0, mac: '' } as const
  for (let destPort = 9; destPort < 1000; destPort++) {
    if (decide({ ...packet, sourcePort: 40_000, destPort, interface: 'cl0' }) === last) return destPort
  }
  throw new Error('the rules say something about every port')
}

/** A client and a server behind the lane. */
function road(scope: Scope, node: Netns): Netns {
  const [client, server] = [netns(scope, 'cl'), netns(scope, 'sv')]
  for (const [ns, name, address, gateway] of [
    [client, 'cl0', CLIENT, '10.200.0.1'],
    [server, 'sv0', SERVER, '10.201.0.1'],
  ] as const) {
    node.run('ip', 'link', 'add', 'name', name, 'up', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', ns.name)
    node.run('ip', 'address', 'add', `${gateway}/24`, 'dev', name)
    ns.run('ip', 'address', 'add', `${address}/24`, 'dev', 'eth0')
    ns.run('ip', 'link', 'set', 'eth0', 'up')
    ns.run('ip', 'route', 'add', 'default', 'via', gateway)
  }
  return client
}

/** CPU time of one in ns, and how many a second. */
function connect(client: Netns, port: number): number[] {
  const script = join(import.meta.dirname, 'connects.js')
  const args = [`--net=${client.path}`, process.execPath, script, SERVER, String(port), String(CONNECTS)]
  return execFileSync('nsenter', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    .trim()
    .split(' ')
    .map(Number)
}
