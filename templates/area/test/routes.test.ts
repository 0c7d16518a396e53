import t from 'tap'
import { buildArea } from '../../../test/build.ts'

t.test('a thing that was created is listed', async (t) => {
  const { call } = await buildArea(t, 'AREA')
  t.equal((await call('POST', '/api/v1/AREA', { name: 'first' })).status, 201)
  t.same((await call('GET', '/api/v1/AREA')).body, { things: [{ id: 1, name: 'first' }] })
})

t.test('D18 a thing is deleted by whoever has read it as it is', async (t) => {
  const { call } = await buildArea(t, 'AREA')
  await call('POST', '/api/v1/AREA', { name: 'first' })
  const { body, headers } = await call('GET', '/api/v1/AREA/1')
  t.same(body, { id: 1, name: 'first' })
  t.equal((await call('DELETE', '/api/v1/AREA/1', undefined, { 'if-match': '"of-another-state"' })).status, 412)
  t.equal((await call('DELETE', '/api/v1/AREA/1', undefined, { 'if-match': String(headers.etag) })).status, 200)
  t.equal((await call('GET', '/api/v1/AREA/1')).status, 404)
})
