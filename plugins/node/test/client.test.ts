/** A client that is generated from the served document speaks with the real listener over pinned TLS. */
import https from 'node:https'
import axios from 'axios'
import type { Document, OpenAPIClient } from 'openapi-client-axios'
import { OpenAPIClientAxios } from 'openapi-client-axios'
import t from 'tap'
import { TOKEN } from '../../../test/build.ts'
import { openAgent } from '../../../test/rest/ask.ts'
import { serve } from '../../../test/rest/wire.ts'

t.test('node-05 a client made from the OpenAPI document reads, changes, and reads back', async (t) => {
  const { agent } = await openAgent(t)
  const { port, certificate } = await serve(t, agent)
  const httpsAgent = new https.Agent({ ca: certificate.cert })
  t.teardown(() => httpsAgent.destroy())
  const defaults = { baseURL: `https://127.0.0.1:${port}`, httpsAgent, proxy: false as const }
  const { data } = await axios.get<Document>('/api/v1/docs?format=openapi', defaults)
  const client: OpenAPIClient = await new OpenAPIClientAxios({
    definition: data,
    axiosConfigDefaults: { ...defaults, validateStatus: () => true },
  }).init()
  const call = async (name: string, ...args: Parameters<NonNullable<(typeof client)[string]>>) => {
    const method = client[name]
    if (method === undefined) throw new Error(`the client has no ${name}`)
    const { status, data, headers } = await method(...args)
    return { status, data, headers }
  }
  const bearer = { headers: { Authorization: `Bearer ${TOKEN}` } }

  t.match(await call('getHealth'), { status: 200, data: { status: 'healthy' } })
  t.match(await call('getRules'), { status: 401, data: { error: String } })
  t.match(await call('getRules', {}, null, bearer), { status: 200, data: { rules: [] } })
  const rule = { action: 'drop', source_ip: '192.0.2.0/24', dest_port: 22, protocol: 'tcp' }
  const created = await call('postRules', {}, rule, bearer)
  t.match(created, {
    status: 201,
    data: { status: 'created', rule: { id: 1, ...rule } },
    headers: { 'x-event-id': '1' },
  })
  const read = await call('getRulesById', { id: 1 }, null, bearer)
  t.same([read.status, read.data], [200, created.data.rule])
  const stale = { id: 1, 'If-Match': '"other"' }
  t.match(await call('deleteRulesById', stale, null, bearer), { status: 412 }, 'parameters in headers are known too')
  const current = { id: 1, 'If-Match': read.headers.etag }
  t.match(await call('deleteRulesById', current, null, bearer), { status: 200, data: { status: 'deleted', id: 1 } })
  t.match(await call('getRules', { chain: 'prerouting' }, null, bearer), { status: 200, data: { rules: [] } })
})

t.test('tls-02 the pin is what counts: another certificate is not spoken with', async (t) => {
  const { agent } = await openAgent(t)
  const { port } = await serve(t, agent)
  const other = await serve(t, agent)
  const httpsAgent = new https.Agent({ ca: other.certificate.cert })
  t.teardown(() => httpsAgent.destroy())
  await t.rejects(axios.get(`https://127.0.0.1:${port}/api/v1/health`, { httpsAgent, proxy: false }), {
    code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
  })
})
