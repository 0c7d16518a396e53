/**
 * The licence of this node: the file on disk, judged by the clock. Made once in the composition root.
 * Everything is local; no licence server is ever asked.
 */
import { rmSync } from 'node:fs'
import { writePrivateFile } from '../private-file.ts'
import { evaluationPayload, makeEvaluationKey, readEvaluationKey } from './evaluation.ts'
import { type Licence, LicenceError, signLicence } from './file.ts'
import { type LicenceMarks, openMarks } from './marks.ts'
import {
  effectiveTime,
  hardwareMismatch,
  type LicenceView,
  licenceCautions,
  licenceState,
  notYetValid,
  rfc3339,
  tooEarly,
} from './state.ts'
import { loadLicence, type Trust, verifyLicence } from './verify.ts'

/** A clock behind its high-water mark by less than this is not worth a word: time services step clocks a little. */
const CLOCK_BACK_MS = 5 * 60_000

export interface LicenceOptions {
  /** The installed licence, in the state directory. */
  readonly file: string
  /** Paths of the vendor's public keys (PEM, Ed25519); asked anew at `reload`, `install` and `evaluate`. */
  readonly trustedKeys: () => readonly string[]
  /** The node's own evaluation key, in the state directory; made when first needed. */
  readonly evaluationKey: string
  readonly now: () => Date
  /** From `hardwareId()`. */
  readonly hardwareId: string
  readonly loadMarks: () => LicenceMarks
  /** Stores all marks durably before it returns (or resolves); never called while an earlier call still runs. */
  readonly saveMarks: (marks: LicenceMarks) => void | Promise<void>
}

export interface InstalledLicence {
  /** The licence now. Cheap: computed once per second of the clock. Never throws. */
  view(): LicenceView
  /** Why the licence file counts for nothing; undefined when it is well. */
  problem(): LicenceError | undefined
  /** What the operator should know beyond the view: why no licence counts, or what will freeze it. */
  reason(): string | undefined
  /** Takes a licence file's text into use, at once. @throws LicenceError; the old licence then stays */
  install(text: string): Promise<LicenceView>
  /** Begins the node's one 30-day evaluation. @throws LicenceError when it had one, or holds another licence */
  evaluate(): Promise<LicenceView>
  /** Reads file and keys again. Never throws: a bad file is "not installed", see `reason`. */
  reload(): LicenceView
}

type Loaded = { readonly licence: Licence } | { readonly problem: LicenceError }

/** Reads the installed licence; never throws for what the file holds. */
export function openLicence(options: LicenceOptions): InstalledLicence {
  const { file, hardwareId, now } = options
  const marks = openMarks(options.loadMarks(), options.saveMarks)
  let loaded: Loaded
  let cached: { second: number; view: LicenceView } | undefined
  let queue: Promise<unknown> = Promise.resolve()

  function view(): LicenceView {
    const clock = now()
    const second = Math.floor(clock.getTime() / 1000)
    if (cached?.second !== second) cached = { second, view: judge(clock) }
    return cached.view
  }

  function judge(clock: Date): LicenceView {
    const licence = 'licence' in loaded ? loaded.licence : undefined
    marks.see(clock)
    if (licence !== undefined) marks.seeHardware(hardwareMismatch(licence, hardwareId))
    marks.saveSometimes()
    const { highWater, hardwareMismatchSince } = marks.current
    return licenceState({ licence, now: clock, highWater, hardwareId, hardwareMismatchSince })
  }

  function reload(): LicenceView {
    loaded = load()
    cached = undefined
    return view()
  }

  function load(): Loaded {
    try {
      return { licence: loadLicence(file, trust()) }
    } catch (error) {
      if (error instanceof LicenceError) return { problem: error }
      throw error
    }
  }

  function trust(): Trust {
    const { evaluationUsedAt } = marks.current
    return { vendorKeys: options.trustedKeys(), evaluationKey: options.evaluationKey, evaluationUsedAt, hardwareId }
  }

  function time(): Date {
    return effectiveTime(now(), marks.current.highWater)
  }

  function reason(): string | undefined {
    const sentences =
      'licence' in loaded ? licenceCautions(loaded.licence, time(), hardwareId) : [loaded.problem.message]
    const { highWater } = marks.current
    if (highWater.getTime() - now().getTime() > CLOCK_BACK_MS) {
      sentences.push(`the clock was set back: this node has already seen ${rfc3339(highWater)}, and that counts`)
    }
    if (marks.problem !== undefined) sentences.push(`the licence clock cannot be stored: ${marks.problem}`)
    return sentences.length === 0 ? undefined : sentences.join('; ')
  }

  async function install(text: string): Promise<LicenceView> {
    marks.see(now())
    const licence = verifyLicence(text, trust())
    if (notYetValid(licence, time())) throw new LicenceError('LICENCE_NOT_YET_VALID', tooEarly(licence, time()))
    await marks.save()
    writePrivateFile(file, text)
    return reload()
  }

  async function evaluate(): Promise<LicenceView> {
    marks.see(now())
    loaded = load()
    cached = undefined
    refuseEvaluation(loaded, marks.current.evaluationUsedAt)
    const start = new Date(Math.floor(time().getTime() / 1000) * 1000)
    const key = readEvaluationKey(options.evaluationKey) ?? makeEvaluationKey(options.evaluationKey)
    // The mark comes last: a crash before it leaves a licence that nothing trusts, and evaluation can be asked again.
    writePrivateFile(file, signLicence(evaluationPayload(start, hardwareId), key))
    try {
      await marks.useEvaluation(start)
    } catch (error) {
      rmSync(file, { force: true })
      throw error
    }
    return reload()
  }

  /** One at a time, in the order of the calls. */
  function queued<T>(work: () => Promise<T>): Promise<T> {
    const result = queue.then(work)
    queue = result.catch(() => undefined)
    return result
  }

  loaded = load()
  const problem = () => ('problem' in loaded ? loaded.problem : undefined)
  return {
    view,
    problem,
    reason,
    reload,
    install: (text) => queued(() => install(text)),
    evaluate: () => queued(evaluate),
  }
}

/** An evaluation is for a node that never had one, and never takes the place of another licence, however bad. */
function refuseEvaluation(loaded: Loaded, usedAt: Date | undefined): void {
  if (usedAt !== undefined) {
    const began = `this node began its 30-day evaluation on ${rfc3339(usedAt)} and gets no second one`
    throw noEvaluation(`${began}; install a licence with: stratumctl license install FILE`)
  }
  if ('licence' in loaded) throw noEvaluation('a licence is already installed')
  const { code, message } = loaded.problem
  // LICENCE_EVALUATION: the remains of an evaluation that was cut short before it was remembered.
  if (code === 'LICENCE_MISSING' || code === 'LICENCE_EVALUATION') return
  throw noEvaluation(`there is a licence file that cannot be used (${message}); repair or remove it first`)
}

function noEvaluation(why: string): LicenceError {
  return new LicenceError('LICENCE_EVALUATION', `no evaluation licence: ${why}`)
}
