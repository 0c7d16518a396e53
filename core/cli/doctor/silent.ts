/** An agent that does not answer: what its files, its process and its log tell. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { controlSocket, type Places } from '../../environment.ts'
import type { Finding } from './finding.ts'

const UNIT = 'stratumd'
/** Lines of the log that are looked at, and the longest sentence that is shown. */
const LINES = 200
const SENTENCE = 300

/** @param why what the call came to @param log a file instead of the journal */
export function lookAtSilence(places: Places, why: string, log?: string): Finding[] {
  const socket = controlSocket(places)
  const pid = livingAgent(places.stateDir)
  return [
    { severity: 'failure', about: 'agent', what: why, remedy: remedyOf(places, pid) },
    {
      severity: 'note',
      about: 'control socket',
      what: existsSync(socket) ? `${socket} is there, and nobody answers` : `${socket} is not there`,
    },
    {
      severity: 'note',
      about: 'process',
      what: pid === undefined ? 'none holds the lock of the state' : `${pid} runs`,
    },
    ...permissions(places.stateDir),
    ...kept(places),
    ...lastWords(log),
  ]
}

function remedyOf({ stateDir }: Places, pid: number | undefined): string {
  if (pid !== undefined)
    return `it starts or hangs: look into its log; then kill ${pid} (the data plane stays as it is)`
  if (!existsSync(stateDir)) return `it never ran with ${stateDir}: is STRATUM_STATE_DIR the one of the unit?`
  return `systemctl start ${UNIT}; its log says why it ended`
}

/** The pid in the lock file, if that process is an agent. The lock itself goes with the process, the number stays. */
function livingAgent(stateDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(stateDir, 'agent.lock'), 'utf8').trim())
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return command.some((word) => /core\/main\.js$|stratumd$/.test(word)) ? pid : undefined
  } catch {
    return undefined
  }
}

function permissions(stateDir: string): Finding[] {
  return ['overrides.json', 'license.json'].flatMap((name): Finding[] => {
    const file = join(stateDir, name)
    const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
    if ((mode & 0o077) === 0) return []
    return [{ severity: 'warning', about: 'state', what: `${file} can be read by others`, remedy: `chmod 600 ${file}` }]
  })
}

/** A stopped agent leaves the kernel as it is. */
function kept({ bpfDir }: Places): Finding[] {
  const what = existsSync(bpfDir)
    ? `programs and maps are pinned in ${basename(bpfDir)}: what was in force still is`
    : 'nothing is pinned; nft list table inet stratum shows what is in force'
  return [{ severity: 'note', about: 'data plane', what }]
}

/** The last error that was logged, or else the last line. */
function lastWords(log: string | undefined): Finding[] {
  const [text, where] = log === undefined ? [journal(), `journal of ${UNIT}`] : [fileEnd(log), log]
  const entries = (text ?? '').split('\n').flatMap((line) => entryOf(line) ?? [])
  const last = entries.findLast(({ level }) => level === 'error' || level === 'fatal') ?? entries.at(-1)
  if (last === undefined)
    return [{ severity: 'note', about: 'log', what: `nothing in the ${where}; give one by --log FILE` }]
  return [{ severity: 'note', about: 'log', what: `${last.time} ${last.level}: ${last.said}`.slice(0, SENTENCE) }]
}

function entryOf(line: string): { level: string; time: string; said: string } | undefined {
  try {
    const { level = '', time = '', msg = '', err, reason } = JSON.parse(line)
    const why = err?.message ?? reason
    return { level: String(level), time: String(time), said: why === undefined ? String(msg) : `${msg}: ${why}` }
  } catch {
    // What is no line of ours, such as a crash of Node.
    return line.trim() === '' || line.startsWith('-- ') ? undefined : { level: 'error', time: '', said: line.trim() }
  }
}

function fileEnd(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(-LINES).join('\n')
  } catch {
    return undefined
  }
}

function journal(): string | undefined {
  const args = ['--unit', UNIT, '--lines', String(LINES), '--output', 'cat', '--no-pager', '--quiet']
  try {
    return execFileSync('journalctl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 5000 })
  } catch {
    return undefined
  }
}
