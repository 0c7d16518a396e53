/** What `stratumctl doctor` has found, and what to do about it. */
import { columns } from '../verb.ts'

/** `note`: so by choice or of no harm. `warning`: something does less than it could. `failure`: something does not work. */
export const SEVERITIES = ['ok', 'note', 'warning', 'failure'] as const
export type Severity = (typeof SEVERITIES)[number]

export interface Finding {
  severity: Severity
  about: string
  what: string
  /** What turns it on or puts it right. */
  remedy?: string
}

export const worstOf = (findings: readonly Finding[]): Severity =>
  findings.reduce<Severity>(
    (worst, { severity }) => (SEVERITIES.indexOf(severity) > SEVERITIES.indexOf(worst) ? severity : worst),
    'ok',
  )

/** The worst comes last, where the eye is when the prompt is back. */
export function findingLines(findings: readonly Finding[]): string {
  const sorted = [...findings].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))
  const table = columns(sorted.map(({ severity, about, what }) => [severity, about, what])).split('\n')
  return sorted
    .flatMap(({ remedy }, at) => [table[at] ?? '', ...(remedy === undefined ? [] : [`  do: ${remedy}`])])
    .join('\n')
}
