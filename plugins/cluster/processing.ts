/** Tells who waits for an answer that the work goes on. */
import type { FastifyInstance } from 'fastify'

/** Less than stratumctl waits without hearing anything. */
const EVERY_MS = 10_000

/** While a call of `app` is worked on, `102 Processing` goes out now and then (RFC 2518, section 10.1). */
export function tellProcessing(app: Pick<FastifyInstance, 'addHook'>, everyMs = EVERY_MS): void {
  app.addHook('onRequest', async (_request, { raw }) => {
    const clock = setInterval(() => void (raw.headersSent || raw.writeProcessing()), everyMs)
    raw.once('close', () => clearInterval(clock))
  })
}
