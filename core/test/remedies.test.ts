/** Whatever makes a node `degraded` is told with what to do about it, and more than where to look. */
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { carriesNothing } from '../../dataplane/bpf/port/guarded.ts'
import { overSocket } from '../../test/agent.ts'
import { type BuiltAgent, buildArea, scratch } from '../../test/build.ts'
import { remedied } from '../agent-state.ts'
import { type AreaContext, defineArea } from '../area.ts'
import { ofServices, type Told } from '../cli/doctor/agent.ts'
import { findingLines } from '../cli/doctor/finding.ts'
import { SOURCES, type Source } from '../health.ts'
import { FACILITIES, remedyFor, remedyForTrouble } from '../remedies.ts'
import { listenControl } from '../transport/listener.ts'

/** Of who knows nothing about the matter: where to look. */
const FALLBACK = /^journalctl/

/** How each source is made to speak. A new one does not compile until it is here. */
const CAUSES: Readonly<Record<Source, (built: BuiltAgent) => unknown>> = {
  async kernel({ agent, plane }) {
    plane.observe = () => Promise.reject(new Error('Device or resource busy'))
    await agent.pipeline.exclusively(() => agent.drift.bring('boot')).catch(() => {})
  },
  store({ agent }) {
    agent.store.write.run(sql.raw('PRAGMA query_only = ON'))
    agent.store.probe()
  },
  waiting({ plane }) {
    plane.pending = () => [{ key: 'dns/listener/x', reason: 'odd' }]
  },
  // The area that cannot start is there from the start.
  ailment() {},
  caution({ agent }) {
    agent.cautions.set('config', { what: 'panel.json must hold one JSON object', remedy: 'correct panel.json' })
  },
  // So is the setting that cannot be used.
  setting() {},
}

let context: AreaContext | undefined
const broken = defineArea(import.meta.url, {
  name: 'broken',
  prefixes: ['/broken'],
  routes() {},
  async start(given) {
    context = given
    throw new Error('no such file')
  },
})

t.test('D32 each source of degraded is told by status and doctor, with what to do', async (t) => {
  const environment = { STRATUM_DRIFT_INTERVAL: 'often' }
  const built = await buildArea(t, 'firewall', { extraAreas: [broken], environment })
  const path = join(scratch(t), 'control.sock')
  const control = await listenControl(built.agent.app.routing.bind(built.agent.app), path)
  t.teardown(() => control.close(0))
  for (const source of SOURCES) await CAUSES[source](built)
  const found = remedied(built.agent)
  t.same([...new Set(found.map(({ source }) => source))].sort(), [...SOURCES].sort())
  for (const { source, what, remedy } of found) t.notMatch(remedy, FALLBACK, `${source}: ${what}`)

  const told = (await overSocket(path)('GET', '/control/v1/services')).body as unknown as Told
  t.same(told.amiss, found)
  t.same(
    told.troubles,
    found.map(({ what }) => what),
  )
  const lines = findingLines(ofServices(told))
  for (const { what, remedy } of found) t.ok(lines.includes(`${what}\n  do: ${remedy}`), what)
  const { body } = await built.call('GET', '/api/v1/status')
  t.match(body, { status: 'degraded', warnings: told.troubles })
})

t.test('D32 D113 an area that does not do its work makes the node degraded until it does', async (t) => {
  const { agent, call } = await buildArea(t, 'firewall', { extraAreas: [broken] })
  const state = async () => {
    const { status, warnings } = (await call('GET', '/api/v1/status')).body
    return [status, warnings]
  }
  t.same(await state(), ['degraded', ['broken could not start: no such file']])
  t.equal(agent.ailing('broken'), 'broken could not start: no such file')
  context?.ails(undefined)
  t.same(await state(), ['running', undefined])
})

t.test('what is known to keep an entry waiting has a remedy of its own', async (t) => {
  const general = remedyForTrouble({ source: 'waiting', what: 'odd' })
  for (const what of [
    "another zebra (pid 7) runs beside this node's own, and each deletes the other's routes",
    carriesNothing('br-work', 'EPERM'),
    carriesNothing('tap0', 'EPERM'),
    'nat: device nope is not there, which source NAT rule 3 of 10.8.0.0/24 waits for',
    'route 10.0.0.0/8: interface tap0 does not exist',
    'address 192.0.2.1 exists and is not ours',
    'bgpd: % Malformed',
    '4 more entries wait',
  ]) {
    const remedy = remedyForTrouble({ source: 'waiting', what })
    t.ok(remedy !== general && !FALLBACK.test(remedy), what)
  }
  t.match(remedyForTrouble({ what: 'odd' }), FALLBACK, 'an agent before this one does not say where it comes from')
})

t.test('each facility has a remedy, whatever the reason', async (t) => {
  for (const name of FACILITIES) t.match(remedyFor(name, 'odd'), /^(?!journalctl)./, name)
})
