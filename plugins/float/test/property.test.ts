/** After any sequence of changes, some refused by the kernel: the plane, a full rendering and a plain model agree. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { desired } from '../desired.ts'
import { FLOAT, floatArea } from './area.ts'

const area = await floatArea(t)

interface Thing {
  id: string
  ip: string
  mine: boolean
}
interface Step {
  ip: string
  primary: string
  victim: number | undefined
  uplink: string | undefined
  refuse: boolean
}

const step: fc.Arbitrary<Step> = fc.record({
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1', '2001:db8::2'),
  primary: fc.constantFrom('', '', 'node-b'),
  victim: fc.option(fc.nat(20), { nil: undefined, freq: 2 }),
  uplink: fc.option(fc.constantFrom('', 'eth0', 'eth1'), { nil: undefined, freq: 5 }),
  refuse: fc.nat(5).map((n) => n === 0),
})

function equal(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
  if (left !== right) throw new Error(`${what}: ${left} is not ${right}`)
}

async function carryOut(things: Thing[], { ip, primary, victim, refuse }: Step): Promise<void> {
  area.plane.refuse = refuse ? new KernelRefusal('made up') : undefined
  const doomed = victim === undefined || things.length === 0 ? undefined : things[victim % things.length]
  if (doomed) {
    const status = refuse && doomed.mine ? 409 : 200
    equal((await area.call('DELETE', `${FLOAT}/${doomed.id}`)).status, status, 'deletion')
    if (status === 200) things.splice(things.indexOf(doomed), 1)
  } else {
    const mine = primary === ''
    const status = things.some((thing) => thing.ip === ip) || (refuse && mine) ? 409 : 201
    const answer = await area.call('POST', FLOAT, { ip, primary })
    equal(answer.status, status, `creation of ${ip}`)
    if (status === 201) things.push({ id: (answer.body.floating_ip as { id: string }).id, ip, mine })
  }
  area.plane.refuse = undefined
}

t.test('any sequence of changes: plane = full rendering = model', async (t) => {
  let most = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25, size: 'max' }), async (steps) => {
      const things: Thing[] = []
      let link = 'eth0'
      await area.set({ uplink: link })
      for (const one of steps) {
        if (one.uplink !== undefined) await area.set({ uplink: one.uplink })
        // Without an uplink it stays where it was, and a first address is what makes the node remember that.
        if (one.uplink) link = one.uplink
        else if (one.uplink === '') await area.set({ uplink: link })
        await carryOut(things, one)
        const rendered = [...desired.all(area.agent.store.read, area.agent.config)].map(({ key }) => key)
        equal(area.held(), rendered.sort(), 'the plane is a full rendering')
        const own = things.filter(({ mine }) => mine).map(({ ip }) => ip)
        const keys = own.map((ip) => `float/address/${link}/${ip}/${ip.includes(':') ? 128 : 32}`)
        equal(area.held(), keys.sort(), 'and the model')
      }
      most = Math.max(most, things.length)
      for (const { id } of things) await area.call('DELETE', `${FLOAT}/${id}`)
      equal(area.held(), [], 'nothing is left')
    }),
    { numRuns: 30 },
  )
  t.ok(most > 2, `control: ${most}`)
})
