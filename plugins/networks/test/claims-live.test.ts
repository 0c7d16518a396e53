/**
 * Whose an endpoint is while ports, names, MACs and ifindexes change under it, and another tenant's machine tries to be it:
 * a table of cases on frames. Who speaks as it is seen at a neighbour, and who hears its network is seen at the machines.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'
import {
  bothOn,
  byRight,
  ELSEWHERE,
  type Endpoint,
  HOME,
  indexOf,
  ip,
  is,
  listed,
  OTHER,
  off,
  on,
  passes,
  put,
  type Scene,
  SETTINGS,
  settled,
  stage,
  THIEF,
  traffic,
} from './claims-scene.ts'

requireRoot(t)

/** Into an attach, which takes some milliseconds. */
const KILLED_AFTER_MS = { roam: 2, sticky: 6, named: 12 } as const

const CASES: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  async "the owner's MAC from a port of the other tenant before its first frame"(scene) {
    await on(scene, 'thief', THIEF)
    await byRight(scene)
    await is(scene, 'thief', false, 'the owner was never on')
    await on(scene, 'owner', HOME)
    await is(scene, 'owner', true, 'its first frame')
    await settled(scene)
    await is(scene, 'thief', false, 'beside it')
    off(scene, 'owner')
    await is(scene, 'thief', false, 'the owner is off')
    await on(scene, 'owner', HOME)
    await is(scene, 'owner', true, 'back')
  },
  async 'its device is gone, and the ifindex is that of a device of the other tenant'(scene) {
    await on(scene, 'owner', HOME)
    await is(scene, 'owner', true, 'on')
    await settled(scene)
    const index = indexOf(scene, HOME)
    off(scene, 'owner')
    await listed(scene, HOME, (net) => net === undefined)
    await on(scene, 'thief', THIEF, index)
    await byRight(scene)
    await is(scene, 'thief', false, 'the owner is off')
    await on(scene, 'owner', HOME)
    await is(scene, 'owner', true, 'back on a device of another ifindex')
    await is(scene, 'thief', false, 'the owner is back')
  },
  async 'a detach under traffic'(scene) {
    await bothOn(scene)
    const ends = [
      traffic(scene, scene.owner.end, scene.endpoint.mac),
      traffic(scene, scene.thief.end, scene.endpoint.mac),
    ]
    await scene.node.ok('POST', `${scene.at}/endpoints/${scene.endpoint.id}/detach`)
    await is(scene, 'owner', false, 'detached')
    await is(scene, 'thief', false, 'detached')
    const again = { ip: scene.endpoint.ip, mac: OTHER, ...(scene.setting === 'named' && { port: HOME }) }
    await scene.node.ok('POST', `${scene.at}/attach`, again)
    await is(scene, 'owner', true, 'bound anew', OTHER)
    for (const end of ends) end()
    scene.t.notOk(await passes(scene, scene.owner.end, scene.near, scene.endpoint.mac), 'the MAC of before')
    await is(scene, 'thief', false, 'bound anew', OTHER)
  },
  async 'another MAC under traffic'(scene) {
    await bothOn(scene)
    const macs = [scene.endpoint.mac, OTHER]
    const ends = macs.flatMap((mac) => [traffic(scene, scene.owner.end, mac), traffic(scene, scene.thief.end, mac)])
    for (const mac of [OTHER, scene.endpoint.mac, OTHER]) await put(scene, 'mac', { mac })
    await is(scene, 'thief', false, 'while the owner speaks', OTHER)
    for (const end of ends) end()
    await is(scene, 'owner', true, 'the MAC of now', OTHER)
    scene.t.notOk(await passes(scene, scene.owner.end, scene.near, scene.endpoint.mac), 'the MAC of before')
    await is(scene, 'thief', false, 'the MAC of now', OTHER)
  },
  async 'another port under traffic'(scene) {
    await bothOn(scene)
    const net = await listed(scene, THIEF)
    const ends = [
      traffic(scene, scene.owner.end, scene.endpoint.mac),
      traffic(scene, scene.thief.end, scene.endpoint.mac),
    ]
    await put(scene, 'port', { port: ELSEWHERE })
    for (const who of ['owner', 'thief'] as const) await is(scene, who, false, 'a port that is not there')
    await put(scene, 'port', { port: HOME })
    await is(scene, 'owner', true, 'its port')
    await is(scene, 'thief', false, 'its port')
    if (scene.setting !== 'roam') await scene.t.rejects(put(scene, 'port', { port: THIEF }), /409 .*another network/)
    else {
      await put(scene, 'port', { port: THIEF })
      await is(scene, 'owner', false, "the thief's port")
      await put(scene, 'port', { port: HOME })
    }
    for (const end of ends) end()
    scene.t.equal(await byRight(scene), net, "the thief's port is in its own network again")
    await is(scene, 'owner', true, 'its port again')
    await is(scene, 'thief', false, 'its port again')
  },
  async 'a port that goes to another bridge and comes back'(scene) {
    await bothOn(scene)
    ip(scene, 'link', 'add', 'br-x', 'type', 'bridge')
    ip(scene, 'link', 'set', 'br-x', 'up')
    ip(scene, 'link', 'set', HOME, 'master', 'br-x')
    await listed(scene, HOME, (net) => net === undefined)
    for (const who of ['owner', 'thief'] as const) await is(scene, who, false, 'on another bridge')
    ip(scene, 'link', 'set', HOME, 'master', 'br-work')
    await is(scene, 'owner', true, 'back')
    await is(scene, 'thief', false, 'back')
    ip(scene, 'link', 'del', 'br-x')
  },
  async "a device of the other tenant that gets the named one's name, and gives it back"(scene) {
    await bothOn(scene)
    const net = await listed(scene, THIEF)
    const named = scene.setting !== 'roam'
    ip(scene, 'link', 'set', HOME, 'name', ELSEWHERE)
    ip(scene, 'link', 'set', THIEF, 'name', HOME)
    await listed(scene, ELSEWHERE)
    await listed(scene, HOME, (it) => it !== undefined && (it === net) === !named)
    await is(scene, 'owner', !named, 'of another name')
    await is(scene, 'thief', named, 'of its name')
    ip(scene, 'link', 'set', HOME, 'name', THIEF)
    ip(scene, 'link', 'set', ELSEWHERE, 'name', HOME)
    await listed(scene, HOME)
    scene.t.equal(await byRight(scene), net, "the thief's port is in its own network again")
    await is(scene, 'owner', true, 'of its name again')
    await is(scene, 'thief', false, 'of another name again')
  },
  async 'an agent that is killed in the middle of attaches'(scene) {
    const { t, node, at, setting, endpoint } = scene
    await bothOn(scene)
    const ends = [traffic(scene, scene.owner.end, endpoint.mac), traffic(scene, scene.thief.end, endpoint.mac)]
    const named = setting === 'named' && { port: HOME }
    await node.ok('POST', `${at}/endpoints/${endpoint.id}/detach`)
    const attach = () => node.ok('POST', `${at}/attach`, { ip: endpoint.ip, mac: endpoint.mac, ...named })
    const cut = attach().catch(() => {})
    await wait(KILLED_AFTER_MS[setting])
    await node.agent.kill('SIGKILL')
    await cut
    await is(scene, 'thief', false, 'without an agent')
    await node.agent.restart()
    await is(scene, 'thief', false, 'with the next agent')
    await attach()
    await is(scene, 'owner', true, 'attached')
    await is(scene, 'thief', false, 'attached')
    t.equal((await node.ok('POST', '/control/v1/drift', { dry_run: true })).status, 'clean', setting)
    for (const end of ends) end()
  },
}

