/** Mistakes in the configuration: refused where they are made, and never what keeps the agent from being asked. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { requireRoot } from '../../../test/netns.ts'
import { node } from './node.ts'

requireRoot(t)

t.test('what cannot be followed is refused when it is set', async (t) => {
  const { ctl, ok, agent } = await node(t)
  const files = scratch(t)
  const [cert, key] = ['cert', 'key'].map((name) => join(agent.stateDir, 'tls', `${name}.pem`))
  const empty = join(files, 'empty.pem')
  writeFileSync(empty, '')
  const refused: [line: string, why: RegExp][] = [
    ['disabled_areas firewall,ipam', /^disabled_areas: firewall is needed by \w+; disable both or neither/],
    ['disabled_areas nope', /^disabled_areas: no area is called nope \(there are bandwidth, bgp, /],
    ['grpc_port 7070', /^grpc_port: 7070 is the port of api_port; choose another$/],
    ['events_port 7071', /^events_port: 7071 is the port of grpc_port/],
    ['tls_cert /nope.pem', /^tls_cert: \/nope\.pem does not exist$/],
    [`tls_cert ${empty}`, /holds no PEM certificate$/],
    [`tls_key ${cert}`, /holds no unencrypted PEM private key$/],
    ['license_trusted_keys /nope.pem', /^license_trusted_keys: \/nope\.pem does not exist$/],
  ]
  for (const [line, why] of refused) {
    const { code, err } = await ctl(`config set ${line}`)
    t.equal(code, 1, line)
    t.match(err.replace(/^error: |^stratumctl: /, '').trim(), why, line)
  }
  t.match(
    (await ctl(`config set tls_cert ${cert}`)).err,
    /tls_cert is set without tls_key: until both are set, or none/,
  )
  t.equal((await ctl(`config set tls_key ${key}`)).err, '', 'the pair is whole')
  t.equal(await ok('config set disabled_areas dns'), 'disabled_areas: effective at restart of the agent')
})

t.test('an agent with settings that cannot be used is there, and says which and how to undo them', async (t) => {
  const config = { disabled_areas: 'firewall,ipam', drift_interval: 'often', gone_key: '1' }
  const env = { STRATUM_MAX_EVENTS: 'many', STRATUM_BALANCER: 'perhaps' }
  const { ok, ctl, agent, status } = await node(t, { config, env })
  const [told, { out: found }] = [await ok('service status'), await ctl('doctor')]
  for (const what of [
    /disabled_areas is ignored, all areas are on: firewall is needed by \w+; .*stratumctl config unset disabled_areas/,
    /drift_interval in the local overrides is ignored: must be .*; stratumctl config unset drift_interval/,
    /gone_key in the local overrides is ignored: .*; stratumctl config unset gone_key/,
    /max_events in the environment is ignored: .*; correct STRATUM_MAX_EVENTS and restart stratumd/,
    /STRATUM_BALANCER is ignored: must be on or off; correct it and restart stratumd/,
  ]) {
    t.match(told, what)
    t.match(found, what)
  }
  t.equal(await status(agent.token), 200, 'REST serves')
  for (const key of Object.keys(config)) await ok(`config unset ${key}`)
  t.notMatch(await ok('service status'), /local overrides/)
})

t.test('what should guard the services and cannot be used keeps them shut', async (t) => {
  const { ok, ctl, agent, status } = await node(t, { config: { api_allowed_ips: 'everybody' } })
  const why = /^rest: off: what guards it cannot be used: api_allowed_ips in the local overrides is ignored/m
  t.match(await ok('service status'), why)
  await ok('config unset api_allowed_ips')
  t.match(await ok('service status'), why, 'until the next start')
  await agent.restart()
  t.equal(await status(agent.token), 200)

  writeFileSync(join(agent.stateDir, 'panel.json'), '{')
  await agent.restart()
  t.match(
    await ok('service status'),
    /what guards it cannot be used: .*panel\.json must hold one JSON object; none of it/,
  )
  t.equal(await status(agent.token), 0, 'nobody knows what it would have closed')
  await agent.kill()
  const unset = await ctl('config unset uplink', '', { STRATUM_STATE_DIR: agent.stateDir })
  t.match(unset.err, /uplink has no local value/)
})

t.test('a local value goes away also while no agent runs', async (t) => {
  const { ctl, overrides, agent } = await node(t, { config: { drift_interval: '0' } })
  await agent.kill()
  const { code, out } = await ctl('config unset drift_interval', '', { STRATUM_STATE_DIR: agent.stateDir })
  t.same([code, out.trim()], [0, 'drift_interval: local value removed, effective at restart of the agent'])
  t.notMatch(overrides.read(), /drift_interval/)
  t.match(overrides.read(), /tokenHash/)
})

t.test('damaged overrides cost the token and the settings, not the control socket', async (t) => {
  const { ok, agent, knock, overrides } = await node(t)
  await agent.kill()
  writeFileSync(overrides.path, '{"config":')
  await agent.restart()
  t.match(
    await ok('service status'),
    /overrides\.json are damaged: .*; until then no local setting and no token is in force/,
  )
  t.same(await knock('127.0.0.1'), Array(3).fill('ECONNREFUSED'))
  await ok('api-token generate')
  t.equal(readFileSync(`${overrides.path}.damaged`, 'utf8'), '{"config":', 'kept for whoever can read it')
  t.notMatch(await ok('service status'), /damaged/)
  t.ok(existsSync(overrides.path))
})
