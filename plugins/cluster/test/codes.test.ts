/** Join codes, over records in memory. */
import t from 'tap'
import {
  type Code,
  encodeCode,
  forgetOld,
  giveBack,
  listCodes,
  makeCode,
  placeText,
  readCode,
  revokeCode,
  revokeCodesOf,
  splitPlace,
  useCode,
} from '../codes.ts'
import { memoryRecords } from './records.ts'

const NOW = new Date('2026-01-01T00:00:00Z')
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)
const AT = { now: NOW, pending: false }
/** While who came by the code is admitted and has not come. */
const PENDING = { now: NOW, pending: true }
const BY = { kind: 'cli', label: 'root' } as const
const who = (node: string, publicKey = `key of ${node}`) => ({ node, publicKey })
const REFUSED = { status: 403, message: /^the join code is not accepted: / }

t.test('cluster-08 D99 a code is listed by its record, without the secret', async (t) => {
  const records = memoryRecords()
  const { record, secret } = await makeCode(records, BY, { ttlSeconds: 10_800, now: NOW })
  t.same(await listCodes(records, NOW), [record])
  t.same(record, {
    id: record.id,
    created_at: '2026-01-01T00:00:00.000Z',
    expires_at: '2026-01-01T03:00:00.000Z',
    created_by: 'cli root',
    state: 'active',
  })
  t.notMatch(records.dump(), secret.slice(16), 'what is kept does not tell the secret')
})

t.test('D99 a code is good once; the same node with the same key may ask again', async (t) => {
  const records = memoryRecords()
  const { record, secret } = await makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  t.match(await useCode(records, secret, who('n2'), AT), {
    code: { id: record.id, state: 'used', used_by: 'n2' },
    first: true,
  })
  t.match(await useCode(records, secret, who('n2'), PENDING), { first: false })
  await t.rejects(useCode(records, secret, who('n2'), AT), REFUSED, 'it has come, or was removed')
  for (const other of [who('n3'), who('n2', 'another key')])
    await t.rejects(useCode(records, secret, other, PENDING), REFUSED)
  t.match(await listCodes(records, later(61)), [{ state: 'used', used_by: 'n2' }])
  await giveBack(records, record.id)
  await useCode(records, secret, who('n3'), AT)
})

t.test('D99 a code that is revoked while it is being used stays so when the admission fails', async (t) => {
  const records = memoryRecords()
  const { record, secret } = await makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  await useCode(records, secret, who('n2'), AT)
  await t.rejects(revokeCode(records, record.id), { status: 409, message: /used by n2/ })
  t.match(await listCodes(records, NOW), [{ state: 'used' }])
  await giveBack(records, record.id)
  t.match(await listCodes(records, NOW), [{ state: 'revoked' }])
  await t.rejects(useCode(records, secret, who('n2'), PENDING), REFUSED)
})

t.test('D101 the code of a node that is removed is over, those of others are not', async (t) => {
  const records = memoryRecords()
  const make = async () => makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  const [gone, other, fresh] = [await make(), await make(), await make()]
  await useCode(records, gone.secret, who('n2'), AT)
  await useCode(records, other.secret, who('n3'), AT)
  await revokeCodesOf(records, 'n2')
  await t.rejects(useCode(records, gone.secret, who('n2'), PENDING), REFUSED)
  await useCode(records, other.secret, who('n3'), PENDING)
  await useCode(records, fresh.secret, who('n2'), AT)
})

