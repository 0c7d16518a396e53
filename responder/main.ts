/**
 * The responder: answers DNS and DHCP from memory, and goes on doing so while no agent runs.
 *
 *   node responder/main.js <path of its control socket> [trial]   (a trial ends by itself)
 *
 * Started detached by the agent (dataplane/responder/session.ts), to which it says over the IPC channel once that it serves,
 * or why not. What it answers it is told over the control socket; it keeps nothing on disk.
 */
import { access } from 'node:fs/promises'
import { dirname } from 'node:path'
import { closePrototype } from '../dataplane/prototype.ts'
import { responderBuild } from '../dataplane/responder/build.ts'
import { type FromResponder, TRIAL } from '../dataplane/responder/protocol.ts'
import { type Control, openControl } from './control.ts'
import { openDhcp } from './dhcp/server.ts'
import { openDns } from './dns/dns.ts'
import { openHolding } from './holding.ts'
import { openLeaseBuffer } from './leases.ts'
import { dropPrivileges } from './privileges.ts'
import { withoutRings } from './rings.ts'

/** How often a listener that could not be opened is tried again. */
const RETRY_MS = 2000
/** So often in a row, before a process that nobody can find makes room for the one that can be found. */
const ORPHAN_LOOKS = 3
/** After which a trial ends whose agent has ended first. */
const TRIAL_MS = 30_000

let control: Control | undefined
const tell = (document: FromResponder) => control?.tell(document)
const problem = (error: unknown) => tell({ problem: error instanceof Error ? error.message : String(error) })

async function main(path: string, trial: boolean): Promise<void> {
  withoutRings()
  closePrototype()
  const leases = openLeaseBuffer()
  const engines = {
    dns: openDns({ onError: problem }),
    dhcp: openDhcp({
      onProblem: problem,
      whenStored: leases.whenStored,
      onLease(news) {
        leases.add(news)
        control?.leasesCame()
      },
    }),
  }
  const holding = openHolding(engines)
  const release = () => Promise.all([engines.dns.close(), engines.dhcp.close()])
  const stop = () => {
    control?.close()
    // Whatever goes wrong from here on must not keep it alive.
    process.off('uncaughtException', problem)
    process.exit(0)
  }
  // As root, so that only root can speak to it.
  control = await openControl({ path, build: responderBuild(), holding, leases, release, stop })
  // libuv makes its threads now, and none later that would have what the first thread keeps.
  await access('/')
  dropPrivileges(dirname(path))
  if (trial) setTimeout(stop, TRIAL_MS)
  setInterval(() => void look(), RETRY_MS)
  let alone = 0
  async function look(): Promise<void> {
    // A successor has the path; its agent could not stop this one.
    alone = control?.isOrphan() ? alone + 1 : 0
    if (alone > ORPHAN_LOOKS) return release().then(stop)
    if (holding.waiting().length > 0 && (await holding.retry())) tell({ waiting: holding.waiting() })
  }
}

const say = (message: object) => {
  if (process.connected) process.send?.(message, () => process.disconnect())
}
// A mistake in one packet's handling must not silence all: it is told, and the next packet is answered.
process.on('uncaughtException', problem)
process.on('unhandledRejection', problem)
// Upon SIGUSR1 Node would start its debugger, for which the filter leaves it nothing: the process would end.
for (const signal of ['SIGINT', 'SIGHUP', 'SIGPIPE', 'SIGUSR1'] as const) process.on(signal, () => {})

const [, , where = '', what] = process.argv
main(where, what === TRIAL).then(
  () => say({ ready: true }),
  (error: unknown) => {
    say({ failed: error instanceof Error ? error.message : String(error) })
    process.exitCode = 1
    setImmediate(() => process.exit())
  },
)
