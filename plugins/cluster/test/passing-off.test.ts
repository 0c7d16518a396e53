/** What a caller hears of an area that is off at the member named. */
import t from 'tap'
import type { Caller } from '../../../core/gates/gate.ts'
import { encodePassed } from '../../../core/transport/elsewhere.ts'
import { knock, mesh } from './mesh.ts'

const P = '/api/v1'

t.test('D102 err-09 why an area is off there an operator hears here too, and a tenant does not', async (t) => {
  const { b, port, own, pass } = await mesh(t, { b: { config: { disabled_areas: 'lb' } } })
  const { status, body, headers } = await pass('GET', `${P}/lb`)
  t.same([status, body], [503, { error: 'lb service not available' }])
  t.equal(headers['stratum-reason'], 'disabled by disabled_areas')
  b.agent.states.turnOff('tenants', 'why')
  const path = `${P}/tenant/t1`
  const reasonFor = async (caller: Caller) => {
    const passed = encodePassed({ address: '192.0.2.1', caller, requestId: 'r-1' })
    const told = await knock(port, `/pass${path}`, { trust: own, headers: { 'x-stratum-caller': passed } })
    return [told.status, told.headers['stratum-reason']]
  }
  t.same(await reasonFor({ kind: 'operator', label: 'x' }), [503, 'why'])
  t.same(await reasonFor({ kind: 'tenant', label: 'x', tenantId: 't1' }), [503, undefined])
})
