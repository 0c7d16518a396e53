/** Tells when files were rewritten, replaced, made or removed, by whatever means. */
import { type FSWatcher, type Stats, stat, statSync, watch } from 'node:fs'
import { basename, dirname } from 'node:path'

export interface WatchOptions {
  /** How often the files are looked at, in ms. */
  readonly intervalMs?: number
  /** How long the files must be quiet before they are read, in ms. */
  readonly debounceMs?: number
}

/**
 * Runs `look` once soon, then whenever something may have happened to one of `paths` and they were quiet for a moment.
 * Listens to their directories (inotify), which tells at once, and looks at the files by stat, which follows symbolic
 * links and sees a directory that comes later, a mount and a network file system, where inotify does not.
 * Never throws, and never keeps the process alive.
 * @returns stops watching
 */
export function watchFiles(
  paths: readonly string[],
  look: () => void,
  { intervalMs = 2000, debounceMs = 500 }: WatchOptions = {},
): () => void {
  const names = new Set(paths.map((path) => basename(path)))
  const directories = new Map<string, FSWatcher>()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  /** A directory that was replaced is another one: whoever listened to the old hears nothing any more. */
  function listen(): void {
    for (const listener of directories.values()) listener.close()
    directories.clear()
    for (const directory of new Set(paths.map((path) => dirname(path)))) {
      try {
        // Others may write beside our files all the time, and would put off the quiet for ever.
        const listener = watch(directory, { persistent: false }, (_event, name) => names.has(name ?? '') && soon())
        listener.on('error', () => listener.close())
        directories.set(directory, listener)
      } catch {
        // Not there, or no inotify left: stat will see.
      }
    }
  }

  function soon(): void {
    clearTimeout(timer)
    if (!stopped) timer = setTimeout(settled, debounceMs).unref()
  }

  function settled(): void {
    listen()
    look()
  }

  // Taken before the first look, so that no change falls between the two.
  const stamps = new Map(paths.map((path) => [path, stampOf(present(path))]))
  const clock = setInterval(() => {
    for (const path of paths) {
      stat(path, (_missing, stats) => {
        const stamp = stampOf(stats)
        if (stamp !== stamps.get(path)) soon()
        stamps.set(path, stamp)
      })
    }
  }, intervalMs).unref()
  listen()
  soon()
  return () => {
    stopped = true
    clearTimeout(timer)
    for (const listener of directories.values()) listener.close()
    clearInterval(clock)
  }
}

/** What differs when a file was written, replaced or removed. A directory on the way that may not be read counts as none. */
const stampOf = (stats: Stats | undefined): string =>
  stats === undefined ? '' : [stats.dev, stats.ino, stats.size, stats.mtimeMs, stats.ctimeMs].join(' ')

function present(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}
