/**
 * Paths that are meant to lead a tenant's key out of its tenant, byte by byte over TLS and through the router alone: no
 * handler runs for anybody else, and nothing of anybody else is in an answer. `PATHS=100000` for the long version.
 */
import t, { type Test } from 'tap'
import { chance } from '../chance.ts'
import { SEED } from '../seed.ts'
import { watchHandlers } from './handlers.ts'
import { CANARY, shown, TENANT_MAY, TENANT_MAY_MACHINES, type Tenantry, tenantry } from './tenantry.ts'
import { type Trick, tricks } from './tricks.ts'
import { type Line, type Reply, serve, tlsLine } from './wire.ts'

const P = '/api/v1'
const PATHS = Number(process.env.PATHS ?? 3000)
/** Bytes in one write: less than a TLS record (RFC 8446 §5.1), beyond which Node may give up a connection that is pipelined. */
const VOLLEY = 12_000
/** One in so many goes past the wire, where an URL may be anything that a string can be. */
const INJECTED = 5

interface Told {
  trick: Trick
  status: number
  text: string
}

/** What a key may have run: its own tenant's routes, and what is everybody's. */
function astray(
  built: Tenantry,
  { route, method, params }: { route: string | undefined; method: string; params: object },
) {
  const path = (route ?? '').slice(P.length)
  if (route === undefined || ['/health', '/docs', '/tls/pubkey'].includes(path)) return false
  const line = `${method === 'HEAD' ? 'GET' : method} ${path.replace(/:\w+/g, '{}')}`
  return Object.values(params)[0] !== built.own || ![...TENANT_MAY, ...TENANT_MAY_MACHINES].includes(line)
}

const ANSWERS = new Set([200, 201, 304, 400, 403, 404, 409, 412, 413, 414, 415, 417, 431, 503])
const REFUSED = [
  'forbidden: a tenant key may only act on its own tenant',
  'tenant suspended',
  'forbidden: this change is reserved for the operator',
]

/** Why an answer is not one that a tenant's key may have. */
function problem({ trick, status, text }: Told): string | undefined {
  if (text.includes(CANARY)) return 'tells of another tenant'
  if (!ANSWERS.has(status)) return `is a ${status}`
  if (status !== 403 || (trick.method === 'HEAD' && text === '')) return undefined
  return REFUSED.some((error) => text.startsWith(`{"error":"${error}`)) ? undefined : 'is another 403'
}

const headOf = ({ method, target, headers }: Trick, key: string) =>
  `${method} ${target} HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${key}\r\n${headers}Content-Length: 0\r\n\r\n`
/** What Node's parser may refuse, and then ends the connection: such a request has one to itself. */
const isAlone = ({ target }: Trick) => !/^(\/|https?:\/\/(node(:7070)?|127\.0\.0\.1)\/)[\x21-\x7e]*$/.test(target)

function* volleys(all: readonly Trick[], key: string): Generator<Trick[]> {
  let [part, bytes]: [Trick[], number] = [[], 0]
  for (const trick of all) {
    const { length } = headOf(trick, key)
    if (bytes + length > VOLLEY) {
      yield part
      ;[part, bytes] = [[], 0]
    }
    part.push(trick)
    bytes += length
  }
  if (part.length > 0) yield part
}

/** Sends all over TLS, a volley of requests in one write. */
async function fire(t: Test, built: Tenantry, all: readonly Trick[], key: string): Promise<Told[]> {
  const { port } = await serve(t, built.agent)
  const told: Told[] = []
  const tell = (trick: Trick, { status, text }: Reply) => void told.push({ trick, status, text })
  const [together, alone] = [all.filter((trick) => !isAlone(trick)), all.filter(isAlone)]
  let line: Line | undefined
  for (const part of volleys(together, key)) {
    line ??= await tlsLine(t, port)
    line.write(part.map((trick) => headOf(trick, key)).join(''))
    for (const [index, trick] of part.entries()) {
      const reply = await line.next()
      if (reply === undefined) {
        // One of these was no HTTP after all, and took along what was not yet answered.
        alone.push(...part.slice(index))
        line = undefined
        break
      }
      tell(trick, reply)
    }
  }
  line?.destroy()
  for (const trick of alone) {
    const own = await tlsLine(t, port)
    own.write(Buffer.from(headOf(trick, key), 'latin1'))
    const reply = await own.next()
    own.destroy()
    tell(trick, reply ?? { status: 400, headers: {}, text: '' })
  }
  t.comment(`${told.length} over TLS, ${alone.length} of them each by itself`)
  return told
}

