import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../test/build.ts'
import type { Scope } from '../../test/netns.ts'
import { type Entry, forwarding } from '../entry.ts'
import { forwardingDriver } from '../forwarding.ts'

/** A folder of settings as the kernel has it. */
function setUp(t: Scope, devices: Record<string, string>) {
  const root = scratch(t)
  const plug = (device: string, value: string) => {
    mkdirSync(join(root, device))
    writeFileSync(join(root, device, 'forwarding'), `${value}\n`)
  }
  for (const [device, value] of Object.entries(devices)) plug(device, value)
  const value = (device: string) => readFileSync(join(root, device, 'forwarding'), 'utf8').trim()
  return { root, plug, value, driver: forwardingDriver(root) }
}
const on = (device: string, holder = 'x') => forwarding('networks', device, holder)
const adding = (...entries: Entry[]) => entries.map((after) => ({ after }))

t.test('it is switched on where somebody needs it, and stays on when nobody does', async (t) => {
  const { driver, value } = setUp(t, { wan0: '0', lan0: '0' })
  await driver.apply([...adding(on('wan0')), ...adding(on('wan0', 'y'))])
  t.same([value('wan0'), value('lan0')], ['1', '0'])
  await driver.apply([{ before: on('wan0') }, { before: on('wan0', 'y') }])
  t.equal(value('wan0'), '1')
})

t.test('a change that is taken back leaves it as it was', async (t) => {
  const { driver, value } = setUp(t, { wan0: '0', wan1: '1' })
  const undo = await driver.apply(adding(on('wan0'), on('wan1')))
  t.same([value('wan0'), value('wan1')], ['1', '1'])
  await undo?.()
  t.same([value('wan0'), value('wan1')], ['0', '1'])
})

t.test('what the kernel refuses leaves nothing of the change', async (t) => {
  const { driver, root, value } = setUp(t, { wan0: '0', wan1: '0' })
  rmSync(join(root, 'wan1', 'forwarding'))
  mkdirSync(join(root, 'wan1', 'forwarding'))
  await t.rejects(driver.apply(adding(on('wan0'), on('wan1'))))
  t.equal(value('wan0'), '0')
})

t.test('somebody who switches it off is noticed, and so is a device that comes', async (t) => {
  const { driver, plug, root, value } = setUp(t, { wan0: '0' })
  const desired = [on('wan0'), on('wan1')]
  t.same(await driver.observe(desired), [on('wan1')], 'one that is away is nothing to repair')
  await driver.apply(adding(on('wan0')))
  t.same(driver.pending?.(), [
    { key: on('wan1').key, reason: 'networks: device wan1 is not there, which x waits for', device: 'wan1' },
  ])
  t.equal(await driver.changedByOthers?.(), false)
  writeFileSync(join(root, 'wan0', 'forwarding'), '0')
  t.equal(await driver.changedByOthers?.(), true)
  t.same(await driver.observe(desired), [on('wan1')])
  await driver.apply(adding(on('wan0')))
  plug('wan1', '0')
  t.equal(await driver.changedByOthers?.(), true)
  t.same(await driver.observe(desired), [on('wan0')])
  await driver.apply(adding(on('wan1')))
  t.equal(value('wan1'), '1')
  t.same(driver.pending?.(), [])
})

t.test('what waits is told from the change on, until it is deleted or taken back', async (t) => {
  const { driver } = setUp(t, { wan0: '0' })
  const waiting = () => driver.pending?.().map(({ device }) => device)
  await driver.observe([])
  const undo = await driver.apply(adding(on('nope'), on('wan0'), forwarding('nat', 'none', 'six', 6)))
  t.same(waiting(), ['nope', 'none'])
  await undo?.()
  t.same(waiting(), [])
  await driver.apply(adding(on('nope')))
  const back = await driver.apply([{ before: on('nope') }])
  t.same(waiting(), [])
  await back?.()
  t.same(waiting(), ['nope'])
})

t.test('for IPv6 a device is waited for and nothing is switched on', async (t) => {
  const { driver, plug, value } = setUp(t, { wan0: '0' })
  const six = (device: string) => forwarding('nat', device, 'six', 6)
  await driver.apply(adding(six('wan0'), six('wan1')))
  t.equal(value('wan0'), '0')
  plug('wan1', '0')
  t.equal(await driver.changedByOthers?.(), true)
  t.same(await driver.observe([six('wan0'), six('wan1')]), [six('wan0'), six('wan1')])
  t.same([value('wan1'), driver.pending?.()], ['0', []])
})

t.test('the settings that stand beside the devices, and for all of them, are no devices', async (t) => {
  const { driver, value } = setUp(t, { all: '0', default: '0', wan0: '0' })
  const desired = [on('all'), on('default')]
  t.same(await driver.observe(desired), desired, 'nothing is to be repaired')
  await driver.apply(adding(...desired, on('wan0')))
  t.same([value('all'), value('default'), value('wan0')], ['0', '0', '1'])
  t.same(
    driver.pending?.().map(({ reason }) => reason),
    ['all', 'default'].map((name) => `networks: device ${name} is not there, which x waits for`),
  )
  t.equal(await driver.changedByOthers?.(), false)
})
