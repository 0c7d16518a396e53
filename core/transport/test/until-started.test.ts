/** Who may wait for an agent that starts, and how many: before the gates know everything, a caller may be anybody. */
import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { scratch, TOKEN } from '../../../test/build.ts'
import { eventually } from '../../../test/cluster.ts'
import { type Early, type EarlyOptions, early, waits } from '../../../test/early.ts'
import { MOST_WAITING } from '../until-started.ts'

const P = '/api/v1'
const KEY = { authorization: 'Bearer tk_0123456789ab_anything' }
const POST = { action: 'drop', source_ip: '198.51.100.1' }

async function opening(t: Test, options?: EarlyOptions): Promise<Early> {
  const all = await early(t, options)
  all.agent.start().catch(() => {})
  return all
}

t.test('who is refused anyway does not wait', async (t) => {
  const { agent, call } = await opening(t, { config: { api_auth_fail_limit: '1' } })
  t.equal((await call('POST', `${P}/rules`, POST, { authorization: '' })).status, 401, 'without a credential')
  agent.gates.lockout.lift('127.0.0.1')
  t.equal((await call('POST', `${P}/rules`, POST, { authorization: 'Bearer nt_wrong' })).status, 401)
  t.equal((await call('GET', `${P}/rules`, undefined, KEY)).status, 429, 'a source that is blocked')
  t.equal((await call('POST', `${P}/rules`, POST)).status, 429)
})

t.test('who is not on the allow-list does not wait', async (t) => {
  const { call } = await opening(t, { config: { api_allowed_ips: '192.0.2.0/24' } })
  t.equal((await call('POST', `${P}/rules`, POST)).status, 403)
  t.equal((await call('GET', `${P}/rules`, undefined, KEY)).status, 403)
})

t.test('a public path keeps nobody waiting, whatever key he shows', async (t) => {
  const { call } = await opening(t)
  t.equal((await call('GET', `${P}/health`, undefined, KEY)).status, 200)
})

t.test('a key that cannot be judged yet blocks nobody', async (t) => {
  const { agent, call } = await opening(t, { config: { api_auth_fail_limit: '1' } })
  for (const path of [`${P}/nope`, `${P}/%zz`]) {
    const { status, headers } = await call('GET', path, undefined, KEY)
    t.equal(status, 503, path)
    t.equal(headers['retry-after'], '1')
  }
  t.equal(agent.gates.lockout.blockCount(), 0)
  t.equal((await call('GET', `${P}/nope`)).status, 404)
})

t.test('of one source a few strangers wait, the others are told to come again', async (t) => {
  const { open, call } = await opening(t, { config: { api_auth_fail_limit: '1000' } })
  const first = Array.from({ length: MOST_WAITING.ofStranger }, () => call('GET', `${P}/rules`, undefined, KEY))
  t.ok(await waits(Promise.race(first)))
  const { status, text } = await call('GET', `${P}/rules`, undefined, KEY)
  t.equal(status, 503)
  t.match(text, /too many calls wait/)
  const own = call('POST', `${P}/rules`, POST)
  t.ok(await waits(own), 'they do not take the place of an operator at the same address')
  open()
  for (const answer of await Promise.all(first)) t.equal(answer.status, 401)
  t.equal((await own).status, 403, 'no licence')
})

t.test('keys that waited are judged one after the other: no more can be tried than else', async (t) => {
  const { open, call } = await opening(t, { config: { api_auth_fail_limit: '3' } })
  const tried = Array.from({ length: 5 }, () => call('GET', `${P}/rules`, undefined, KEY))
  t.ok(await waits(Promise.race(tried)))
  open()
  t.same(
    (await Promise.all(tried)).map(({ status }) => status),
    [401, 401, 401, 429, 429],
  )
})

/** The agent behind plain HTTP, and a connection to it. */
async function wire(t: Test, { agent }: Early): Promise<Socket> {
  const server = http.createServer(agent.app.routing.bind(agent.app)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Tells how many have asked to wait, and how many still do. */
function watched({ agent: { stages } }: Early): { came(): number; left(): number } {
  const { until } = stages
  let [came, left] = [0, 0]
  stages.until = (need, gone) => {
    const own = until(need, gone)
    came++
    left++
    own?.catch(() => {}).finally(() => left--)
    return own
  }
  return { came: () => came, left: () => left }
}

const asked = `GET ${P}/rules HTTP/1.1\r\nHost: node\r\nAuthorization: ${KEY.authorization}\r\n\r\n`

t.test('one connection cannot have thousands of requests wait', async (t) => {
  const all = await opening(t)
  const { came, left } = watched(all)
  const socket = await wire(t, all)
  socket.write(asked.repeat(3000))
  t.ok(await waits(once(socket, 'data')), 'answers come in the order of the requests')
  t.equal(came(), MOST_WAITING.ofStranger)
  t.equal(left(), MOST_WAITING.ofStranger)
})

t.test('nothing is kept of who has gone', async (t) => {
  const all = await opening(t)
  const { came, left } = watched(all)
  for (let n = 1; n <= 2 * MOST_WAITING.ofStranger; n++) {
    const socket = await wire(t, all)
    socket.write(asked)
    await eventually('it waits', async () => came() === n)
    socket.destroy()
    await eventually('it has gone', async () => left() === 0)
  }
})

t.test('a change is not made for who has gone', async (t) => {
  const stateDir = scratch(t)
  const before = await early(t, { stateDir })
  before.open()
  await before.agent.start()
  await before.agent.licence.evaluate()
  await before.agent.close()
  const all = await opening(t, { stateDir })
  const { left } = watched(all)
  const socket = await wire(t, all)
  const body = JSON.stringify(POST)
  const head = `POST ${P}/rules HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n`
  socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`)
  await eventually('it waits', async () => left() === 1)
  socket.end()
  await eventually('it has gone', async () => left() === 0)
  all.open()
  await all.agent.start()
  t.same((await all.call('GET', `${P}/rules`)).body.rules, [])
  t.equal((await all.call('POST', `${P}/rules`, POST)).status, 201, 'else it would have been made')
})
