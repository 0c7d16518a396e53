import { generateKeyPairSync, sign } from 'node:crypto'
import t from 'tap'
import { fc } from '../../../test/property.ts'
import { LICENCE_MAX_BYTES, LicenceError, type LicencePayload, parseLicence, signLicence } from '../file.ts'
import { payload, vendorKeys } from './vendor.ts'

const vendor = vendorKeys()
const trusted = [vendor.publicKey]

/** Signs any bytes, as a vendor with a broken tool would. */
function envelope(bytes: Buffer | string): string {
  const body = Buffer.from(bytes)
  const signature = sign(null, body, vendor.privateKey)
  return JSON.stringify({ payload: body.toString('base64'), signature: signature.toString('base64') })
}

t.test('lic-02 what the vendor signed is what the node reads', async (t) => {
  const changes = { hardware_id: 'abc', features: { dns: true }, max_bandwidth_gbps: 10 }
  const read = parseLicence(signLicence(payload(changes), vendor.privateKey), trusted)
  t.match(read, { serialNumber: 'LIC-1', plan: 'fabric', releaseChannel: 'stable', hardwareId: 'abc' })
  t.match(read, { maxBandwidthGbps: 10, features: { dns: true, bgp: false, cluster: false } })
  t.same(read.validUntil, new Date('2030-01-31T00:00:00Z'))
})

t.test('any one trusted key is enough, and a BOM or spaces around the file do no harm', async (t) => {
  const text = signLicence(payload(), vendor.privateKey)
  t.ok(parseLicence(`\uFEFF ${text}\n\n`, [vendorKeys().publicKey, ...trusted]))
})

t.test('a file that is no licence says so', async (t) => {
  const good = JSON.parse(signLicence(payload(), vendor.privateKey)) as { payload: string; signature: string }
  const rows: [string, string, string, RegExp][] = [
    ['empty', '', 'LICENCE_MALFORMED', /not JSON/],
    ['text', 'hello', 'LICENCE_MALFORMED', /not JSON/],
    ['an array', '[]', 'LICENCE_MALFORMED', /it must be object/],
    ['null', 'null', 'LICENCE_MALFORMED', /it must be object/],
    ['no signature', JSON.stringify({ payload: good.payload }), 'LICENCE_MALFORMED', /signature is missing/],
    ['a number', JSON.stringify({ ...good, payload: 1 }), 'LICENCE_MALFORMED', /payload must be string/],
    ['not base64', JSON.stringify({ ...good, payload: '%%%' }), 'LICENCE_MALFORMED', /payload is not base64/],
    ['url base64', JSON.stringify({ ...good, signature: 'ab-_' }), 'LICENCE_MALFORMED', /signature is not base64/],
    ['too large', ' '.repeat(LICENCE_MAX_BYTES + 1), 'LICENCE_TOO_LARGE', /64 KiB/],
  ]
  for (const [title, text, code, message] of rows) t.throws(() => parseLicence(text, trusted), { code, message }, title)
})

t.test('a bad signature is refused before a field is read', async (t) => {
  const good = JSON.parse(signLicence(payload(), vendor.privateKey)) as { payload: string; signature: string }
  const other = vendorKeys()
  const forged = Buffer.from(JSON.stringify(payload({ valid_until: '2099-01-01T00:00:00Z' }))).toString('base64')
  const rows: [string, string, readonly (typeof vendor.publicKey)[]][] = [
    ['changed payload', JSON.stringify({ ...good, payload: forged }), trusted],
    ['empty signature', JSON.stringify({ ...good, signature: '' }), trusted],
    ['short signature', JSON.stringify({ ...good, signature: 'AAAA' }), trusted],
    ['another vendor', signLicence(payload(), other.privateKey), trusted],
    ['nobody trusted', JSON.stringify(good), []],
    ['a key that is not Ed25519', JSON.stringify(good), [generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey]],
    ['payload that is not even JSON', JSON.stringify({ payload: 'AAAA', signature: good.signature }), trusted],
  ]
  for (const [title, text, keys] of rows) {
    t.throws(() => parseLicence(text, keys), { code: 'LICENCE_SIGNATURE', message: /not signed by a key/ }, title)
  }
})

