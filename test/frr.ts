/** FRR's daemons outlive the agent, so a test that started an agent ends them; whether this machine has what tests of BGP need. */
import { existsSync } from 'node:fs'
import { DAEMONS, endDaemon, type FrrPlaces } from '../dataplane/frr/session.ts'
import { skipping } from './required.ts'

const BIN = '/usr/lib/frr'

export const frrIn = (runDir: string): FrrPlaces => ({ binDir: BIN, runDir: `${runDir}/frr` })

/** Resolves when none runs there any more. */
export async function endFrr(runDir: string): Promise<void> {
  for (const name of [...DAEMONS].reverse()) await endDaemon(frrIn(runDir), name)
}

/** Why tests of BGP cannot run here, for tap's `skip`; false when they can. */
export function whyNoBgp(...speakers: readonly ('bird' | 'gobgpd')[]): string | false {
  if (process.getuid?.() !== 0) return skipping('needs root')
  const missing = [
    `${BIN}/bgpd`,
    ...speakers.map((name) => (name === 'bird' ? '/usr/sbin/bird' : '/usr/bin/gobgpd')),
  ].find((path) => !existsSync(path))
  return missing === undefined ? false : skipping(`needs ${missing} (Debian packages frr, bird2, gobgpd)`)
}
