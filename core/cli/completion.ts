/** Completion of command lines for three shells, as text made from the verbs. Nothing is asked of the agent. */
import type { Verb } from './verb.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

interface Word {
  word: string
  summary: string
}
/** What may follow a beginning: `''`, `rules`, `rules add`, and behind an option that has choices `rules add --action`. */
type Follows = ReadonlyMap<string, readonly Word[]>

const EVERYWHERE: readonly Word[] = [
  { word: '--json', summary: 'print the answer as JSON' },
  { word: '--help', summary: 'explain the command' },
]

/** A script to be sourced by that shell. Pure. */
export function completion(shell: Shell, verbs: readonly Verb[]): string {
  return { bash, zsh, fish }[shell](followsOf(verbs))
}

export function followsOf(verbs: readonly Verb[]): Follows {
  const follows = new Map<string, Map<string, string>>()
  const add = (beginning: string, { word, summary }: Word) => {
    const words = follows.get(beginning) ?? new Map<string, string>()
    follows.set(beginning, words.set(word, words.get(word) || summary))
  }
  for (const { path, summary, arguments: own = [], options = [] } of verbs) {
    const words = path.split(' ')
    for (const [at, word] of words.entries()) {
      add(words.slice(0, at).join(' '), { word, summary: at === words.length - 1 ? summary : '' })
    }
    for (const word of own[0]?.choices ?? []) add(path, { word, summary: own[0]?.summary ?? '' })
    for (const { flags, summary } of options) {
      const [word = '', placeholder = ''] = flags.split(' ')
      add(path, { word, summary })
      const choices = /^<([\w|-]+\|[\w|-]+)>$/.exec(placeholder)?.[1] ?? ''
      for (const choice of choices.split('|').filter(Boolean)) add(`${path} ${word}`, { word: choice, summary: '' })
    }
    for (const word of EVERYWHERE) add(path, word)
  }
  const sorted = [...follows].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(
    sorted.map(([beginning, words]) => {
      const list = Array.from(words, ([word, summary]) => ({ word, summary }))
      return [beginning, list.sort((a, b) => (a.word < b.word ? -1 : 1))]
    }),
  )
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const fishQuoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** The longest beginning of what was typed that is a command, then what may follow it. */
function bash(follows: Follows): string {
  const arms = Array.from(
    follows,
    ([at, words]) => `  ${quoted(at)}) REPLY=${quoted(words.map((it) => it.word).join(' '))} ;;`,
  )
  return `# bash completion of stratumctl, made by: stratumctl completion bash
_stratumctl_follows() {
  case $1 in
${arms.join('\n')}
  *) return 1 ;;
  esac
}
_stratumctl() {
  local at= word i REPLY=
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [[ $word != -* ]] && _stratumctl_follows "\${at:+$at }$word"; then at="\${at:+$at }$word"; fi
  done
  word=\${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $word != -* ]] || ! _stratumctl_follows "$at $word"; then _stratumctl_follows "$at"; fi
  COMPREPLY=($(compgen -W "$REPLY" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stratumctl stratumctl
`
}

function zsh(follows: Follows): string {
  const entry = ({ word, summary }: Word) =>
    quoted(`${word.replaceAll(':', '\\:')}${summary === '' ? '' : `:${summary}`}`)
  const arms = Array.from(follows, ([at, words]) => `  ${quoted(at)}) reply=(${words.map(entry).join(' ')}) ;;`)
  return `#compdef stratumctl
# zsh completion of stratumctl, made by: stratumctl completion zsh
_stratumctl_follows() {
  case $1 in
${arms.join('\n')}
  *) return 1 ;;
  esac
}
_stratumctl() {
  local at= word i
  local -a reply
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    if [[ $word != -* ]] && _stratumctl_follows "\${at:+$at }$word"; then at="\${at:+$at }$word"; fi
  done
  word=$words[CURRENT-1]
  if [[ $word != -* ]] || ! _stratumctl_follows "$at $word"; then _stratumctl_follows "$at"; fi
  _describe -t commands stratumctl reply || _files
}
if [[ $funcstack[1] == _stratumctl ]]; then _stratumctl "$@"; else compdef _stratumctl stratumctl; fi
`
}

function fish(follows: Follows): string {
  const known = [...follows.keys()].filter((at) => at !== '')
  const lines = Array.from(follows).flatMap(([at, words]) =>
    words.map(({ word, summary }) => {
      const what = summary === '' ? '' : ` -d ${fishQuoted(summary)}`
      // Behind an option that has choices a file is none of them.
      const only = at.split(' ').at(-1)?.startsWith('-') ? ' -f' : ''
      return `complete -c stratumctl${only} -n ${fishQuoted(`__stratumctl_at ${fishQuoted(at)}`)} -a ${fishQuoted(word)}${what}`
    }),
  )
  return `# fish completion of stratumctl, made by: stratumctl completion fish
set -g __stratumctl_known ${known.map(fishQuoted).join(' ')}
function __stratumctl_at -a wanted
    set -l typed (commandline -opc)[2..-1]
    set -l at ''
    for word in $typed
        set -l next (string trim -- "$at $word")
        if contains -- $next $__stratumctl_known
            and not string match -q -- '-*' $word
            set at $next
        end
    end
    set -l last (string trim -- "$at $typed[-1]")
    if string match -q -- '-*' "$typed[-1]"
        and contains -- $last $__stratumctl_known
        set at $last
    end
    test "$at" = "$wanted"
end
${lines.join('\n')}
`
}
