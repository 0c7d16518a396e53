/** What a stopping listener does with what is in flight. */
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { listenControl } from '../listener.ts'

const SIZE = 8 * 1024 * 1024

async function serving(t: Parameters<typeof scratch>[0]) {
  const path = join(scratch(t), 'control.sock')
  const listener = await listenControl((_request, response) => response.end('x'.repeat(SIZE)), path)
  t.teardown(() => listener.close(0))
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const ask = async () => {
    const request = http.get({ socketPath: path, agent })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return response
  }
  return { path, listener, ask }
}

async function sizeOf(response: IncomingMessage): Promise<number> {
  let size = 0
  for await (const chunk of response) size += chunk.length
  return size
}

t.test('an answer that is on its way when the agent is told to stop arrives whole', async (t) => {
  const { listener, ask } = await serving(t)
  const response = await ask()
  response.pause()
  const stopping = listener.close(60_000)
  // Several times as long as the listener waits before it looks for idle connections again.
  await pause(250)
  t.equal(await sizeOf(response), SIZE)
  await stopping
})

t.test('connections that wait for nothing do not hold a stop up, and nobody new comes in', async (t) => {
  const { path, listener, ask } = await serving(t)
  const response = await ask()
  const { socket } = response
  const closed = once(socket, 'close')
  t.equal(await sizeOf(response), SIZE)
  t.notOk(socket.destroyed, 'kept alive')
  const late = pause(20_000, 'late', { ref: false })
  t.not(await Promise.race([listener.close(60_000), late]), 'late')
  // An agent of Node lets the process end although it keeps this connection.
  socket.ref()
  await closed
  const [error] = await once(connect(path), 'error')
  t.match(error.code, /ECONNREFUSED|ENOENT/)
})

t.test('who reads nothing is waited for as long as the grace lasts', async (t) => {
  const { listener, ask } = await serving(t)
  const response = await ask()
  response.pause()
  await listener.close(300)
  await t.rejects(sizeOf(response), { code: 'ECONNRESET' })
})

t.test(
  'of requests on one connection at a stop the first is carried out, and none that its caller hears nothing of',
  async (t) => {
    const path = join(scratch(t), 'control.sock')
    const carriedOut: string[] = []
    const listener = await listenControl(({ url = '' }, response) => {
      carriedOut.push(url)
      setTimeout(() => response.end(), 20)
    }, path)
    t.teardown(() => listener.close(0))
    const socket = connect(path)
    await once(socket, 'connect')
    const asking = (...urls: string[]) =>
      socket.write(urls.map((url) => `POST ${url} HTTP/1.1\r\nHost: node\r\n\r\n`).join(''))
    asking('/before')
    await once(socket, 'data')
    const stopping = listener.close(60_000)
    asking('/last', '/too-late', '/too-late')
    let told = ''
    for await (const bytes of socket) told += bytes
    t.equal(told.match(/HTTP\/1.1 200/g)?.length, 1)
    t.match(told, /connection: close/i)
    t.same(carriedOut, ['/before', '/last'])
    await stopping
  },
)
