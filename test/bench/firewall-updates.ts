/** What one change of one rule costs the data plane, with many there. */
import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import { threadCpuNs } from '../../dataplane/bpf/test_run.ts'
import { dice } from '../firewall/dice.ts'
import type { Ours, RulePassage } from '../firewall/ours.ts'
import { quantile, type Report } from './figure.ts'

const WARM_UP = 200
const SAMPLES = 2000
/** Changes in a row before the event loop has its turn, and with it what clears up behind changes. */
const ROW = 50
/** ms */
const PAUSE = 1

const KINDS = ['add', 'delete', 'replace'] as const
type Times = Record<(typeof KINDS)[number], number[]>
const none = (): Times => ({ add: [], delete: [], replace: [] })

/** Each rule is replaced, deleted and made again, so that as many are there as before: one change after the other, then alone. */
export async function updates(ours: Ours, rules: readonly FilterRule[], at: string, report: Report): Promise<void> {
  let row = 0
  const turn = async () => {
    if (++row % ROW === 0) await new Promise(setImmediate)
  }
  const inRow = await sample(ours, rules, turn)
  // What a change leaves to be cleared up is done meanwhile.
  const alone = await sample(ours, rules, () => new Promise((resolve) => setTimeout(resolve, PAUSE)))
  for (const kind of KINDS) {
    const [p50 = 0, wall50 = 0, wall99 = 0] = [
      quantile(inRow.cpu[kind], 0.5),
      quantile(inRow.wall[kind], 0.5),
      quantile(inRow.wall[kind], 0.99),
    ]
    const note = `CPU until it resolves, p50 ${p50.toFixed(1)}; by the clock p50 ${wall50.toFixed(1)}, p99 ${wall99.toFixed(1)}`
    report({ figure: `update_${kind}_${at}_p99`, value: quantile(inRow.cpu[kind], 0.99), unit: 'us', goal: 20, note })
    const after = `CPU, ${PAUSE} ms after the one before, p99 ${quantile(alone.cpu[kind], 0.99).toFixed(1)}`
    report({ figure: `update_${kind}_${at}_alone_p50`, value: quantile(alone.cpu[kind], 0.5), unit: 'us', note: after })
  }
}

async function sample(ours: Ours, rules: readonly FilterRule[], pause: () => Promise<void>) {
  const draw = dice(rules.length)
  const [cpu, wall] = [none(), none()]
  const change = async (kind: keyof Times, passage: RulePassage, counts: boolean) => {
    const [before, since] = [threadCpuNs(), performance.now()]
    await ours.change([passage])
    const [spent, took] = [threadCpuNs() - before, performance.now() - since]
    await pause()
    if (!counts) return
    cpu[kind].push(spent / 1000)
    wall[kind].push(took * 1000)
  }
  for (let n = -WARM_UP; n < SAMPLES; n++) {
    const rule = draw.pick(rules)
    const other: FilterRule = { ...rule, accept: !rule.accept }
    await change('replace', { before: rule, after: other }, n >= 0)
    await change('delete', { before: other }, n >= 0)
    await change('add', { after: rule }, n >= 0)
  }
  return { cpu, wall }
}