t.test('whose an endpoint is while everything changes under it', async (t) => {
  const form = process.env.STRATUM_ATTACH
  const node = await workloadNode(t, form === undefined ? {} : { env: { STRATUM_ATTACH: form } })
  const staged = await stage(t, node)
  for (const setting of SETTINGS) {
    await node.ok('PUT', '/control/v1/config/endpoint_ports', { value: setting })
    for (const [what, run] of Object.entries(CASES)) {
      await t.test(`${setting}: ${what}`, async (t) => {
        const bound = (at: string, body: object) => node.ok('POST', `${at}/attach`, body)
        const { endpoint } = await bound(staged.at, { ip: '10.0.0.50', ...(setting === 'named' && { port: HOME }) })
        const { endpoint: own } = await bound(staged.theirs, setting === 'named' ? { port: THIEF } : {})
        const scene = { ...staged, t, setting, endpoint: endpoint as Endpoint, own: own as Endpoint }
        t.teardown(async () => {
          off(scene, 'owner')
          off(scene, 'thief')
          for (const [at, { id }] of [
            [staged.at, scene.endpoint],
            [staged.theirs, scene.own],
          ] as const)
            await node.ok('POST', `${at}/endpoints/${id}/detach`)
        })
        await run(scene)
      })
    }
  }
})
