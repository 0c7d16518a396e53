import { completion, SHELLS, type Shell } from '../completion.ts'
import type { Verb } from '../verb.ts'

/** @param all asked for when it runs: this verb is one of them */
export const completionVerb = (all: () => readonly Verb[]): Verb => ({
  path: 'completion',
  summary: 'print the completion of command lines for a shell',
  example: 'completion bash > /usr/share/bash-completion/completions/stratumctl',
  arguments: [{ name: 'shell', summary: 'bash, zsh or fish', choices: SHELLS }],
  // The choices are those of the argument.
  run: async ({ argument, write }) => write(completion(argument('shell') as Shell, all())),
})
