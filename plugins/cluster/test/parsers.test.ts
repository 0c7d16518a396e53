/** What comes from outside is read as meant, or refused. */

import t from 'tap'
import { ApiError } from '../../../core/errors.ts'
import { decodePassed, encodePassed } from '../../../core/transport/elsewhere.ts'
import { fc } from '../../../test/property.ts'
import { addressOf, problemOfAddress } from '../address.ts'
import { readCode } from '../codes.ts'

const refusedOr = (work: () => unknown): boolean => {
  try {
    work()
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return true
    throw error
  }
}

t.test('a join code that was read is one, everything else is refused', async () => {
  const text = fc.oneof(
    fc.string(),
    fc.base64String(),
    fc.json().map((json) => Buffer.from(json).toString('base64')),
  )
  await fc.assert(fc.property(text, (given) => refusedOr(() => readCode(given, new Date(0)))))
})

t.test('an address that was read reads as itself', async (t) => {
  const text = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())
  await fc.assert(
    fc.property(text, (given) => {
      const fine = given !== '' && problemOfAddress(given) === undefined
      return fine ? addressOf(addressOf(given)) === addressOf(given) : refusedOr(() => addressOf(given))
    }),
  )
  t.equal(addressOf('2001:DB8:0::1'), '2001:db8::1')
  t.equal(addressOf('::ffff:192.0.2.1'), '192.0.2.1')
})

t.test('what a member says of a caller arrives as it was said, and nothing else does', async () => {
  const caller = fc.record(
    {
      kind: fc.constantFrom('token', 'operator', 'tenant', 'cli'),
      label: fc.string({ maxLength: 256 }),
      tenantId: fc.string(),
      suspended: fc.constant(true),
    },
    { requiredKeys: ['kind', 'label', 'tenantId'] },
  )
  const address = fc.oneof(fc.ipV4(), fc.ipV6(), fc.constant(''))
  const requestId = fc.stringMatching(/^[0-9a-z]{1,20}-[0-9a-z]{1,20}$/)
  const passed = fc.record({ address, caller: fc.option(caller, { nil: undefined }), requestId })
  await fc.assert(
    fc.property(passed, (said) => {
      const heard = decodePassed(encodePassed(said as Parameters<typeof encodePassed>[0]))
      return JSON.stringify(sorted(heard)) === JSON.stringify(sorted(said))
    }),
  )
  const other = fc.oneof(
    fc.string(),
    fc.json().map((json) => Buffer.from(json).toString('base64url')),
  )
  await fc.assert(
    fc.property(other, (text) => {
      const heard = decodePassed(text)
      return heard === undefined || typeof heard.requestId === 'string'
    }),
  )
})

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]))
}
