/**
 * Whether the responder still answers: the agent asks it every second. Only time in which this process was on time itself counts,
 * and what it did meanwhile is read from the kernel, so that a busy machine is no reason to end a responder that is well.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Of one thread, as /proc/PID/task/TID/stat has it. */
export interface Vitals {
  /** R, S, D, T and the like: proc_pid_stat(5). */
  state: string
  /** Processor time, milliseconds. */
  used: number
  /** Clock ticks between the boot and its start, which tell it from a later one of the same number. */
  started: string
}

/** What is known of a process: its first thread, and whether any thread could run or waits for a disk. */
export interface Sign extends Vitals {
  busy: boolean
}

/** Milliseconds of a clock tick (USER_HZ). */
const TICK = 10
const BEAT_MS = 250
/** A beat that comes later than this was no time in which an answer could have been heard. */
const LATE_MS = 250
const PING_MS = 1000
const PATIENCE_MS = 2000

/** undefined: there is no such process. */
export function signOf(pid: number): Sign | undefined {
  try {
    const first = vitalsOf(pid, pid)
    const threads = readdirSync(`/proc/${pid}/task`).map((tid) => vitalsOf(pid, Number(tid)).state)
    return { ...first, busy: threads.some((state) => state === 'R' || state === 'D') }
  } catch {
    return undefined
  }
}

function vitalsOf(pid: number, tid: number): Vitals {
  const stat = readFileSync(`/proc/${pid}/task/${tid}/stat`, 'latin1')
  // Behind the name, which may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = '', user, system, started = ''] = [fields[0], fields[11], fields[12], fields[19]]
  return { state, used: (Number(user) + Number(system)) * TICK, started }
}

/**
 * Why a process that has not answered for {@link PATIENCE_MS} never will; undefined where it may have had no chance to. `asked`
 * is how it was when it was asked.
 */
export function whyHung(asked: Sign, now: Sign | undefined): string | undefined {
  // Gone: the connection tells of that.
  if (now === undefined || now.started !== asked.started) return undefined
  if (/[tT]/.test(now.state)) return 'somebody stopped it (SIGSTOP)'
  if (now.used - asked.used >= PATIENCE_MS) return `it used ${now.used - asked.used} ms of processor time meanwhile`
  return now.busy ? undefined : 'it does nothing'
}

export interface Watched {
  /** Resolves when it has answered. */
  ping(): Promise<unknown>
  sign(): Sign | undefined
  /** Called once. */
  onHung(why: string): void
  /** Milliseconds of a clock that never goes back. */
  clock?(): number
}

/** Returns one beat of the watch, to be called every {@link BEAT_MS}. */
export function openPulse({ ping, sign, onHung, clock = () => performance.now() }: Watched): () => void {
  let last = clock()
  let rest = 0
  let asked: { sign: Sign; waited: number } | undefined
  let over = false
  return () => {
    const time = clock()
    const passed = time - last
    last = time
    if (over) return
    if (asked === undefined) {
      rest += passed
      const now = rest < PING_MS ? undefined : sign()
      if (now === undefined) return
      const question = { sign: now, waited: 0 }
      asked = question
      rest = 0
      const done = () => {
        if (asked === question) asked = undefined
      }
      // One that fails says that the connection has ended.
      ping().then(done, done)
      return
    }
    if (passed > BEAT_MS + LATE_MS) return
    asked.waited += passed
    const why = asked.waited < PATIENCE_MS ? undefined : whyHung(asked.sign, sign())
    if (why === undefined) return
    over = true
    onHung(`it did not answer for ${Math.round(asked.waited)} ms, and ${why}`)
  }
}

/** Until the returned function is called. */
export function watchHealth(watched: Watched): () => void {
  const timer = setInterval(openPulse(watched), BEAT_MS).unref()
  return () => clearInterval(timer)
}
