/** What a member does that is cut off: it reads, refuses what is shared as soon as it knows, and changes what is its own. */
import type { Test } from 'tap'
import { type ClusterNode, eventually, standing, succeeded } from '../cluster.ts'
import type { Model } from './model.ts'
import { one } from './writers.ts'

const P = '/api/v1'
const TRIES = 20

/** Waits until it knows: then it names no leader. */
export async function minority(t: Test, node: ClusterNode, model: Model, random: () => number): Promise<void> {
  const { call } = node.agent
  const cut = performance.now()
  const state = { knows: false }
  const own = ownChanges(node, () => state.knows)
  await eventually(`${node.id} knows`, async () => (await standing(node)).leader === '')
  const knows = performance.now() - cut
  state.knows = true
  const waited = await own
  const took: number[] = []
  for (let n = 0; n < TRIES; n++) {
    const since = performance.now()
    const status = await one(node, model, random, n)
    took.push(performance.now() - since)
    // What is wrong, or is not there, is judged first.
    if (status < 400 || (status >= 500 && status !== 503)) t.fail(`a member that is cut off answered ${status}`)
  }
  const written = await call('POST', `${P}/tenant`, { name: `lost ${random()}` })
  t.equal(written.status, 503)
  t.match(written.body.error, /^cluster service not available/)
  for (const path of ['/tenant', '/ipam/pools', '/ipam/allocations', '/float', '/vxlan/networks', '/cluster/state']) {
    t.equal((await call('GET', P + path)).status, 200, path)
  }
  const rule = await call('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' })
  t.equal(rule.status, 201, rule.text)
  const name = `own-${Math.floor(random() * 1e9).toString(36)}`
  const network = await call('POST', `${P}/networks`, { name, cidr: '10.50.0.0/24' })
  t.equal(network.status, 201, network.text)
  const { id } = network.body.network as { id: string }
  t.equal((await call('DELETE', `${P}/networks/${id}`)).status, 200)
  t.equal((await call('DELETE', `${P}/rules/${(rule.body.rule as { id: number }).id}`)).status, 200)
  const sorted = took.toSorted((a, b) => a - b)
  t.comment(
    `knows after ${Math.round(knows)} ms; its own changes wait ${Math.round(waited)} ms until then; refuses in ${sorted[TRIES >> 1]?.toFixed(1)} ms (median), ${sorted.at(-1)?.toFixed(1)} (worst of ${TRIES})`,
  )
}

/** Changes what is its own, until `over`. Resolves to how many ms the slowest took: it stood behind one that waits for a majority. */
async function ownChanges({ agent: { call } }: ClusterNode, over: () => boolean): Promise<number> {
  let slowest = 0
  const timed = async (method: string, path: string, body?: object) => {
    const since = performance.now()
    const answer = succeeded(await call(method, path, body))
    slowest = Math.max(slowest, performance.now() - since)
    return answer
  }
  while (!over()) {
    const { rule } = await timed('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.2' })
    await timed('DELETE', `${P}/rules/${(rule as { id: number }).id}`)
  }
  return slowest
}
