/** Markdown as our READMEs use it → man(7) macros: headings, paragraphs, lists, tables, code, links. Pure. */

/** A line of text that no roff request can hide in. */
export const escaped = (text: string): string =>
  text
    .replaceAll('…', '...')
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replaceAll("'", '\\(aq')
    .replace(/[^\0-\x7f]/gu, (char) => `\\[u${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^\./, '\\&.')

/** Marks inside a paragraph: code and bold are bold, emphasis is italic, a link is its text. */
export function inline(markdown: string): string {
  const parts = markdown.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1').split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/)
  const text = parts.map((part) => {
    if (part.startsWith('`') && part.length > 2) return `\\fB${escaped(part.slice(1, -1)).replace(/^\\&/, '')}\\fR`
    if (part.startsWith('**')) return `\\fB${escaped(part.slice(2, -2))}\\fR`
    if (/^\*[^*\s]/.test(part) && part.length > 2) return `\\fI${escaped(part.slice(1, -1))}\\fR`
    return escaped(part).replace(/^\\&/, '')
  })
  return text.join('').replace(/^[.']/, '\\&$&')
}

export const code = (lines: readonly string[]): string[] => [
  '.PP',
  '.RS 4',
  '.nf',
  ...lines.map((line) => (line === '' ? '\\&' : escaped(line))),
  '.fi',
  '.RE',
]

/** `.TP` with its term and the rest of it. */
export const term = (name: string, text: string): string[] => ['.TP', name, text === '' ? '\\&' : text]

/** The first row is the heading: rows become terms, their further cells sentences that name the column. */
function table(lines: readonly string[]): string[] {
  const cells = lines.map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  const [head = [], , ...rows] = cells
  return rows.flatMap((row) => {
    // Method and path belong together.
    const split = head[0] === 'Method' ? 2 : 1
    const name = row.slice(0, split).join(' ')
    const rest = row.slice(split).flatMap((cell, at) => {
      const column = head[at + split] ?? ''
      return cell === '' ? [] : [at + split === row.length - 1 ? inline(cell) : `${inline(column)}: ${inline(cell)}.`]
    })
    return ['.TP', name === '' ? '\\&' : inline(name), ...(rest.length === 0 ? ['\\&'] : rest)]
  })
}

/** The body of a page. `#` is left out: it is the NAME; `##` are sections, all above it is DESCRIPTION. */
export function body(markdown: string): string[] {
  const out: string[] = ['.SH DESCRIPTION']
  const lines = markdown.split('\n')
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? ''
    const take = (belongs: (line: string) => boolean) => {
      const from = at
      while (at < lines.length && belongs(lines[at] ?? '')) at++
      return lines.slice(from, at)
    }
    if (line.startsWith('```')) {
      at++
      const block = take((it) => !it.startsWith('```'))
      at++
      out.push(...code(block))
    } else if (line.startsWith('|')) out.push(...table(take((it) => it.startsWith('|'))))
    else if (/^##+ /.test(line)) {
      at++
      const title = line.replace(/^#+ /, '')
      out.push(`${line.startsWith('### ') ? '.SS' : '.SH'} "${inline(title.toUpperCase()).replaceAll('"', '\\(dq')}"`)
    } else if (line.startsWith('# ')) at++
    else if (/^( *[-*] |\d+\. )/.test(line)) {
      at++
      const more = take((it) => /^ {2,}\S/.test(it) && !/^ *([-*]|\d+\.) /.test(it))
      const [, mark = '-', first = ''] = /^ *([-*]|\d+\.) (.*)$/.exec(line) ?? []
      const bullet = /\d/.test(mark) ? mark : '\\(bu'
      out.push(`.IP ${bullet} 4`, inline([first, ...more.map((it) => it.trim())].join(' ')))
    } else if (line.trim() === '') at++
    else {
      const text = take((it) => it.trim() !== '' && !/^(```|\||#|- |\d+\. )/.test(it))
      out.push('.PP', inline(text.join(' ')))
    }
  }
  // A heading makes its own distance.
  const tight = out.filter((line, at) => !(line === '.PP' && /^\.S[HS]/.test(out[at - 1] ?? '')))
  return tight.filter((line, at) => !(line.startsWith('.SH') && (tight[at + 1] ?? '.SH').startsWith('.SH')))
}
