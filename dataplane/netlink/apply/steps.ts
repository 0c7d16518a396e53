/**
 * Many entries at once: what each takes is a few rounds of messages, and the n-th rounds of all go to the kernel
 * together. An entry whose round fails is taken back by itself and goes no further.
 */
import type { KernelError } from '../../libc.ts'
import { UncertainOutcome } from '../../plane.ts'
import { linksOf, type NetlinkEntry } from '../entries.ts'
import type { Message } from '../wire.ts'
import { takeBack, wasAbsent } from './journal.ts'
import { type Refused, refusedBy } from './refusal.ts'
import type { Scene } from './scene.ts'

/** Messages that go to the kernel in one send, so that no kill can come between them; the kernel takes each alone. */
export interface Round {
  messages: readonly Message[]
  /** Position of the message that makes the change, default 0: what comes with it needs no undoing by itself. */
  main?: number
  /**
   * In the order in which they are to be sent; asked for when they are, with all links of the step known to the scene:
   * a link that was removed and made again has another index.
   */
  undo: () => readonly Message[]
  /** Something must be there to be removed: nothing in its place is a refusal then. */
  strict?: boolean
}

export interface Step {
  entry: NetlinkEntry
  /** What it replaces. */
  before?: NetlinkEntry | undefined
  rounds: readonly Round[]
}

/** Resolves to the refusals; what succeeded is in the journal. Rejects with UncertainOutcome. */
export async function carryOut(scene: Scene, steps: readonly Step[]): Promise<Refused[]> {
  const { netlink, journal } = scene
  const refused = new Map<Step, Refused>()
  const done = new Map<Step, Round[]>()
  const longest = Math.max(0, ...steps.map(({ rounds }) => rounds.length))
  for (let n = 0; n < longest; n++) {
    const open = steps.flatMap((step) => {
      const round = step.rounds[n]
      return round === undefined || refused.has(step) ? [] : [{ step, round }]
    })
    const changed: { step: Step; round: Round }[] = []
    journal.add(() => undo(scene, changed.filter(({ step }) => !refused.has(step)).reverse()))
    const errors = await netlink.request(open.flatMap(({ round }) => round.messages))
    let at = 0
    for (const { step, round } of open) {
      const own = errors.slice(at, at + round.messages.length)
      at += round.messages.length
      const error = own.find((it, index) => it && !harmless(round, index, it))
      const made = own[round.main ?? 0] === undefined
      if (error) refused.set(step, refusedBy(error, step.entry))
      if (made) done.set(step, [...(done.get(step) ?? []), round])
      if (made && !error) changed.push({ step, round })
    }
    for (const { step } of open) {
      if (refused.has(step)) await undoAlone(scene, step, (done.get(step) ?? []).toReversed())
    }
  }
  return [...refused.values()]
}

function harmless(round: Round, index: number, error: KernelError): boolean {
  const message = round.messages[index]
  return !round.strict && message !== undefined && wasAbsent(message, error)
}

async function undo(scene: Scene, done: readonly { step: Step; round: Round }[]): Promise<void> {
  await scene.ask(done.flatMap(({ step }) => [step.entry, step.before].flatMap((it) => (it ? linksOf(it) : []))))
  await takeBack(
    scene.netlink,
    done.flatMap(({ round }) => round.undo()),
  )
}

async function undoAlone(scene: Scene, step: Step, rounds: readonly Round[]): Promise<void> {
  try {
    for (const round of rounds) await undo(scene, [{ step, round }])
  } catch (cause) {
    throw new UncertainOutcome('a part of a change was refused, and its other part could not be undone', { cause })
  }
}
