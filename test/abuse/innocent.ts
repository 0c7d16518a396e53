/** A partner: somebody who does nothing wrong, and asks again and again while others do. */
import { Agent, request } from 'node:https'
import { setTimeout as wait } from 'node:timers/promises'
import { quantile } from '../bench/figure.ts'
import { answerAll, type Partner, type Spawn, startPartner } from './partner.ts'

export interface Errand {
  url: string
  /** Source address. */
  from: string
  /** Sent as a bearer token if there is one. */
  token?: string
  /** Between the end of a request and the next, ms. Every other request comes over a connection of its own. */
  pauseMs: number
}

export interface Experience {
  requests: number
  /** What was answered instead of 200, or the error in its place; at most 10 of them. */
  failures: string[]
  /** From the first byte of the handshake, if there is one, to the last of the answer, in ms. */
  p50: number
  p99: number
}

type Question = { start: Errand } | { report: 'since' }

export interface Innocent {
  start(errand: Errand): Promise<void>
  /** What came of the requests since the last report. */
  report(): Promise<Experience>
  child: Partner['child']
}

export function startInnocent(spawn: Spawn): Innocent {
  const { ask, child } = startPartner(spawn, import.meta.filename)
  const say = <T>(question: Question) => ask<T>(question)
  return { start: (errand) => say({ start: errand }), report: () => say({ report: 'since' }), child }
}

function once({ url, from, token }: Errand, agent: Agent | false): Promise<string> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const signal = AbortSignal.timeout(20_000)
  return new Promise((resolve) => {
    const call = request(url, { agent, headers, localAddress: from, rejectUnauthorized: false, signal }, (response) => {
      response.resume()
      response.once('end', () => resolve(String(response.statusCode)))
      response.once('error', (error) => resolve(String(error)))
    })
    call.once('error', (error) => resolve(String(error)))
    call.end()
  })
}

async function serve(): Promise<void> {
  let took: number[] = []
  let failures: string[] = []
  async function run(errand: Errand): Promise<never> {
    const kept = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let n = 0; ; n++) {
      const start = performance.now()
      const outcome = await once(errand, n % 2 === 0 && kept)
      took.push(performance.now() - start)
      if (outcome !== '200') failures.push(outcome)
      await wait(errand.pauseMs)
    }
  }
  await answerAll<Question>(import.meta.filename, (question) => {
    if ('start' in question) {
      void run(question.start)
      return undefined
    }
    const experience: Experience = {
      requests: took.length,
      failures: failures.slice(0, 10),
      p50: quantile(took, 0.5),
      p99: quantile(took, 0.99),
    }
    took = []
    failures = []
    return experience
  })
}

await serve()