t.test('cluster-09 whatever is wrong with a code, the answer is the same', async (t) => {
  const records = memoryRecords()
  const make = async () => makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  const [revoked, old, good] = [await make(), await make(), await make()]
  await revokeCode(records, revoked.record.id)
  await revokeCode(records, revoked.record.id)
  t.match(
    (await listCodes(records, NOW)).find(({ id }) => id === revoked.record.id),
    { state: 'revoked' },
  )
  await t.rejects(useCode(records, revoked.secret, who('n2'), AT), REFUSED)
  await t.rejects(useCode(records, old.secret, who('n2'), { now: later(60), pending: false }), REFUSED)
  t.match(await listCodes(records, later(60)), [{}, {}, {}])
  const [id, word = ''] = good.secret.split('.')
  const wrong = [
    '',
    'x',
    `${id}.`,
    `${id}.${'A'.repeat(43)}`,
    `jc-000000000000.${word}`,
    `${good.secret}x`,
    `../${good.secret}`,
  ]
  for (const secret of wrong) await t.rejects(useCode(records, secret, who('n2'), AT), REFUSED, secret)
  await t.rejects(revokeCode(records, 'jc-000000000000'), /not found/)
  await useCode(records, good.secret, who('n2'), AT)
})

t.test('D99 of many that come by one code at once, one is admitted', async (t) => {
  const records = memoryRecords()
  const { secret } = await makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  const tries = Array.from({ length: 20 }, (_, n) => useCode(records, secret, who(`n${n}`), AT))
  const outcomes = await Promise.allSettled(tries)
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
})

t.test('codes that have been over for a week are forgotten', async (t) => {
  const records = memoryRecords()
  await makeCode(records, BY, { ttlSeconds: 60, now: NOW })
  const kept = await makeCode(records, BY, { ttlSeconds: 3600, now: NOW })
  await forgetOld(records, later(7 * 86_400 + 61))
  t.match(await listCodes(records, NOW), [{ id: kept.record.id }])
})

const CODE: Code = {
  cluster: 'c1',
  addresses: ['192.0.2.1:7073', '[2001:db8::1]:7073'],
  fingerprint: Array.from({ length: 32 }, () => 'AB').join(':'),
  secret: 'jc-000000000000.x',
  expires_at: '2026-01-01T03:00:00.000Z',
}

t.test('D99 a printed code is base64 of JSON, and is read as it was printed', async (t) => {
  const text = encodeCode(CODE)
  t.same(JSON.parse(Buffer.from(text, 'base64').toString()), CODE)
  t.same(readCode(text, NOW), CODE)
  t.same(readCode(` ${text.slice(0, 40)}\n${text.slice(40)}\r\n`, NOW), CODE, 'a terminal may have broken it')
  t.throws(() => readCode(text, later(10_800)), /expired at 2026-01-01T03:00:00/)
})

t.test('what is no code is refused, whatever it is', async (t) => {
  const bad: unknown[] = [
    null,
    [],
    'x',
    {},
    { ...CODE, addresses: [] },
    { ...CODE, addresses: ['example.org:7073'] },
    { ...CODE, addresses: ['192.0.2.1'] },
    { ...CODE, addresses: Array.from({ length: 65 }, () => '192.0.2.1:1') },
    { ...CODE, fingerprint: 'AB' },
    { ...CODE, secret: 1 },
    { ...CODE, expires_at: 'soon' },
  ]
  const texts = ['', 'no base64!', encodeCode(CODE).slice(0, -9), 'A'.repeat(20_000)]
  for (const text of [...texts, ...bad.map((value) => encodeCode(value as Code))]) {
    t.throws(() => readCode(text, NOW), /no join code/, text.slice(0, 40))
  }
})

t.test('places are written with brackets for IPv6, and read back', async (t) => {
  for (const [address, text] of [
    ['192.0.2.1', '192.0.2.1:7073'],
    ['2001:db8::1', '[2001:db8::1]:7073'],
  ] as const) {
    t.equal(placeText(address, 7073), text)
    t.same(splitPlace(text), { address, port: 7073 })
  }
  for (const text of ['', 'x:1', '192.0.2.1:0', '192.0.2.1:65536', '2001:db8::1:7073', '[x]:1', '192.0.2.1:7073 ']) {
    t.equal(splitPlace(text), undefined, text)
  }
})
