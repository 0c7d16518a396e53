/**
 * What a licence means at a moment (D23), as `GET /license` answers it, and the refusals that follow from it.
 * Pure: the clock, its high-water mark and the hardware come in.
 */
import type { Licence } from './file.ts'
import type { Capability, PlanGate } from './plan.ts'

const DAY_MS = 86_400_000
/** `warning` begins this long before `valid_until`, or this share of the term before it, if that is less: no licence begins with it. */
const WARNING_MS = 30 * DAY_MS
const WARNING_SHARE = 1 / 3
/** Changes still work this long after `valid_until`, and after the hardware stopped matching. */
const GRACE_MS = 14 * DAY_MS
/** A node's clock may run this far behind the vendor's without making a fresh licence "not yet valid". */
const CLOCK_SKEW_MS = 5 * 60_000

export type LicenceState = 'active' | 'warning' | 'grace' | 'frozen'

/** The licence on the wire; field meanings in the API specification. */
export type LicenceView =
  | { readonly installed: false }
  | {
      readonly installed: true
      readonly serial_number: string
      readonly plan: string
      readonly release_channel: string
      /** RFC 3339, UTC. */
      readonly valid_until: string
      readonly state: LicenceState
      /** Whole days left, rounded down; negative once expired. */
      readonly days_remaining: number
      readonly expired: boolean
      readonly mutations_allowed: boolean
      /** The licence is bound to other hardware than this. */
      readonly hardware_grace: boolean
      /** 0 = uncapped. */
      readonly max_bandwidth_gbps: number
      readonly features: Readonly<Record<Capability, boolean>>
    }

export interface LicenceMoment {
  readonly licence?: Licence | undefined
  readonly now: Date
  /** The latest time this node has ever seen; a clock that was set back cannot thaw a licence. */
  readonly highWater: Date
  /** Of this machine, from `hardwareId()`. */
  readonly hardwareId: string
  /** When the bound hardware was first seen not to match; absent = only now. */
  readonly hardwareMismatchSince?: Date | undefined
}

const NOT_INSTALLED: LicenceView = Object.freeze({ installed: false })

/** The later of the clock and its high-water mark: the time that licences are judged by. */
export function effectiveTime(now: Date, highWater: Date): Date {
  return now > highWater ? now : highWater
}

/** Whether the licence is bound to a machine that this is not. */
export function hardwareMismatch(licence: Licence, hardwareId: string): boolean {
  return licence.hardwareId !== undefined && licence.hardwareId !== hardwareId
}

/**
 * A licence that begins in the future grants nothing yet, and a "frozen until renewed" would mislead: it is shown as
 * not installed. Installing one is refused instead of done, so that a renewal which arrives early never replaces
 * the licence that still runs.
 */
export function notYetValid(licence: Licence, time: Date): boolean {
  return licence.validFrom.getTime() > time.getTime() + CLOCK_SKEW_MS
}

/** The licence as it stands at a moment. */
export function licenceState(moment: LicenceMoment): LicenceView {
  const { licence, hardwareId } = moment
  const time = effectiveTime(moment.now, moment.highWater)
  if (licence === undefined || notYetValid(licence, time)) return NOT_INSTALLED

  const left = licence.validUntil.getTime() - time.getTime()
  const expired = left <= 0
  const days = Math.floor(left / DAY_MS)
  const mismatch = hardwareMismatch(licence, hardwareId)
  const foreign = mismatch ? time.getTime() - (moment.hardwareMismatchSince ?? time).getTime() : 0
  const state =
    foreign >= GRACE_MS ? 'frozen' : stateByTime(left, licence.validUntil.getTime() - licence.validFrom.getTime())
  return {
    installed: true,
    serial_number: licence.serialNumber,
    plan: licence.plan,
    release_channel: licence.releaseChannel,
    valid_until: rfc3339(licence.validUntil),
    state,
    // At the very instant of expiry the floor is still 0, but "expired" is promised to be negative.
    days_remaining: expired ? Math.min(days, -1) : days,
    expired,
    mutations_allowed: state !== 'frozen',
    hardware_grace: mismatch,
    max_bandwidth_gbps: licence.maxBandwidthGbps,
    features: licence.features,
  }
}

function stateByTime(left: number, term: number): LicenceState {
  if (left <= -GRACE_MS) return 'frozen'
  if (left <= 0) return 'grace'
  return left <= Math.min(WARNING_MS, term * WARNING_SHARE) ? 'warning' : 'active'
}

/** What the view cannot say about a licence: why it does not count yet, what it is bound to. */
export function licenceCautions(licence: Licence, time: Date, hardwareId: string): string[] {
  const sentences: string[] = []
  if (notYetValid(licence, time)) sentences.push(tooEarly(licence, time))
  if (hardwareMismatch(licence, hardwareId)) {
    const here = hardwareId === '' ? 'this node has no hardware id (see machine-id(5))' : `this is ${hardwareId}`
    sentences.push(
      `the licence is bound to hardware ${licence.hardwareId}, and ${here}: changes freeze 14 days after it stopped ` +
        'matching; ask the vendor for a licence for this hardware',
    )
  }
  return sentences
}

export function tooEarly(licence: Licence, time: Date): string {
  return (
    `licence ${licence.serialNumber} is valid from ${rfc3339(licence.validFrom)}, ` +
    `and it is ${rfc3339(time)} on this node: check the clock, or install the licence then`
  )
}

/** RFC 3339 in UTC; whole seconds are written without a fraction. */
export function rfc3339(time: Date): string {
  return time.toISOString().replace('.000Z', 'Z')
}

/** The `error` text of a 403, by who asked: a tenant is not told about the operator's licence (D39). */
export interface Refusal {
  readonly operator: string
  readonly tenant: string
}

const PAUSED = 'changes are paused on this server; your machines keep running'
const FROZEN: Refusal = {
  operator: 'license inactive: changes are frozen until the license is renewed; existing workloads keep running',
  tenant: PAUSED,
}
const NO_LICENCE: Refusal = {
  operator: 'no license installed: changes need an active license',
  tenant: PAUSED,
}

/**
 * Why the licence forbids a call; undefined when it does not. Two questions, asked apart (D1 steps 7 and 9):
 * with `gate`, any call on a gated path; without, a mutation that is not `frozenExempt`.
 */
export function licenceRefusal(view: LicenceView, gate?: PlanGate): Refusal | undefined {
  if (gate === undefined) {
    if (!view.installed) return NO_LICENCE
    return view.mutations_allowed ? undefined : FROZEN
  }
  if (!view.installed) return sameForAll(`no license installed: ${gate.title} requires a license`)
  return view.features[gate.capability] ? undefined : sameForAll(`feature not in plan: ${gate.title}`)
}

function sameForAll(text: string): Refusal {
  return { operator: text, tenant: text }
}
