/**
 * Tells of the licence as events: installed, its state changed, its signature is bad. What was told last is stored in the
 * transaction of the event that tells it, so a change while the agent was down is told once, when it is back.
 */
import { eq } from 'drizzle-orm'
import type { FastifyBaseLogger } from 'fastify'
import type { Db, EventDraft } from '../area.ts'
import type { Announce } from '../state/announce.ts'
import { type Origin, system } from '../state/events.ts'
import { marks } from '../state/tables.ts'
import { LicenceError } from './file.ts'
import type { InstalledLicence } from './installed.ts'
import type { LicenceState } from './state.ts'

export interface LicenceNews {
  /** Tells what is not told yet. Costs nothing while nothing has changed; never rejects. */
  look(): Promise<void>
  /** A licence was installed. Resolves with the number of the last event, undefined if it cannot be stored; never rejects. */
  installed(origin: Origin): Promise<number | undefined>
  /** A licence was offered and refused: told if its signature is bad. Never rejects. */
  refused(origin: Origin, error: unknown): Promise<void>
}

interface Standing {
  state: LicenceState | 'none'
  hardwareGrace: boolean
  /** The signature of the installed file is bad. */
  badSignature: boolean
}

export interface LicenceNewsParts {
  licence: InstalledLicence
  announce: Announce
  read: Db
  log: FastifyBaseLogger
}

const MARK = 'license_told'
const RESOURCE = '/api/v1/license'
const NOTHING: Standing = { state: 'none', hardwareGrace: false, badSignature: false }

export function openLicenceNews({ licence, announce, read, log }: LicenceNewsParts): LicenceNews {
  let told = load(read)

  function standing(): Standing {
    const view = licence.view()
    const badSignature = licence.problem()?.code === 'LICENCE_SIGNATURE'
    if (!view.installed) return { ...NOTHING, badSignature }
    return { state: view.state, hardwareGrace: view.hardware_grace, badSignature }
  }

  /** Tells `more`, and what differs from what was told. */
  async function tell(origin: Origin, more: readonly EventDraft[]): Promise<number | undefined> {
    let now = standing()
    const id = await announce(origin, (tx) => {
      now = standing()
      const drafts = changes(load(tx), now)
      const value = JSON.stringify(now)
      tx.insert(marks).values({ name: MARK, value }).onConflictDoUpdate({ target: marks.name, set: { value } }).run()
      return [...more, ...drafts]
    })
    if (now.badSignature && !told.badSignature) log.error({ reason: licence.problem()?.message }, REFUSED)
    told = now
    return id
  }

  function changes(from: Standing, to: Standing): EventDraft[] {
    const drafts: EventDraft[] = []
    if (to.badSignature && !from.badSignature) drafts.push(violation(licence.problem()?.message ?? ''))
    if (to.state !== from.state || to.hardwareGrace !== from.hardwareGrace) {
      const data = { from: from.state, to: to.state, hardware_grace: to.hardwareGrace }
      drafts.push({ type: 'license.state_changed', resource: RESOURCE, data })
    }
    return drafts
  }

  /** The licence counts all the same. */
  function lost(error: unknown): undefined {
    log.error({ err: error }, 'an event of the licence could not be stored')
  }

  return {
    async look() {
      if (JSON.stringify(standing()) !== JSON.stringify(told)) await tell(system('licence'), []).catch(lost)
    },
    installed(origin) {
      const draft = { type: 'license.updated', resource: RESOURCE, data: licence.view() }
      return tell(origin, [draft]).catch(lost)
    },
    async refused(origin, error) {
      if (!(error instanceof LicenceError) || error.code !== 'LICENCE_SIGNATURE') return
      log.error({ reason: error.message }, REFUSED)
      await announce(origin, () => [violation(error.message)]).catch(lost)
    },
  }
}

const REFUSED = 'a licence with a bad signature is not accepted'

const violation = (error: string): EventDraft => ({ type: 'license.violation', resource: RESOURCE, data: { error } })

function load(db: Db): Standing {
  const row = db.select().from(marks).where(eq(marks.name, MARK)).get()
  // Only `tell` writes it.
  return row === undefined ? NOTHING : (JSON.parse(row.value) as Standing)
}
