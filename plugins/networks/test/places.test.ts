/**
 * Whose an endpoint is while its machine is off, never was on, or moves: by `endpoint_ports`, by a named port, and by a hard
 * MAC binding.
 */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { guarded, type PortedMachine } from './machines-on-ports.ts'
import {
  ELSEWHERE,
  type Endpoint,
  HOME,
  kept,
  NEIGHBOUR,
  P,
  type Place,
  place,
  SETTINGS,
  type Setting,
  THIEF,
} from './theft.ts'

requireRoot(t)

/** What happens, in this order, and in which settings whoever it is about is then the endpoint. */
const TABLE: readonly [what: string, ...settings: string[]][] = [
  ['the thief, before the owner was ever on', 'roam', 'sticky'],
  ['the owner, alone', 'roam', 'sticky', 'named port', 'hard binding'],
  ['the thief beside the owner'],
  ['the thief while the owner is off', 'roam'],
  ['the owner, on again beside the thief', 'sticky', 'named port', 'hard binding'],
  ['the owner, on again alone', 'roam', 'sticky', 'named port', 'hard binding'],
  ["the thief, off and on with the owner's MAC"],
  ['the owner on another device', 'roam'],
  ['the owner on another device, which the operator names', 'roam', 'sticky', 'named', 'named port', 'hard binding'],
]

/** Moves the endpoint to a device, as the operator does. */
async function name({ node, at }: Place, { by }: Setting, { id, mac }: Endpoint, port: string): Promise<void> {
  if (by !== 'macbind') return void (await node.ok('PUT', `${at}/endpoints/${id}/port`, { port }))
  await node.ok('DELETE', `${P}/macbind/${mac}`)
  await node.ok('POST', `${P}/macbind`, { mac, port_id: port })
}

t.test('whose an endpoint is', async (t) => {
  const here = await place(t)
  const { node, owner, thief, at } = here
  for (const [n, setting] of SETTINGS.entries()) {
    await here.set(setting.ports)
    const endpoint = await here.attach(setting, `10.0.0.${10 + n}`)
    const { mac, ip } = endpoint
    const rows = TABLE.values()
    const is = (machine: PortedMachine) => {
      const [what = '', ...settings] = rows.next().value ?? []
      const shall = settings.includes(setting.name)
      t.equal(shall ? machine.reaches(NEIGHBOUR) : machine.pings(NEIGHBOUR), shall, `${setting.name}: ${what}`)
    }
    await thief.on(THIEF, mac, ip)
    is(thief)
    thief.off()
    // The first one was not the owner.
    if (setting.ports === 'sticky') await kept(here, endpoint, THIEF)
    if (setting.ports === 'sticky') await node.ok('PUT', `${at}/endpoints/${endpoint.id}/port`, { port: '' })
    await owner.on(HOME, mac, ip)
    is(owner)
    if (setting.ports === 'sticky') await kept(here, endpoint, HOME)
    await thief.on(THIEF, mac, ip)
    is(thief)
    owner.off()
    is(thief)
    if (setting.name === 'roam') {
      const moved = await node.event('endpoint.moved', ({ new_port }) => new_port === THIEF)
      t.match(moved, { area: 'networks', data: { mac, ip, endpoint_id: endpoint.id, old_port: HOME } })
    }
    await owner.on(HOME, mac, ip)
    is(owner)
    thief.off()
    is(owner)
    await here.honest()
    await thief.on(THIEF, mac, ip)
    is(thief)
    thief.off()
    await owner.on(ELSEWHERE, mac, ip)
    is(owner)
    await name(here, setting, endpoint, ELSEWHERE)
    is(owner)
    owner.off()
    await node.ok('POST', `${at}/endpoints/${endpoint.id}/detach`)
  }
})

t.test(
  'a named device that appears while the agent is held up: neither it nor anybody else is the endpoint',
  async (t) => {
    const here = await place(t)
    const { node, owner, thief } = here
    const { mac, ip } = await here.attach({ name: 'named port', ports: 'roam', by: 'port' }, '10.0.0.10')
    await owner.on(HOME, mac, ip)
    t.ok(owner.reaches(NEIGHBOUR))
    await thief.on(THIEF, mac, ip)
    node.agent.child.kill('SIGSTOP')
    owner.onAlone(HOME, mac, ip)
    t.notOk(owner.pings(NEIGHBOUR), 'its row is that of the device before')
    t.notOk(thief.pings(NEIGHBOUR))
    node.agent.child.kill('SIGCONT')
    await guarded(node, HOME)
    // It has given up asking for the neighbour's MAC, which ends a ping at once.
    owner.ns.run('ip', 'neighbour', 'del', NEIGHBOUR, 'dev', 'eth0')
    t.ok(owner.reaches(NEIGHBOUR))
    t.notOk(thief.pings(NEIGHBOUR))
  },
)
