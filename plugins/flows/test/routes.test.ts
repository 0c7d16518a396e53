/** Flows over REST, on a plane in memory. */
import t from 'tap'
import type { Flow as Tracked } from '../../../dataplane/bpf/flow/read.ts'
import { flowsArea, MONTH, P } from './area.ts'

const tracked = (n: number, more: Partial<Tracked> = {}): Tracked => ({
  id: `00000000000000${String(n).padStart(2, '0')}`,
  srcIp: '10.0.0.1',
  dstIp: `10.0.0.${n}`,
  srcPort: 40_000 + n,
  dstPort: 443,
  protocol: 6,
  bytesIn: 100 * n,
  bytesOut: 10 * n,
  packetsIn: n,
  packetsOut: 1,
  start: MONTH,
  last: MONTH + 1500,
  state: 'active',
  ...more,
})
const shown = {
  ...{ id: '0000000000000002', src_ip: '10.0.0.1', dst_ip: '10.0.0.2', src_port: 40_002, dst_port: 443 },
  ...{ protocol: 'tcp', bytes_in: 200, bytes_out: 20, packets_in: 2, packets_out: 1 },
  ...{ start_time: '2030-01-01T00:00:00.000Z', last_seen: '2030-01-01T00:00:01.500Z', state: 'active' },
}

t.test('flow-10 D91 without traffic everything is empty', async (t) => {
  const { get, call } = await flowsArea(t)
  t.same(await get('/flows'), { flows: [], count: 0 })
  t.same(await get('/flows?state=closed'), { flows: [], count: 0 })
  t.same(await get('/flows/export'), { flows: [], count: 0 })
  t.match((await call('GET', `${P}/flows/export?format=csv`)).text, /^id,src_ip[a-z_,]*\r\n$/)
  const none = { total_flows: 0, active_flows: 0, total_bytes: 0, total_packets: 0 }
  t.same(await get('/flows/stats'), { stats: { ...none, per_protocol: {}, per_state: {}, top_talkers: [] } })
})

t.test('flow-01 flow-02 flow-03 the list, its fields and its filter', async (t) => {
  const { flows, get, call } = await flowsArea(t)
  flows.push(tracked(2), tracked(3, { state: 'new', protocol: 17 }), tracked(4, { state: 'closed', protocol: 199 }))
  const all = await get('/flows')
  t.equal(all.count, 3)
  t.same((all.flows as object[])[0], shown)
  t.match((all.flows as object[])[1], { protocol: 'udp', state: 'new' })
  t.match((all.flows as object[])[2], { protocol: '199', state: 'closed' })
  for (const state of ['new', 'active', 'closed'])
    t.match(await get(`/flows?state=${state}`), { count: 1, flows: [{ state }] })
  t.match(await get('/flows?limit=2'), { count: 2 })
  t.match(await get('/flows?limit=3'), { count: 3 })
  for (const query of [
    ...['state=open', 'state=', 'state=new&state=new', 'limit=0', 'limit=-1', 'limit=x', 'limit=1.5'],
    ...['ip=nobody', 'ip=10.0.0', 'port=70000', 'port=x', 'protocol=nonsense', 'protocol=256', 'protocol=TCP;'],
  ]) {
    const { status, body } = await call('GET', `${P}/flows?${query}`)
    t.equal(status, 400, query)
    t.match(body.error, query.split('=')[0])
  }
})

t.test('flow-07 flow-08 flow-09 D90 the export is a file, JSON or CSV', async (t) => {
  const { flows, call } = await flowsArea(t)
  flows.push(tracked(2), tracked(3, { state: 'new' }), tracked(4, { srcIp: 'fe80::1', dstIp: 'fe80::2', protocol: 58 }))
  for (const query of ['', '?format=json']) {
    const { headers, body } = await call('GET', `${P}/flows/export${query}`)
    t.equal(headers['content-disposition'], 'attachment; filename="flows-20300101T000000Z.json"')
    t.match(headers['content-type'], /^application\/json/)
    t.match(body, { count: 3, flows: [shown, {}, { protocol: 'ipv6-icmp' }] })
  }
  const csv = await call('GET', `${P}/flows/export?format=csv&state=active`)
  t.equal(csv.headers['content-disposition'], 'attachment; filename="flows-20300101T000000Z.csv"')
  t.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
  const [head = '', ...rows] = csv.text.split('\r\n')
  t.same(head.split(','), Object.keys(shown))
  t.equal(rows[0], Object.values(shown).join(','))
  t.same([rows.length, rows.at(-1)], [3, ''], 'every line ends with CR LF')
  for (const query of ['format=xml', 'format=', 'state=x']) {
    t.equal((await call('GET', `${P}/flows/export?${query}`)).status, 400, query)
  }
})

t.test('flow-05 flow-06 D91 sums, and who talks most by packets', async (t) => {
  const { flows, get } = await flowsArea(t)
  for (let n = 2; n < 20; n++) flows.push(tracked(n, n % 2 ? { protocol: 17, state: 'new' } : {}))
  flows.push(tracked(99, { srcIp: '10.9.9.9', dstIp: '10.9.9.9', packetsIn: 1, packetsOut: 0 }))
  const { stats } = (await get('/flows/stats')) as { stats: Record<string, unknown> }
  const packets = flows.reduce((sum, { packetsIn, packetsOut }) => sum + packetsIn + packetsOut, 0)
  const bytes = flows.reduce((sum, { bytesIn, bytesOut }) => sum + bytesIn + bytesOut, 0)
  t.match(stats, { total_flows: 19, active_flows: 10, total_bytes: bytes, total_packets: packets })
  t.same(stats.per_protocol, { tcp: 10, udp: 9 })
  t.same(stats.per_state, { active: 10, new: 9 })
  const top = stats.top_talkers as { ip: string; packets: number }[]
  t.equal(top.length, 10)
  t.same(top[0], { ip: '10.0.0.1', packets: packets - 1, bytes: bytes - 99 * 110, flows: 18 })
  t.same(top[1], { ip: '10.0.0.19', packets: 20, bytes: 19 * 110, flows: 1 })
  t.same(
    top.map((one) => one.packets),
    top.map((one) => one.packets).sort((a, b) => b - a),
  )
})

t.test('flow-05 of many that ask for sums one is answered at a time', async (t) => {
  const { flows, plane, get, call } = await flowsArea(t)
  for (let n = 2; n < 20; n++) flows.push(tracked(n))
  const { flows: all } = plane.traffic
  let [running, most] = [0, 0]
  let fails = true
  Object.assign(plane.traffic, {
    async *flows() {
      most = Math.max(most, ++running)
      try {
        if (fails) throw new Error('no map')
        yield* all()
      } finally {
        running--
      }
    },
  })
  t.equal((await call('GET', `${P}/flows/stats`)).status, 500)
  fails = false
  const answers = await Promise.all(Array.from({ length: 5 }, () => get('/flows/stats')))
  for (const answer of answers) t.match(answer, { stats: { total_flows: 18 } })
  t.equal(most, 1)
})

t.test('flow-01 what cannot be read is an error before anything is answered', async (t) => {
  const { plane, call } = await flowsArea(t)
  Object.assign(plane.traffic, {
    async *flows() {
      await Promise.reject(new Error('no map'))
      yield []
    },
  })
  for (const path of ['/flows', '/flows/stats', '/flows/export?format=csv']) {
    const { status, text } = await call('GET', `${P}${path}`)
    t.equal(status, 500, path)
    t.notMatch(text, /no map/)
  }
})
