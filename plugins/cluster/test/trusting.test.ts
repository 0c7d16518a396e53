/** Whom a member trusts, and what it does for it. Each step alone, since an agent may end after any of them. */
import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { fingerprint256, fingerprintsOf, makeOwn, type Own, readShown, shownBy } from '../authority.ts'
import { certify, makeAuthority, publicKeyOf } from '../certificates.ts'
import { behind, isTrusted, type Known, nextStep, recordOf, type TrustRecord, wanted } from '../trusting.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const own = (node: string) => makeOwn('c', { node, address: '192.0.2.1' }, NOW)
const [a, b, c] = [await own('a'), await own('b'), await own('c')]
const pem = ({ authority }: Own) => authority.certificate
const all = [a, b, c].map(pem)
const member = (id: string, trust: TrustRecord | undefined, online = true) => ({ id, online, trust })
const of = (one: Own, ...trusts: Own[]) => recordOf(pem(one), trusts.map(pem))

t.test('a member goes by those who are members, and says so', async (t) => {
  const told = [member('a', of(a, a, b, c)), member('b', of(b, a, b, c))]
  const known: Known = { members: told, former: undefined }
  t.same(wanted(known), [pem(a), pem(b)], 'who was removed is not among them')
  t.same(behind(known), ['a', 'b'])
  t.same(nextStep(known, 'a', of(a, a, b, c), false), { do: 'trust', authorities: [pem(a), pem(b)] })
  t.match(
    nextStep(known, 'a', of(a, a, b), false),
    { do: 'tell', record: of(a, a, b) },
    'also when it ended in between',
  )
  const after: Known = { ...known, members: [member('a', of(a, a, b)), member('b', of(b, a, b, c), false)] }
  t.equal(nextStep(after, 'a', of(a, a, b), false), undefined, 'it does not wait for one that is away')
  t.same(behind(after), ['b'], 'who is told of until it is back')
  t.equal(nextStep(after, 'c', of(c, a, b, c), false), undefined, 'who is no member has nothing to do')
})

t.test('who comes is trusted before it speaks', async (t) => {
  const known: Known = { members: [member('a', of(a, a)), member('b', of(b, a, b))], former: undefined }
  t.notOk(isTrusted(known, 'b', ({ id }) => id !== 'b'))
  t.match(nextStep(known, 'a', of(a, a), false), { do: 'trust', authorities: [pem(a), pem(b)] })
  t.ok(isTrusted({ ...known, members: [member('a', of(a, a, b)), member('b', of(b, a, b))] }, 'b'))
  t.notOk(isTrusted(known, 'x'))
})

t.test('an authority that all had goes when nobody shows a certificate of it any more', async (t) => {
  const former = (await makeAuthority('c', 'all')).certificate
  const shows = fingerprint256(former)
  const trusts = (...pems: string[]) => fingerprintsOf(pems)
  const early: TrustRecord = { authority: pem(a), trusts: trusts(former), shows }
  const step = (members: Known['members'], record: TrustRecord) => nextStep({ members, former }, 'a', record, true)
  t.match(step([member('a', early), member('b', undefined)], early), { do: 'trust', authorities: [pem(a), former] })
  const both = { ...early, trusts: trusts(pem(a), former) }
  t.equal(step([member('a', both), member('b', undefined)], both), undefined, 'b runs an earlier version')
  const two = { ...early, trusts: trusts(pem(a), pem(b), former) }
  const other = { authority: pem(b), trusts: two.trusts, shows }
  t.same(step([member('a', two), member('b', other)], two), { do: 'show' })
  const own = { ...two, shows: fingerprint256(pem(a)) }
  t.equal(step([member('a', own), member('b', other)], own), undefined, 'b shows it still')
  const done = { ...other, shows: fingerprint256(pem(b)) }
  t.same(step([member('a', own), member('b', done)], own), { do: 'trust', authorities: [pem(a), pem(b)] })
  const last = { ...own, trusts: trusts(pem(a), pem(b)) }
  t.same(step([member('a', last), member('b', done)], last), { do: 'forget' })
  const without: Known = { members: [member('a', last), member('b', done)], former: undefined }
  t.same(nextStep(without, 'a', last, true), { do: 'forget' }, 'its key, when b was first')
  t.equal(nextStep(without, 'a', last, false), undefined)
})

t.test('an authority that a member never had is not one from before, whoever says so', async (t) => {
  const { certificate: planted } = await makeAuthority('c', 'all')
  const own = of(a, a, b)
  const members = [member('a', own), member('b', undefined, false)]
  t.not(nextStep({ members, former: planted }, 'a', own, false)?.do, 'show')
  const step = nextStep({ members, former: planted }, 'a', own, false)
  t.notOk(step?.do === 'trust' && step.authorities.includes(planted))
  t.same(behind({ members, former: planted }), ['a', 'b'], 'and it is seen')
})

t.test('who runs an earlier version is behind until it is upgraded', async (t) => {
  const { certificate: former } = await makeAuthority('c', 'all')
  const trusts = fingerprintsOf([pem(a), former])
  const told = [member('a', { authority: pem(a), trusts, shows: fingerprint256(former) }), member('b', undefined)]
  t.same(behind({ members: told, former }), ['b'])
  t.end()
})

t.test('an authority is good whatever the clock was when it was made, and has no end', async (t) => {
  const { validFrom, validTo } = new X509Certificate(pem(a))
  t.ok(Date.parse(validFrom) < Date.parse('2001-01-01'), validFrom)
  t.ok(Date.parse(validTo) > Date.parse('9999-01-01'), validTo)
})

t.test('who wants to come shows one authority, and that it has its key', async (t) => {
  const { certificate, authority, publicKey } = readShown(shownBy(a))
  t.same([certificate.trim(), authority.trim()], [a.certificate.trim(), pem(a).trim()])
  t.equal(publicKey, publicKeyOf(a.key))
  const byOther = await certify(b.authority, { node: 'a', address: '192.0.2.1', publicKey }, NOW)
  const wrong = [
    { certificate: a.certificate, authority: pem(b) },
    { certificate: byOther, authority: pem(a) },
    { certificate: pem(a), authority: pem(a) },
    { certificate: a.certificate, authority: a.certificate },
    { certificate: 'x', authority: pem(a) },
    { certificate: a.certificate, authority: '' },
  ]
  for (const shown of wrong) t.throws(() => readShown(shown), /^(certificate|authority): /)
  const more = readShown({ certificate: a.certificate, authority: all.join('') })
  t.equal(more.authority.match(/BEGIN/g)?.length, 1, 'what else is in there is left out')
})
