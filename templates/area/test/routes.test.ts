import t from 'tap'
import { buildArea } from '../../../test/build.ts'

t.test('a thing that was created is listed', async (t) => {
  const { call } = await buildArea(t, 'AREA')
  t.equal((await call('POST', '/api/v1/AREA', { name: 'first' })).status, 201)
  t.same((await call('GET', '/api/v1/AREA')).body, { things: [{ id: 1, name: 'first' }] })
})