async function inject(built: Tenantry, all: readonly Trick[], key: string): Promise<Told[]> {
  const told: Told[] = []
  for (const trick of all) {
    const { statusCode, payload } = await built.agent.app.inject({
      method: trick.method as 'GET',
      // As an object, so that nothing reads it before the router does.
      url: { pathname: trick.target.replace(/^https?:\/\/[^/]*/, '') || '/' },
      headers: { authorization: `Bearer ${key}` },
    })
    told.push({ trick, status: statusCode, text: payload })
  }
  return told
}

t.test(
  `tkey-01 tkey-02 tkey-03 tkey-15 tkey-20 auth-10 D40 ${PATHS} paths lead no key out of its tenant (seed ${SEED})`,
  { timeout: 1_200_000 },
  async (t) => {
    const built = await tenantry(t)
    const { own, other, suspended, key } = built
    const runs = watchHandlers(t, built.agent)
    const before = shown(built)
    const all = tricks({ own, other, suspended, routes: built.agent.routes.map(({ url }) => url) }, PATHS, chance(SEED))
    const [wire, router]: [Trick[], Trick[]] = [[], []]
    for (const [index, trick] of all.entries()) (index % INJECTED === 0 ? router : wire).push(trick)
    const told = [
      ...(await fire(
        t,
        built,
        wire.filter(({ method }) => method !== 'HEAD'),
        key.own,
      )),
      ...(await inject(built, [...router, ...wire.filter(({ method }) => method === 'HEAD')], key.own)),
    ]
    t.equal(told.length, PATHS, 'every one has an answer')
    const wrong = told.flatMap((one) => {
      const why = problem(one)
      return why === undefined ? [] : `${one.trick.method} ${one.trick.target}: ${why} ${one.text.slice(0, 200)}`
    })
    t.same(wrong.slice(0, 10), [])
    const gone = runs.filter((run) => astray(built, run))
    t.same(gone.slice(0, 10), [], 'no handler ran for anybody else')
    t.equal(shown(built), before, 'nothing changed')
    const counts: Record<number, number> = {}
    for (const { status } of told) counts[status] = (counts[status] ?? 0) + 1
    t.comment(`statuses ${JSON.stringify(counts)}, handlers ${runs.length}`)
    const unavailable = runs.filter(({ route }) => /\/machines\/:mid\/(power|password|console)$/.test(route ?? ''))
    t.equal(counts[503] ?? 0, unavailable.length, 'what is not available is told by handlers of the own tenant alone')
    const ofOwn = runs.filter(({ params }) => Object.values(params)[0] === own)
    t.ok(ofOwn.length > PATHS / 100, `${ofOwn.length} reached what is the key's own`)
    t.ok((counts[403] ?? 0) > PATHS / 10, 'and many were refused by the scope')
  },
)

t.test(`D40 the same paths by the key of a suspended tenant change nothing (seed ${SEED})`, async (t) => {
  const built = await tenantry(t)
  const { own, other, suspended, key } = built
  const runs = watchHandlers(t, built.agent)
  const count = Math.ceil(PATHS / 10)
  const places = { own: suspended, other, suspended: own, routes: built.agent.routes.map(({ url }) => url) }
  const all = tricks(places, count, chance(SEED + 1)).filter(({ method }) => method !== 'HEAD')
  const told = await fire(t, built, all, key.suspended)
  t.equal(told.length, all.length)
  t.same(told.filter(({ text }) => text.includes(CANARY)).slice(0, 5), [])
  const changing = runs.filter(({ method, route }) => !['GET', 'HEAD'].includes(method) && route !== undefined)
  t.same(changing.slice(0, 5), [], 'no handler of a change ran')
  t.same(runs.filter((run) => astray({ ...built, own: suspended }, run)).slice(0, 5), [])
})

t.test(
  `tkey-16 tkey-17 the same paths by the node token and an operator key reach whomever they name (seed ${SEED})`,
  async (t) => {
    const built = await tenantry(t)
    const { own, other, key } = built
    for (const token of [key.node, key.operator]) {
      const runs = watchHandlers(t, built.agent)
      for (const tenant of [own, other]) {
        for (const below of ['', '/', '/quota', '/keys', '/networks', '?x=/../y']) {
          const { statusCode } = await built.agent.app.inject({
            url: `${P}/tenant/${tenant}${below}`,
            headers: { authorization: `Bearer ${token}` },
          })
          t.equal(statusCode, 200, `${tenant}${below}`)
        }
      }
      t.same(new Set(runs.map(({ params }) => params.id)), new Set([own, other]))
    }
  },
)
