/** Whether a daemon of FRR runs on this node and knows what it will be told, by what its `--help` prints. */
import type { Daemon } from './session.ts'

const COMMON = ['daemon', 'user', 'group', 'vty_port', 'log', 'log-level', 'vty_socket', 'socket', 'pid_file']
const OPTIONS: Readonly<Record<Daemon, readonly string[]>> = {
  zebra: [...COMMON, 'config_file', 'retain', 'graceful_restart'],
  bfdd: [...COMMON, 'config_file'],
  bgpd: [...COMMON, 'config_file'],
}

/** Why a daemon cannot be used; undefined when it can. `help` rejects with what it said instead. */
export async function whyNotUsable(
  binDir: string,
  name: Daemon,
  help: (binDir: string, name: Daemon) => Promise<string>,
): Promise<string | undefined> {
  const program = `${binDir}/${name}`
  try {
    const known = await help(binDir, name)
    const option = OPTIONS[name].map((it) => `--${it}`).find((it) => !known.includes(`${it} `))
    if (option === undefined) return undefined
    return `${program} knows no ${option}: FRR 8.4 of Debian 12 and FRR 10.3 of Debian 13 are known to work`
  } catch (error) {
    return `${program} does not run: ${(error as Error).message}`
  }
}
