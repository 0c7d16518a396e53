/** A long entry is waited for as long as it goes on; one that nobody works on any more is not. */
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import fastify from 'fastify'
import t from 'tap'
import { openClient } from '../../../core/cli/client.ts'
import { scratch } from '../../../test/build.ts'
import { tellProcessing } from '../processing.ts'

const EVERY_MS = 50
const PATIENCE_MS = 2000
const WORK_MS = 3000

t.test('stratumctl waits as long as the work goes on', async (t) => {
  const path = join(scratch(t), 's')
  const app = fastify()
  t.teardown(() => app.close())
  tellProcessing(app, EVERY_MS)
  app.post('/join', () => delay(WORK_MS, { status: 'joined' }))
  await app.listen({ path })
  const call = openClient(path, PATIENCE_MS)
  t.same(await call('POST', '/join'), { status: 'joined' })
})

t.test('and no longer', async (t) => {
  const path = join(scratch(t), 's')
  const app = fastify()
  t.teardown(() => app.close())
  const ended = new Promise<void>((resolve) => {
    app.post('/join', async (request) => {
      await once(request.socket, 'close')
      resolve()
    })
  })
  await app.listen({ path })
  await t.rejects(openClient(path, PATIENCE_MS)('POST', '/join'), /broke off \(nothing came/)
  await ended
})