t.test('a signed payload with a wrong field names it', async (t) => {
  const { plan: _, ...withoutPlan } = payload()
  const rows: [string, object, RegExp][] = [
    ['missing', withoutPlan, /field plan is missing/],
    ['empty serial', payload({ serial_number: '' }), /serial_number/],
    ['control character', payload({ plan: 'a\nb' }), /field plan/],
    ['negative ceiling', payload({ max_bandwidth_gbps: -1 }), /max_bandwidth_gbps must be >= 0/],
    ['fraction', payload({ max_bandwidth_gbps: 1.5 }), /max_bandwidth_gbps must be integer/],
    ['text for a number', { ...payload(), max_bandwidth_gbps: '1' }, /max_bandwidth_gbps must be integer/],
    ['feature not bool', { ...payload(), features: { dns: 'yes' } }, /features\.dns must be boolean/],
    ['features a list', { ...payload(), features: ['dns'] }, /features must be object/],
    ['no such day', payload({ valid_until: '2030-02-30T00:00:00Z' }), /valid_until must be an RFC 3339/],
    ['date only', payload({ valid_until: '2030-02-01' }), /valid_until must be an RFC 3339/],
    ['leap second', payload({ valid_until: '2030-06-30T23:59:60Z' }), /valid_until must be an RFC 3339/],
    ['year 10000', payload({ valid_until: '9999-12-31T23:59:59-12:00' }), /valid_until must be an RFC 3339/],
    ['no zone', payload({ valid_from: '2029-02-01T00:00:00' }), /valid_from must be an RFC 3339/],
    ['ends before', payload({ valid_until: '2020-01-01T00:00:00Z' }), /valid_until must be later than valid_from/],
    ['empty hardware', payload({ hardware_id: '' }), /hardware_id/],
    ['a list', [], /payload must be object/],
  ]
  for (const [title, body, message] of rows) {
    const code = 'LICENCE_FIELD'
    t.throws(() => parseLicence(envelope(JSON.stringify(body)), trusted), { code, message }, title)
    // The wrong shapes are the point of these rows.
    t.throws(() => signLicence(body as LicencePayload, vendor.privateKey), { code, message }, `${title}, signing`)
  }
  t.throws(() => parseLicence(envelope('{'), trusted), { message: /payload is not JSON/ })
  t.throws(() => parseLicence(envelope(Buffer.from([0xff, 0x7b])), trusted), { message: /not UTF-8/ })
})

t.test('only an Ed25519 private key signs', async (t) => {
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  for (const key of [ec.privateKey, vendor.publicKey]) {
    t.throws(() => signLicence(payload(), key), { code: 'LICENCE_KEY' })
  }
})

t.test('lic-07 a feature cannot be smuggled in by the prototype', async (t) => {
  const body = JSON.stringify(payload({ features: {} })).replace('"features":{}', '"features":{"__proto__":true}')
  const { features } = parseLicence(envelope(body), trusted)
  t.same(new Set(Object.values(features)), new Set([false]))
})

t.test('any text, and any change of a good file, gives a licence or a LicenceError', async (t) => {
  const good = signLicence(payload(), vendor.privateKey)
  const outcome = (text: string) => {
    try {
      return parseLicence(text, trusted)
    } catch (error) {
      if (error instanceof LicenceError) return undefined
      throw error
    }
  }
  const expected = JSON.stringify(outcome(good))
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => outcome(text) === undefined),
    { numRuns: 500 },
  )
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.string({ minLength: 0, maxLength: 2 }), (at, insert) => {
      const read = outcome(good.slice(0, at) + insert + good.slice(at + 1))
      // Only a change outside the signed bytes (white space) may still be accepted, and then as the same licence.
      return read === undefined || JSON.stringify(read) === expected
    }),
    { numRuns: 500 },
  )
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      outcome(envelope(JSON.stringify(value)))
    }),
    { numRuns: 300 },
  )
  t.ok(true)
})
