/** `GET /metrics` of the real agent over the real kernel, on both of its ways in. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { overTls, startAgent } from '../../../test/agent.ts'
import { readExposition } from '../../../test/exposition.ts'
import { netns, requireRoot } from '../../../test/netns.ts'

const URL = '/api/v1/metrics'

/** Processes that `pid` has started and that run `script`. */
function childrenOf(pid: number, script: string): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text
    .split(' ')
    .filter(Boolean)
    .map(Number)
    .filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes(script))
}

t.test('the kernel, its helper and the two ways in show in the metrics of a running agent', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t)
  // Where the classifier judges, a rule does not meet the helper.
  const agent = await startAgent(t, { ns, env: { STRATUM_CLASSIFIER: 'off' } })
  const read = async () => readExposition((await agent.call('GET', URL)).text)
  const add = () => agent.call('POST', '/api/v1/rules', { action: 'accept', protocol: 'icmp' })
  t.equal((await add()).status, 201)
  let metrics = await read()
  t.equal(metrics.value('stratum_plane_facility_up', { facility: 'nft' }), 1)
  t.equal(metrics.value('stratum_plane_helper_restarts_total', { facility: 'nft' }), 0)
  t.equal(metrics.value('stratum_plane_passages_total', { kind: 'rule', change: 'added' }), 1)
  t.equal(metrics.value('stratum_pipeline_step_duration_seconds_count', { step: 'kernel' }), 1)
  t.equal(metrics.value('stratum_reconcile_passes_total', { cause: 'boot', result: 'repaired' }), 1)
  t.equal(metrics.value('stratum_scrape_errors_total', { area: 'firewall' }), 0)

  const [helper = 0] = childrenOf(agent.child.pid ?? 0, 'nft/helper')
  t.ok(helper > 1, `helper ${helper}`)
  process.kill(helper, 'SIGKILL')
  // The agent may hear of the end before or after the change comes; it must know of it by the second one.
  await add()
  t.equal((await add()).status, 201)
  metrics = await read()
  t.equal(metrics.value('stratum_plane_helper_restarts_total', { facility: 'nft' }), 1)

  const tls = overTls(ns, 'https://127.0.0.1:7070')
  t.equal((await tls('GET', URL, undefined, { authorization: 'Bearer wrong' })).status, 401)
  const answer = await tls('GET', URL)
  t.match(answer, { status: 200, headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } })
  metrics = readExposition(answer.text)
  t.equal(metrics.value('stratum_http_requests_total', { route: URL, code: '401' }), 1)
  t.equal(metrics.value('stratum_authentication_failures_total', { transport: 'rest' }), 1)
})
