/**
 * What drift detection costs: the question of every second, a pass over 10,000 rules that finds nothing, and one that
 * finds the whole table gone. In this process, so that the longest stall of its event loop can be seen.
 */
import { readFileSync } from 'node:fs'
import type { Agent } from '../../core/agent.ts'
import { openNft } from '../../dataplane/nft/session.ts'
import { cpuOf, TOKEN } from './agent.ts'
import { quantile, type Report } from './figure.ts'
import { inProcess } from './in-process.ts'
import { watchStalls } from './stall.ts'

const RULES = 10_000
const BATCH = 1000
const QUESTIONS = 5000
const ROUNDS = 9
const OPERATOR = { method: 'POST', headers: { authorization: `Bearer ${TOKEN}` } } as const

interface Cost {
  wall: number
  agent: number
  helper: number
  stall: number
}

export async function drift(report: Report): Promise<void> {
  const { agent, close } = await inProcess('firewall')
  const other = await openNft()
  try {
    await load(agent)
    await question(agent, report)
    const pass = async () => void (await agent.drift.check({ dryRun: false }))
    await pass()
    tell(report, 'pass_10k', await rounds(pass, async () => {}), { stall: 20 })
    const gone = () => other.run('delete table inet stratum\n')
    tell(report, 'rebuild_10k', await rounds(pass, gone), { stall: 20 })
  } finally {
    await other.run('delete table inet stratum\n')
    await other.close()
    await close()
  }
}

async function load({ app }: Agent): Promise<void> {
  for (let at = 0; at < RULES; at += BATCH) {
    const rules = Array.from({ length: BATCH }, (_, n) => ({
      action: 'accept',
      source_ip: `10.0.${(at + n) >> 8}.${(at + n) & 255}`,
      dest_port: ((at + n) % 65_000) + 1,
    }))
    const answer = await app.inject({ ...OPERATOR, url: '/api/v1/rules/batch', payload: { rules } })
    if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${answer.payload}`)
  }
}

async function question({ plane }: Agent, report: Report): Promise<void> {
  const before = process.cpuUsage()
  for (let n = 0; n < QUESTIONS; n++) await plane.changedByOthers()
  const { user, system } = process.cpuUsage(before)
  const micros = (user + system) / QUESTIONS
  report({ figure: 'question', value: micros, unit: 'us', note: `CPU of one, mean of ${QUESTIONS}` })
  report({ figure: 'question_share', value: micros / 10_000, unit: '% core', goal: 0.1, note: 'asked once a second' })
}

async function rounds(work: () => Promise<void>, prepare: () => Promise<unknown>): Promise<Cost[]> {
  const costs: Cost[] = []
  for (let n = 0; n < ROUNDS; n++) {
    await prepare()
    costs.push(await cost(work))
  }
  return costs
}

async function cost(work: () => Promise<void>): Promise<Cost> {
  const stalls = watchStalls()
  const [since, cpu, helpers] = [performance.now(), process.cpuUsage(), helperCpu()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  const wall = performance.now() - since
  return { wall, agent: (user + system) / 1000, helper: (helperCpu() - helpers) * 1000, stall: await stalls() }
}

function helperCpu(): number {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
  return children.reduce((sum, pid) => sum + cpuOf(Number(pid)), 0)
}

function tell(report: Report, figure: string, costs: readonly Cost[], goal: { stall: number }): void {
  const note = `median of ${costs.length} rounds, ${RULES} rules`
  const median = (of: keyof Cost) =>
    quantile(
      costs.map((it) => it[of]),
      0.5,
    )
  report({ figure: `${figure}_wall`, value: median('wall'), unit: 'ms', note })
  report({ figure: `${figure}_cpu_agent`, value: median('agent'), unit: 'ms', note })
  report({ figure: `${figure}_cpu_helper`, value: median('helper'), unit: 'ms', note })
  report({
    figure: `${figure}_stall`,
    value: median('stall'),
    unit: 'ms',
    goal: goal.stall,
    note: 'longest, median of rounds',
  })
  report({
    figure: `${figure}_stall_worst`,
    value: quantile(
      costs.map(({ stall }) => stall),
      1,
    ),
    unit: 'ms',
  })
}
