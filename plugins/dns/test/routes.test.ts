/** Zones, records and keys over REST, over a plane in memory. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { readExposition } from '../../../test/exposition.ts'
import { DNS, dnsArea } from './area.ts'

t.test('dns-01 dns-02 dns-04 a zone is made, shown and removed with its records', async (t) => {
  const { call, zones, record, records, held, events } = await dnsArea(t, {
    now: () => new Date('2026-03-04T23:59:59Z'),
  })
  const made = await call('POST', `${DNS}/zones`, { name: 'Example.ORG' })
  const soa = 'ns1.example.org. hostmaster.example.org. 2026030401 3600 600 604800 300'
  const zone = { id: 1, name: 'example.org.', soa, serial: 2026030401 }
  t.same([made.status, made.body], [201, { status: 'created', zone }])
  t.same(await zones(), [zone])
  await record(1, {})
  await record(1, { name: 'mail' })
  t.same(held(), ['dns/record/1', 'dns/record/2', 'dns/zone/example.org.'])
  const gone = await call('DELETE', `${DNS}/zones/1`)
  t.same([gone.status, gone.body], [200, { status: 'deleted', id: 1 }])
  t.same([await zones(), await records(), held()], [[], [], []])
  for (const id of ['1', '0', '-1', 'x', '9'.repeat(30)])
    t.equal((await call('DELETE', `${DNS}/zones/${id}`)).status, 404)
  t.same(events(), ['zone.created', 'record.created', 'record.created', 'zone.deleted'])
  t.match(await call('POST', `${DNS}/zones`, { name: 'example.org.' }), { status: 201, body: { zone: { id: 2 } } })
})

t.test('dns-03 D54 what is no zone name is refused, and a name is served once', async (t) => {
  const { call, zones } = await dnsArea(t)
  const cases: [object, RegExp][] = [
    [{}, /^name/],
    [{ name: '' }, /^name is required/],
    [{ name: 7 }, /^name/],
    [{ name: '.' }, /^name: the root/],
    [{ name: 'a..b' }, /^name: has an empty label/],
    [{ name: '.org' }, /^name: has an empty label/],
    [{ name: 'exa mple.org' }, /^name: "exa mple" is no DNS label/],
    [{ name: 'bücher.example' }, /^name: write international names/],
    [{ name: '-a.org' }, /^name: "-a" is no DNS label/],
    [{ name: '*.example.org' }, /^name: wildcards/],
    [{ name: `${'a'.repeat(64)}.org` }, /^name: has a label longer than 63/],
    [{ name: `${'abcdefg.'.repeat(32)}` }, /^name/],
  ]
  for (const [body, why] of cases) {
    const { status, body: answer } = await call('POST', `${DNS}/zones`, body)
    t.equal(status, 400, JSON.stringify(body))
    t.match(answer.error, why)
  }
  t.same(await zones(), [])
  for (const name of ['example.org', 'sub.example.org', '2.0.192.in-addr.arpa', 'lan', '_x.example']) {
    t.equal((await call('POST', `${DNS}/zones`, { name })).status, 201, name)
  }
  const again = await call('POST', `${DNS}/zones`, { name: 'EXAMPLE.org.' })
  t.same([again.status, again.body], [409, { error: 'zone example.org. already exists' }])
})

t.test('dns-05 dns-06 dns-09 dns-14 a record is made, shown, filtered and removed', async (t) => {
  const { call, zone, record, records, held, events } = await dnsArea(t)
  const [one, two] = [await zone('one.example'), await zone('two.example')]
  const first = await record(one, {})
  const shown = { id: 1, zone_id: one, name: 'www.one.example.', type: 'A', value: '192.0.2.1', ttl: 300 }
  t.same([first.status, first.body], [201, { status: 'created', record: shown }])
  const second = await record(two, { ttl: 0, source_subnet: '10.1.2.3/8' })
  t.match(second.body.record, { name: 'www.two.example.', ttl: 0, source_subnet: '10.0.0.0/8' })
  t.equal((await records()).length, 2)
  t.same(await records(`?zone_id=${one}`), [shown])
  t.same(await records('?zone_id=99'), [])
  t.equal((await call('GET', `${DNS}/records?zone_id=x`)).status, 400)
  const gone = await call('DELETE', `${DNS}/records/1`)
  t.same([gone.status, gone.body], [200, { status: 'deleted', record_id: 1 }])
  t.equal((await call('DELETE', `${DNS}/records/1`)).status, 404)
  t.same(held(), ['dns/record/2', 'dns/zone/one.example.', 'dns/zone/two.example.'])
  t.same(events().slice(2), ['record.created', 'record.created', 'record.deleted'])
})

t.test('dns-07 dns-08 dns-21 D55 what is no record is refused, and nothing is stored', async (t) => {
  const { call, zone, records } = await dnsArea(t)
  const id = await zone('example.org')
  const whole = { zone_id: id, name: 'www', type: 'A', value: '192.0.2.1' }
  for (const key of Object.keys(whole)) {
    const { [key as 'name']: _, ...rest } = whole
    t.match(await call('POST', `${DNS}/records`, rest), { status: 400, body: { error: new RegExp(`^${key}`) } })
  }
  const bad: [object, RegExp][] = [
    [{ type: 'CAA' }, /^type/],
    [{ type: 'a' }, /^type/],
    [{ name: '' }, /^name is required/],
    [{ name: 'other.example.' }, /^name: other\.example\. is not in example\.org\./],
    [{ name: '*' }, /^name: wildcards/],
    [{ ttl: -1 }, /^ttl/],
    [{ ttl: 2147483648 }, /^ttl/],
    [{ source_subnet: 'lan' }, /^source_subnet/],
    [{ value: '' }, /^value is required/],
    [{ value: '::1' }, /^value: not an IPv4/],
    [{ value: '192.0.2.1/32' }, /^value: not an IPv4/],
    [{ type: 'AAAA' }, /^value: not an IPv6/],
    [{ type: 'CNAME', value: 'a b' }, /^value/],
    [{ type: 'CNAME', value: 'www' }, /^value: write www in full, such as www\.example\.org; www\. with a dot/],
    [{ type: 'MX', value: '10 mail' }, /^value: write mail in full/],
    [{ type: 'NS', value: '_x.example.org' }, /^value/],
    [{ type: 'MX', value: 'mail.example.org' }, /^value: must be "<preference> <host>"/],
    [{ type: 'MX', value: '65536 mail' }, /^value: preference/],
    [{ type: 'SRV', value: '1 2 mail' }, /^value: must be/],
    [{ type: 'SRV', value: '1 2 x mail' }, /^value: port/],
    [{ type: 'TXT', value: 'a\nb' }, /^value/],
    [{ type: 'TXT', value: 'ä'.repeat(2049) }, /^value: longer/],
    [{ type: 'SOA', name: '@', value: 'ns1 host 1 2 3 4' }, /^value: must be/],
    [{ type: 'SOA', value: 'ns1 host 1 2 3 4 5' }, /^name: the SOA/],
  ]
  for (const [fields, why] of bad) {
    const { status, body } = await call('POST', `${DNS}/records`, { ...whole, ...fields })
    t.equal(status, 400, JSON.stringify(fields))
    t.match(body.error, why)
  }
  t.equal((await call('POST', `${DNS}/records`, { ...whole, zone_id: 99 })).status, 404)
  t.same(await records(), [])
})

t.test('dns-08 D54 D55 every type is stored in one spelling', async (t) => {
  const { zone, record } = await dnsArea(t)
  const id = await zone('example.org')
  const cases: [object, object][] = [
    [{ name: '@', value: '192.0.2.1' }, { name: 'example.org.' }],
    [{ name: 'WWW.Example.org' }, { name: 'www.example.org.' }],
    [{ name: 'a.b.example.org.' }, { name: 'a.b.example.org.' }],
    [{ name: 'six', type: 'AAAA', value: '2001:DB8:0::1' }, { value: '2001:db8::1' }],
    [{ name: 'alias', type: 'CNAME', value: 'Other.Example' }, { value: 'other.example.' }],
    [{ name: 'top', type: 'CNAME', value: 'localhost.' }, { value: 'localhost.' }],
    [{ name: '1', type: 'PTR', value: 'host.example.org.' }, { value: 'host.example.org.' }],
    [{ name: '@', type: 'NS', value: 'ns1.example.org' }, { value: 'ns1.example.org.' }],
    [{ name: '@', type: 'MX', value: '010 Mail.example.org' }, { value: '10 mail.example.org.' }],
    [{ name: 'nomail', type: 'MX', value: '0 .' }, { value: '0 .' }],
    [{ name: '_sip._tcp', type: 'SRV', value: '1 2 5060 sip.example.org' }, { value: '1 2 5060 sip.example.org.' }],
    [{ name: '@', type: 'TXT', value: 'v=spf1 "quoted" \\ ä -all' }, { value: 'v=spf1 "quoted" \\ ä -all' }],
  ]
  for (const [fields, stored] of cases) {
    const { status, body } = await record(id, fields)
    t.equal(status, 201, `${JSON.stringify(fields)} ${JSON.stringify(body)}`)
    t.match(body.record, stored)
  }
})

t.test('D55 D56 an own SOA replaces the default, and the serial is never taken back', async (t) => {
  const { call, zone, zones, record, plane } = await dnsArea(t, { now: () => new Date('2026-03-04T00:00:00Z') })
  const id = await zone('example.org')
  const value = 'ns.example.net. admin.example.net. 3000000000 1 2 3 4'
  t.equal((await record(id, { name: '@', type: 'SOA', value, ttl: 60 })).status, 201)
  const soa = value
  t.match(await zones(), [{ soa, serial: 3_000_000_000 }])
  t.match(plane.entries.get('dns/zone/example.org.'), { soa, soaTtl: 60 })
  t.equal((await record(id, { name: '@', type: 'SOA', value: `${value}0` })).status, 409)
  await call('DELETE', `${DNS}/records/1`)
  t.match(await zones(), [{ soa: /^ns1\.example\.org\. .* 3000000001 3600/, serial: 3_000_000_001 }])
})

t.test('dns-15 the serial rises with every change to the zone, and to no other', async (t) => {
  let now = new Date('2026-03-04T12:00:00Z')
  const { call, zone, zones, record } = await dnsArea(t, { now: () => now })
  const id = await zone('example.org')
  await zone('other.example')
  const serial = async () => (await zones()).map(({ serial }) => serial)
  await record(id, {})
  t.same(await serial(), [2026030402, 2026030401])
  await record(id, { value: 'x' })
  t.same(await serial(), [2026030402, 2026030401], 'a refused change is none')
  await call('DELETE', `${DNS}/records/1`)
  t.same(await serial(), [2026030403, 2026030401])
  now = new Date('2026-03-05T12:00:00Z')
  await call('GET', `${DNS}/dnssec/example.org`)
  t.same(await serial(), [2026030501, 2026030401])
  now = new Date('2026-03-01T12:00:00Z')
  await record(id, {})
  t.same(await serial(), [2026030502, 2026030401], 'a clock that goes back does not take it along')
})

t.test('D55 a CNAME stands alone at its name; what is there already is not added again', async (t) => {
  const { zone, record } = await dnsArea(t)
  const id = await zone('example.org')
  const status = async (fields: object) => (await record(id, fields)).status
  t.same([await status({}), await status({}), await status({ value: '192.0.2.2' })], [201, 409, 201])
  const alias = { type: 'CNAME', value: 'x.example.' }
  t.same([await status(alias), await status({ ...alias, name: '@' })], [409, 409])
  t.equal(await status({ ...alias, name: 'alias' }), 201)
  t.equal(await status({ ...alias, name: 'alias', value: 'y.example.' }), 409)
  t.equal(await status({ ...alias, name: 'alias', source_subnet: '10.0.0.0/8' }), 201, 'for others another')
  t.equal(await status({ name: 'alias', type: 'TXT', value: 'x' }), 409)
})

t.test('D54 a name is served by one zone: the longest that it lies in', async (t) => {
  const { zone, record, call } = await dnsArea(t)
  const outer = await zone('example.org')
  t.equal((await record(outer, { name: 'www.sub' })).status, 201)
  const refused = await call('POST', `${DNS}/zones`, { name: 'sub.example.org' })
  t.equal(refused.status, 409)
  t.match(refused.body.error, /zone example\.org\. has records of www\.sub\.example\.org\./)
  await call('DELETE', `${DNS}/records/1`)
  t.equal((await call('POST', `${DNS}/zones`, { name: 'sub.example.org' })).status, 201)
  const hidden = await record(outer, { name: 'www.sub' })
  t.equal(hidden.status, 409)
  t.match(hidden.body.error, /served by zone sub\.example\.org\.: add the record there/)
  t.equal(
    (await record(outer, { name: 'sub', type: 'NS', value: 'ns.example.org' })).status,
    201,
    'it may be delegated',
  )
  t.equal((await record(outer, { name: 'xsub' })).status, 201)
})

t.test('dns-13 a record is not changed in place', async (t) => {
  const { call } = await dnsArea(t)
  const { status, body } = await call('PUT', `${DNS}/records/1`, { value: '192.0.2.2' })
  t.same([status, body], [501, { error: 'a record is not changed in place: delete it and create it anew' }])
})

t.test('dns-16 dns-17 dns-20 D58 the first call signs the zone, later ones show the same', async (t) => {
  const { call, zone, plane, events } = await dnsArea(t)
  await zone('example.org')
  const first = await call('GET', `${DNS}/dnssec/example.org`)
  t.match(first, { status: 200, body: { zone: 'example.org.', enabled: true } })
  t.match((first.body.dnskey as string[])[0], /^example\.org\. 3600 IN DNSKEY 257 3 13 [A-Za-z0-9+/]{86}==$/)
  t.match(first.body.ds, /^example\.org\. 3600 IN DS \d+ 13 2 [0-9A-F]{64}$/)
  t.same((await call('GET', `${DNS}/dnssec/Example.org.`)).body, first.body)
  t.ok((plane.entries.get('dns/zone/example.org.') as { csk?: string }).csk)
  t.equal((await call('GET', `${DNS}/dnssec/unknown.example`)).status, 404)
  t.same(events(), ['zone.created', 'dnssec.created'])
})

t.test('D58 while the licence is frozen nothing is made, and reading goes on', async (t) => {
  const { call, zone, agent, plane } = await dnsArea(t)
  await zone('example.org')
  const answer = { zone: 'example.org.', enabled: false, dnskey: [], ds: '' }
  const view = agent.licence.view
  agent.licence.view = () => ({ ...view(), mutations_allowed: false, state: 'frozen' }) as ReturnType<typeof view>
  const frozen = await call('GET', `${DNS}/dnssec/example.org`)
  agent.licence.view = view
  t.same([frozen.status, frozen.body], [200, answer])
  t.notOk((plane.entries.get('dns/zone/example.org.') as { csk?: string }).csk)
})

t.test('auth-28 the private key is in no answer, event or log', async (t) => {
  const { call, zone, record, agent, logged } = await dnsArea(t)
  const id = await zone('example.org')
  const texts = [
    await call('GET', `${DNS}/dnssec/example.org`),
    await record(id, {}),
    await call('GET', `${DNS}/zones`),
  ]
  const { keys } = await import('../tables.ts')
  const [row] = agent.store.read.select().from(keys).all()
  const key = row?.csk ?? ''
  t.ok(key.length > 100)
  for (const text of [
    ...texts.map((one) => one.text),
    JSON.stringify(agent.outbox.after(0, 1000)),
    JSON.stringify(logged),
  ]) {
    t.notOk(text.includes(key.slice(0, 40)))
  }
})

t.test('D53 it listens on the gateways of networks, or where it is told', async (t) => {
  const { call, held, agent } = await dnsArea(t)
  const made = await call('POST', '/api/v1/networks', {
    name: 'lab',
    cidr: '10.0.0.0/24',
    gateway: '10.0.0.1',
    host_gateway: true,
  })
  t.equal(made.status, 201)
  t.same(held(), ['dns/listener/10.0.0.1/53'])
  await agent.overrides.change((content) => Object.assign(content.config, { dns_listen: '192.0.2.1, 2001:DB8::0:1' }))
  await agent.config.reload()
  t.same(held(), ['dns/listener/192.0.2.1/53', 'dns/listener/2001:db8::1/53'])
  await agent.overrides.change((content) => Object.assign(content.config, { dns_listen: '' }))
  await agent.config.reload()
  const { id } = made.body.network as { id: string }
  await call('DELETE', `/api/v1/networks/${id}`)
  t.same(held(), [])
})

t.test('err-11 D20 what the responder refuses leaves no row; limits are those of the configuration', async (t) => {
  const { call, zone, zones, record, plane } = await dnsArea(t, { config: { max_zones: '2', max_records: '1' } })
  plane.refuse = new KernelRefusal('made up')
  t.equal((await call('POST', `${DNS}/zones`, { name: 'example.org' })).status, 409)
  t.same(await zones(), [])
  const id = await zone('example.org')
  await zone('two.example')
  const third = await call('POST', `${DNS}/zones`, { name: 'three.example' })
  t.same([third.status, third.body], [409, { error: 'limit reached: zones (2)' }])
  await record(id, {})
  const second = await record(id, { value: '192.0.2.2' })
  t.same([second.status, second.body], [409, { error: 'limit reached: records (1)' }])
  const metrics = readExposition((await call('GET', '/api/v1/metrics')).text)
  t.same(
    ['zones', 'zones_limit', 'records', 'records_limit', 'signed_zones', 'waiting'].map((name) =>
      metrics.value(`stratum_dns_${name}`),
    ),
    [2, 2, 1, 1, 0, 0],
  )
})
