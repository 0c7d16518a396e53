/** What a running agent says of itself. */
import type { LicenceView } from '../../licence/state.ts'
import { isChoice, remedyFor, remedyForTrouble } from '../../remedies.ts'
import type { ServiceStatus } from '../../services.ts'
import type { VerbContext } from '../verb.ts'
import type { Finding } from './finding.ts'

export interface Told {
  /** What the agent does at its start; absent once it has started. */
  starting?: string
  services: readonly ServiceStatus[]
  areas: readonly { name: string; reason?: string }[]
  facilities: readonly { name: string; available: boolean; detail: string; restarts?: number }[]
  troubles: readonly string[]
  /** An agent before this command, at an upgrade, tells `troubles` alone. */
  amiss?: readonly { what: string; remedy?: string }[]
}

/** Three calls, none of which walks anything. @throws what `call` does */
export async function askAgent({ call }: Pick<VerbContext, 'call'>): Promise<Finding[]> {
  const told = await call<Told>('GET', '/control/v1/services')
  const { license, reason } = await call<{ license: LicenceView; reason?: string }>('GET', '/control/v1/license')
  const { blocks } = await call<{ blocks: unknown[] }>('GET', '/control/v1/blocks')
  const blocked: Finding = {
    severity: 'note',
    about: 'lockout',
    what: `${blocks.length} addresses are blocked for failed authentication`,
    remedy: 'stratumctl auth blocks',
  }
  return [...ofServices(told), ...licenceFindings(license, reason), ...(blocks.length > 0 ? [blocked] : [])]
}

export function ofServices({ starting, services, areas, facilities, troubles, amiss }: Told): Finding[] {
  const off = facilities.filter(({ available }) => !available)
  return [
    { severity: 'ok', about: 'agent', what: 'answers on its control socket' },
    ...startFindings(starting),
    ...services.map(serviceFinding),
    ...facilities.flatMap(facilityFindings),
    ...areas.flatMap(({ name, reason }): Finding[] => {
      if (reason === undefined) return []
      if (isChoice(reason)) return [{ severity: 'note', about: name, what: `off: ${reason}` }]
      // What the facility needs stands beside the facility.
      const named = off.find((facility) => reason.includes(facility.name))
      const remedy = named === undefined ? remedyFor('', reason) : remedyFor(named.name, named.detail)
      return [{ severity: 'warning', about: name, what: `off: ${reason}`, ...(remedy && { remedy }) }]
    }),
    ...(amiss ?? troubles.map((what) => ({ what }))).map(
      (trouble): Finding => ({
        severity: 'warning',
        about: 'degraded',
        what: trouble.what,
        remedy: remedyForTrouble(trouble),
      }),
    ),
  ]
}

function startFindings(starting: string | undefined): Finding[] {
  if (starting === undefined) return []
  return [
    {
      severity: 'note',
      about: 'agent',
      what: starting,
      remedy: 'ask again: what is amiss is known once it has started',
    },
  ]
}

function serviceFinding({ name, listening, off = 'unknown' }: ServiceStatus): Finding {
  if (listening !== undefined) return { severity: 'ok', about: name, what: `listens on ${listening}` }
  const remedies: [RegExp, Finding['severity'], string][] = [
    [/^no token/, 'note', 'stratumctl api-token generate, then restart stratumd'],
    [/next start/, 'warning', 'restart stratumd'],
    [/switched off/, 'note', 'stratumctl service rest on'],
    [/^what guards it/, 'failure', 'put that right, then restart stratumd'],
    [/no certificate/, 'failure', 'stratumctl config set tls_cert and tls_key, or unset both, then restart stratumd'],
  ]
  const [, severity, remedy] = remedies.find(([when]) => when.test(off)) ?? [
    undefined,
    'failure' as const,
    'another program may have the port: ss -ltnp; or set api_bind_address to an address of this node',
  ]
  return { severity, about: name, what: `does not listen: ${off}`, remedy }
}

function facilityFindings({ name, available, detail, restarts = 0 }: Told['facilities'][number]): Finding[] {
  const about = `data plane ${name}`
  const remedy = remedyFor(name, detail)
  if (!available) {
    return [
      { severity: isChoice(detail) ? 'note' : 'warning', about, what: `off: ${detail}`, ...(remedy && { remedy }) },
    ]
  }
  if (restarts === 0) return [{ severity: 'ok', about, what: detail }]
  const again = `its process ended and was started anew ${restarts} times`
  return [
    {
      severity: 'warning',
      about,
      what: again,
      remedy: 'look into the log of stratumd and for the OOM killer in dmesg',
    },
  ]
}

export function licenceFindings(view: LicenceView, reason?: string): Finding[] {
  const about = 'licence'
  const remedy = 'stratumctl license install FILE'
  if (!view.installed) {
    return [{ severity: 'failure', about, what: reason ?? 'none is installed: changes are refused', remedy }]
  }
  const until = `${view.plan}, until ${view.valid_until} (${view.days_remaining} days)`
  const why = reason === undefined ? '' : `; ${reason}`
  if (view.state === 'active') return [{ severity: 'ok', about, what: `${until}${why}` }]
  const severity = view.state === 'frozen' ? 'failure' : 'warning'
  const effect = view.mutations_allowed ? '' : ': changes are refused, traffic goes on'
  return [{ severity, about, what: `${view.state}: ${until}${why}${effect}`, remedy }]
}
