/** The line on a terminal about what takes its time. */
import t from 'tap'
import { openClient } from '../client.ts'
import { progressOn, sizeText } from '../progress.ts'
import { listenAt } from './control.ts'

t.test('a call that takes its time shows what has come, and the line is taken away', async (t) => {
  const written: string[] = []
  const terminal = { isTTY: true, columns: 60, write: (text: string) => written.push(text) > 0 }
  let finish: () => void = () => {}
  const { socket } = await listenAt(t, [], (request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    if (request.url === '/quick') return void response.end('{}')
    response.write(`{"text":"${'x'.repeat(1990)}`)
    finish = () => response.end('"}')
  })
  const call = openClient(socket, 60_000, progressOn(terminal as never))
  await call('GET', '/quick')
  t.same(written, [], 'nothing about what is quick')
  const answer = call<{ text: string }>('DELETE', '/api/v1/slow')
  while (!written.some((line) => /2\.0 kB {2}1 s$/.test(line))) await new Promise((resolve) => setTimeout(resolve, 50))
  t.ok(written.at(-1)?.startsWith('\r\u001b[KDELETE /api/v1/slow  2.0 kB'))
  finish()
  t.equal((await answer).text.length, 1990)
  t.equal(written.at(-1), '\r\u001b[K')
})

t.test('nothing is written where nobody watches', async (t) => {
  const quiet = progressOn({ isTTY: false, columns: 80, write: () => t.fail() as never } as never)
  quiet.begin('x').end()
  t.same([0, 999, 1000, 123_456, 12_345_678].map(sizeText), ['0 B', '999 B', '1.0 kB', '123 kB', '12.3 MB'])
})
