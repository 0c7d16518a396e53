/** What the shells themselves make of the completion. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scratch } from '../../../test/build.ts'
import { requireProgram } from '../../../test/required.ts'
import { completion, SHELLS } from '../completion.ts'
import { allVerbs } from '../table.ts'
import { ctlFor } from './control.ts'

const verbs = await allVerbs()

function shell(t: Test, name: string, args: readonly string[]): string[] {
  const env = { PATH: process.env.PATH, HOME: scratch(t, 'home') }
  const { status, stdout, stderr } = spawnSync(name, args, { encoding: 'utf8', env })
  t.same([status, stderr], [0, ''])
  return stdout.split('\n').filter((line) => line !== '')
}

function script(t: Test, name: (typeof SHELLS)[number]): string {
  const file = join(scratch(t, 'completion'), `stratumctl.${name}`)
  writeFileSync(file, completion(name, verbs))
  return file
}

const CASES: readonly (readonly [typed: string, wanted: readonly string[]])[] = [
  ['stratumctl netw', ['networks']],
  ['stratumctl rules sch', ['schedule']],
  ['stratumctl --json rules sch', ['schedule']],
  ['stratumctl rules add --dest-port', ['--dest-port', '--dest-port-max']],
  ['stratumctl rules set 12 --action ', ['accept', 'drop']],
  ['stratumctl service rest o', ['off', 'on']],
  ['stratumctl networks endpoints list net-1 --m', ['--mac']],
  ['stratumctl no-such-noun x', []],
]

const IN_BASH =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's own
  'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _stratumctl; printf "%s\\n" "${COMPREPLY[@]}"'
/** Outside of its line editor zsh has no completion system: what would be described to it is printed. */
const IN_ZSH =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's own
  'compdef() { :; }; _files() { :; }; _describe() { local -a all=("${(@P)4}"); print -l -- "${(@)all%%:*}"; }; source "$1"; shift; words=("$@"); CURRENT=${#words}; _stratumctl'

t.test('bash', async (t) => {
  const file = script(t, 'bash')
  for (const [typed, wanted] of CASES) {
    const words = typed.split(' ')
    const found = shell(t, 'bash', ['--norc', '-c', IN_BASH, 'bash', file, ...words])
    t.same(found, wanted, typed)
  }
})

t.test('zsh', async (t) => {
  if (!requireProgram(t, 'zsh')) return
  const file = script(t, 'zsh')
  for (const [typed, wanted] of CASES) {
    const words = typed.split(' ')
    const found = shell(t, 'zsh', ['-f', '-c', IN_ZSH, 'zsh', file, ...words])
    const last = words.at(-1) ?? ''
    t.same(
      found.filter((word) => word.startsWith(last)),
      wanted,
      typed,
    )
  }
})

t.test('fish', async (t) => {
  if (!requireProgram(t, 'fish')) return
  const file = script(t, 'fish')
  for (const [typed, wanted] of CASES) {
    const found = shell(t, 'fish', ['--no-config', '-c', 'source $argv[1]; complete -C $argv[2]', file, typed])
    const words = found.map((line) => line.split('\t')[0] ?? '')
    if (wanted.length > 0) t.same(words.sort(), wanted, typed)
  }
})

t.test('the command prints it', async (t) => {
  const ctl = ctlFor(verbs, '/nowhere')
  for (const name of SHELLS) t.same(await ctl(`completion ${name}`), { code: 0, out: completion(name, verbs), err: '' })
  t.match(await ctl('completion tcsh'), { code: 2 })
})
