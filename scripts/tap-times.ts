/** Where the time of a run went, read from its TAP (as tap writes it). Pure. */

/** A folder below `build/` whose tests are told together, and what they took, in s. */
interface Share {
  folder: string
  files: number
  seconds: number
}

const FILE = /^(?:not )?ok \d+ - build\/(\S+)\.test\.js # time=([\d.]+)ms$/
/** Folders that are told. */
const TOLD = 12

/**
 * By folder, most first, and the slowest files. Files run side by side, so the sum is more than what the clock tells; empty
 * where the run says nothing of files.
 */
export function timesIn(tap: string): string {
  const files = tap.split('\n').flatMap((line) => {
    const [, file, ms] = FILE.exec(line) ?? []
    return file === undefined ? [] : [{ file, seconds: Number(ms) / 1000 }]
  })
  if (files.length < TOLD) return ''
  const shares = new Map<string, Share>()
  for (const { file, seconds } of files) {
    const folder = file.split('/').slice(0, -1).slice(0, 2).join('/')
    const share = shares.get(folder) ?? { folder, files: 0, seconds: 0 }
    shares.set(folder, { folder, files: share.files + 1, seconds: share.seconds + seconds })
  }
  const most = [...shares.values()].sort((a, b) => b.seconds - a.seconds).slice(0, TOLD)
  const slowest = files.sort((a, b) => b.seconds - a.seconds).slice(0, TOLD)
  const line = (seconds: number, what: string) => `${seconds.toFixed(0).padStart(6)} s  ${what}\n`
  return [
    `${line(
      files.reduce((sum, { seconds }) => sum + seconds, 0),
      `all ${files.length} files, one after the other`,
    )}`,
    ...most.map(({ folder, files, seconds }) => line(seconds, `${folder} (${files})`)),
    ...slowest.map(({ file, seconds }) => line(seconds, file)),
    '\n',
  ].join('')
}
