/** Forwarding of VXLAN devices: several destinations of one MAC, what was learned, whose it is, and what others do. */

import t from 'tap'
import { here } from '../../../test/inside.ts'
import { requireRoot } from '../../../test/netns.ts'
import { fc } from '../../../test/property.ts'
import { KernelRefusal } from '../../plane.ts'
import { WireError } from '../attribute.ts'
import { forwarding, link } from '../entries.ts'
import { AF_BRIDGE, decodeFdb, FLOOD } from '../fdb.ts'
import {
  added,
  change,
  changed,
  differing,
  dump,
  ip,
  openDriver,
  quiet,
  removed,
  riggedSocket,
  run,
} from './driver-rig.ts'

if (requireRoot(t) && here !== undefined) all()

/** linux/neighbour.h */
const NTF_SELF = 2
const MAC = '02:00:00:00:00:0'
const device = (fields: object = {}) =>
  link('x', { name: 'vx7', device: { type: 'vxlan', vni: 7, local: '10.1.0.1' }, ...fields })
const to = (vtep: string, mac = FLOOD) => forwarding('x', { link: 'vx7', mac, vtep })
const learn = (mac: string, vtep: string) =>
  run('bridge', 'fdb', 'add', mac, 'dev', 'vx7', 'dst', vtep, 'self', 'dynamic')
const lines = () =>
  run('bridge', 'fdb', 'show', 'dev', 'vx7')
    .split('\n')
    .filter((line) => line.includes('dst'))

function all() {
  quiet()

  t.test(
    'who is no longer sent what is for many takes along what was learned behind it, and nothing else',
    async (t) => {
      const driver = await openDriver(t)
      await change(driver, added(device(), to('10.1.0.2'), to('10.1.0.3'), to('10.1.0.2', `${MAC}1`)))
      learn(`${MAC}8`, '10.1.0.2')
      learn(`${MAC}9`, '10.1.0.3')
      t.notOk(await driver.changedByOthers(), "what is learned is nobody's, what we did ourselves is no news")
      const undo = await change(driver, removed(to('10.1.0.2'), to('10.1.0.2', `${MAC}1`)))
      t.same(
        lines()
          .map((line) => line.split(' ')[0])
          .sort(),
        [FLOOD, `${MAC}9`],
      )
      t.notOk(await driver.changedByOthers())
      await undo()
      t.same(
        lines()
          .map((line) => line.split(' ')[0])
          .sort(),
        [FLOOD, FLOOD, `${MAC}1`, `${MAC}9`],
      )
      await change(driver, removed(to('10.1.0.2', `${MAC}1`)))
      await change(driver, removed(device(), to('10.1.0.2'), to('10.1.0.3')))
    },
  )

  t.test('a device that is made anew has its entries again', async (t) => {
    const driver = await openDriver(t)
    await change(driver, added(device(), to('10.1.0.2')))
    const other = device({ device: { type: 'vxlan', vni: 7, local: '10.1.0.1', port: 4790 } })
    const before = dump().forwarding
    await change(driver, changed(device(), other))
    t.same(dump().forwarding, before)
    t.same(await differing(driver, [other, to('10.1.0.2')]), [])
    await change(driver, removed(other, to('10.1.0.2')))
  })

  t.test('a failure on the way takes everything back', async (t) => {
    const rigged = riggedSocket()
    const driver = await openDriver(t, () => rigged.socket)
    await change(driver, added(device(), to('10.1.0.2')))
    const before = dump().forwarding
    const last = rigged.commands + 2
    rigged.refuse = (n) => n === last
    const diff = [...removed(to('10.1.0.2')), ...added(to('10.1.0.3'))]
    await t.rejects(driver.apply(diff), KernelRefusal)
    t.same(dump().forwarding, before)
    await change(driver, removed(device(), to('10.1.0.2')))
  })

  t.test('devices of others are not touched, what others do to ours is heard', async (t) => {
    const driver = await openDriver(t)
    ip('link', 'add', 'vx9', 'type', 'vxlan', 'id', '9', 'local', '10.1.0.1', 'dstport', '4789')
    run('bridge', 'fdb', 'append', FLOOD, 'dev', 'vx9', 'dst', '10.1.0.2')
    t.same(await differing(driver, []), [])
    const theirs = forwarding('x', { link: 'vx9', mac: FLOOD, vtep: '10.1.0.3' })
    await t.rejects(driver.apply(added(theirs)), { message: /on vx9 exists and is not ours/ })
    const wanted = [device(), to('10.1.0.2'), to('10.1.0.2', `${MAC}1`)]
    await change(driver, added(...wanted))
    t.notOk(await driver.changedByOthers())
    for (const command of [
      ['append', FLOOD, 'dev', 'vx7', 'dst', '10.1.0.9'],
      ['del', FLOOD, 'dev', 'vx7', 'dst', '10.1.0.2'],
      ['replace', `${MAC}1`, 'dev', 'vx7', 'dst', '10.1.0.9'],
      ['replace', `${MAC}1`, 'dev', 'vx7', 'dst', '10.1.0.2', 'self', 'dynamic'],
    ]) {
      run('bridge', 'fdb', ...command)
      t.ok(await driver.changedByOthers(), command.join(' '))
      await driver.apply(await differing(driver, wanted), 'restore')
      t.same(await differing(driver, wanted), [], 'as it was')
      t.notOk(await driver.changedByOthers())
    }
    await change(driver, removed(...wanted))
    ip('link', 'del', 'vx9')
  })

  t.test('any bytes are read or refused', (t) => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.boolean(), (bytes, bridge) => {
        const payload = Buffer.from(bytes)
        if (bridge && payload.length > 10) {
          payload.set([AF_BRIDGE], 0)
          payload.set([NTF_SELF], 10)
        }
        try {
          decodeFdb(payload)
          return true
        } catch (error) {
          return error instanceof WireError || error instanceof RangeError
        }
      }),
      { numRuns: 3000 },
    )
    t.pass('nothing else')
    t.end()
  })
}
