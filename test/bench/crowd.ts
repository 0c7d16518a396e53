/**
 * How long somebody who does nothing wrong waits for the health of the node while others do wrong: alone, beside a crowd
 * of every manner on all three ports, and beside 10 000 wrong tokens. Every other request comes over a new connection.
 */
import { spawn } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { type Manner, startCrowd } from '../abuse/crowd.ts'
import { type Innocent, startInnocent } from '../abuse/innocent.ts'
import { type Knocks, startKnocker } from '../abuse/knock.ts'
import { type BenchAgent, startBenchAgent, TOKEN } from './agent.ts'
import type { Report } from './figure.ts'

const CROWD = 200
const TOKENS = 10_000
const EACH = 12
/** Phases of this length take turns, so that both see the same neighbours. */
const PHASE_MS = 5000
const ROUNDS = 3

export async function crowd(report: Report): Promise<void> {
  const agent = await startBenchAgent()
  const innocent = startInnocent(spawn)
  try {
    const url = `https://127.0.0.1:${agent.port}/api/v1/health`
    await innocent.start({ url, from: '127.0.0.1', pauseMs: 10 })
    await wait(1000)
    const idle = await memory(agent, report)
    const alone: number[] = []
    const beside: number[] = []
    let most = 0
    for (let round = 0; round < ROUNDS; round++) {
      alone.push(await p99During(innocent, () => wait(PHASE_MS)))
      const guests = startCrowd(spawn)
      for (const [n, { manner, port }] of groups(agent.port).entries()) {
        await guests.come({ manner, port, from: `127.0.${round + 1}.${n + 1}`, count: CROWD, token: TOKEN })
      }
      beside.push(await p99During(innocent, () => wait(PHASE_MS)))
      most = Math.max(most, agent.rss().agent)
      await guests.leave()
      guests.child.kill()
    }
    report({ figure: 'health_p99_alone', value: Math.max(...alone), unit: 'ms', note: `worst of ${ROUNDS} phases` })
    const note = `worst of ${ROUNDS} phases; ${CROWD} of each manner on each port, ${CROWD} ask without pause`
    report({ figure: 'health_p99_crowd', value: Math.max(...beside), unit: 'ms', note })
    report({ figure: 'rss_crowd', value: most - idle, unit: 'MB', note: 'more than before the crowd' })
    await wrongTokens(agent, innocent, report)
  } finally {
    innocent.child.kill()
    await agent.stop()
  }
}

/** All manners on all ports; only REST answers requests without end. */
function groups(rest: number): { manner: Manner; port: number }[] {
  const everywhere: Manner[] = ['silent', 'hello', 'idle', 'headers']
  return [
    ...[rest, 7071, 7072].flatMap((port) => everywhere.map((manner) => ({ manner, port }))),
    { manner: 'body', port: rest },
    { manner: 'requests', port: rest },
  ]
}

/** What an open connection costs, told apart by how far it came. Returns the resident set before. */
async function memory(agent: BenchAgent, report: Report): Promise<number> {
  const idle = agent.rss().agent
  for (const manner of ['silent', 'idle'] as const) {
    const guests = startCrowd(spawn)
    const before = agent.rss().agent
    for (let n = 1; n <= 5; n++) {
      await guests.come({ manner, port: agent.port, from: `127.0.9.${n}`, count: CROWD, token: TOKEN })
    }
    const each = ((agent.rss().agent - before) / (5 * CROWD)) * 1000
    const note = manner === 'silent' ? 'before TLS' : 'after the handshake'
    report({ figure: `connection_${manner}`, value: each, unit: 'kB', note })
    await guests.leave()
    guests.child.kill()
  }
  return idle
}

async function p99During(innocent: Innocent, work: () => Promise<unknown>): Promise<number> {
  await innocent.report()
  await work()
  const { failures, p99 } = await innocent.report()
  if (failures.length > 0) throw new Error(`the innocent was answered ${failures.join()}`)
  return p99
}

async function wrongTokens(agent: BenchAgent, innocent: Innocent, report: Report): Promise<void> {
  const knocker = startKnocker(spawn)
  const all = Array.from(
    { length: Math.ceil(TOKENS / EACH) },
    (_, n): Knocks => ({
      from: [`127.1.${n >> 8}.${n & 255}`],
      to: '127.0.0.1',
      ports: { rest: agent.port },
      doors: ['rest', 'grpc', 'events'],
      tokens: Array.from({ length: EACH }, (_, k) => `nt_wrong-${n}-${k}`),
    }),
  )
  const [before, start] = [agent.cpu().agent, performance.now()]
  const p99 = await p99During(innocent, () => knocker.knock(all, 8))
  const seconds = (performance.now() - start) / 1000
  const each = ((agent.cpu().agent - before) / TOKENS) * 1e6
  const note = `${TOKENS} wrong tokens from ${all.length} addresses on three ports, ${(TOKENS / seconds).toFixed(0)}/s`
  report({ figure: 'health_p99_wrong_tokens', value: p99, unit: 'ms', note })
  report({ figure: 'wrong_token_cpu', value: each, unit: 'us', note: 'with its share of a handshake' })
  knocker.child.kill()
}
