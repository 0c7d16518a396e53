/** Which assertions of a run failed, read from its TAP (version 14, as tap writes it). Pure. */

export interface Failure {
  /** From the file down to the assertion. */
  titles: string[]
  /** What tap says of it, without what stands in every one and without the source. */
  lines: string[]
}

/** Sections of the YAML block that do not tell why. */
const NOISE = new Set(['source', 'stdio', 'cwd', 'externalID', 'command', 'args', 'jobId'])

/**
 * The test points that failed and have none below them that did. A subtest stands before its own point and deeper than it,
 * behind a comment with its title; what fails and is marked as to do is no failure.
 */
export function failuresIn(tap: string): Failure[] {
  const found: Failure[] = []
  let subtests: { indent: number; title: string }[] = []
  /** Failures whose parent has not come yet. */
  let orphans: number[] = []
  const lines = tap.split('\n')
  for (let at = 0; at < lines.length; at++) {
    const [, space = '', point, title = ''] =
      /^( *)(# Subtest:|ok \d+|not ok \d+)(?: - | |$)(.*)$/.exec(lines[at] ?? '') ?? []
    if (point === undefined) continue
    const indent = space.length
    if (point === '# Subtest:') {
      subtests = [...subtests.filter((one) => one.indent < indent), { indent, title }]
      continue
    }
    const block = blockAt(lines, at + 1, indent)
    at += block.length
    const parent = orphans.some((one) => one > indent)
    orphans = orphans.filter((one) => one <= indent)
    if (point.startsWith('ok') || /# (TODO|SKIP)\b/i.test(title)) continue
    orphans.push(indent)
    if (parent) continue
    const above = subtests.flatMap((one) => (one.indent < indent ? one.title : []))
    found.push({ titles: [...above, title.replace(/ # time=\S+$/, '')], lines: telling(block, indent) })
  }
  return found
}

/** The YAML block of a test point, with its first and last line; empty where there is none. */
function blockAt(lines: readonly string[], from: number, indent: number): string[] {
  const margin = ' '.repeat(indent + 2)
  if (lines[from] !== `${margin}---`) return []
  const end = lines.indexOf(`${margin}...`, from)
  return lines.slice(from, end < 0 ? lines.length : end + 1)
}

function telling(block: readonly string[], indent: number): string[] {
  let noise = false
  return block.slice(1, -1).flatMap((line) => {
    const text = line.slice(indent + 2)
    const [, section] = /^([A-Za-z]\w*):/.exec(text) ?? []
    if (section !== undefined) noise = NOISE.has(section)
    return noise ? [] : text.trimEnd()
  })
}

/** For people: at most `mostLines` of each of the first `most`. '' where nothing failed. */
export function report(failures: readonly Failure[], most = 40, mostLines = 30): string {
  if (failures.length === 0) return ''
  const parts = failures.slice(0, most).map(({ titles, lines }) => {
    const rest = lines.length > mostLines ? ['...'] : []
    return [titles.join(' > '), ...[...lines.slice(0, mostLines), ...rest].map((line) => `    ${line}`)].join('\n')
  })
  const files = new Set(failures.map(({ titles }) => titles[0] ?? ''))
  const more = failures.length > most ? [`... and ${failures.length - most} more`] : []
  return [
    `${failures.length} failed:`,
    ...parts,
    ...more,
    `Failed in ${files.size} ${files.size === 1 ? 'file' : 'files'}:`,
    ...Array.from(files, (file) => `    ${file}`),
    '',
  ].join('\n')
}
