/**
 * What each thread of this process may do, as the kernel tells it. Ids and capabilities belong to threads, and a process is as
 * strong as the strongest of them.
 */
import { closeSync, openSync, readdirSync, readSync } from 'node:fs'

/** Bytes of a status file; it has some 1,500. */
const SIZE = 8192
/** Empty on all threads. What a thread may hand on to a program it runs (CapInh) counts for nothing: it runs none. */
const NOTHING = ['CapBnd', 'CapAmb'] as const

export interface Threads {
  /**
   * `kept`: capabilities that the first thread may have, in a process that was root; the others have none. undefined: it never
   * was. To be called behind the filter, which refuses to open what is read here. @throws Error that names what was kept
   */
  sure(kept: number | undefined): void
}

/** Opens what tells of the threads that there are now. */
export function openThreads(): Threads {
  const files = readdirSync('/proc/self/task').map((thread) => ({
    first: Number(thread) === process.pid,
    file: openSync(`/proc/self/task/${thread}/status`, 'r'),
  }))
  return {
    sure(kept) {
      const problems = files.flatMap(({ first, file }) => {
        const status = textOf(file)
        const problem =
          status === undefined ? undefined : tooMuch(status, kept === undefined ? undefined : first ? kept : 0)
        return problem === undefined ? [] : [problem]
      })
      if (problems.length > 0) throw new Error(`privileges were not given up: ${problems.join('; ')}`)
    },
  }
}

/** What a thread with this status has that it should not have. */
export function tooMuch(status: string, kept: number | undefined): string | undefined {
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*$`, 'm').exec(status)?.[1] ?? ''
  const named = (name: string) => `thread ${field('Pid')} (${field('Name')}) has ${name} ${field(name)}`
  if (field('NoNewPrivs') !== '1') return named('NoNewPrivs')
  if (field('Seccomp') !== '2') return named('Seccomp')
  if (kept === undefined) return undefined
  for (const ids of ['Uid', 'Gid']) if (field(ids) === '' || field(ids).split(/\s+/).includes('0')) return named(ids)
  if (field('Groups') !== '') return named('Groups')
  for (const set of NOTHING) if (capabilities(field(set)) !== 0n) return named(set)
  for (const set of ['CapPrm', 'CapEff']) if ((capabilities(field(set)) & ~BigInt(kept)) !== 0n) return named(set)
  return undefined
}

/** All of them where the kernel told none. */
const capabilities = (hex: string): bigint => (/^[0-9a-f]+$/.test(hex) ? BigInt(`0x${hex}`) : ~0n)

/** undefined: the thread has ended. */
function textOf(file: number): string | undefined {
  const bytes = Buffer.alloc(SIZE)
  try {
    return bytes.toString('latin1', 0, readSync(file, bytes, 0, SIZE, 0))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined
    throw error
  } finally {
    closeSync(file)
  }
}
