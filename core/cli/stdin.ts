import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { UsageError } from './verb.ts'

/** More than any secret or document that a command takes. */
const LIMIT = 1 << 20

/** Standard input as a whole without its last line end; one line that is not shown while typed, at a terminal. */
export async function readStdin(prompt: string): Promise<string> {
  return process.stdin.isTTY ? typed(prompt) : piped()
}

async function piped(): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of process.stdin) {
    size += chunk.length
    if (size > LIMIT) throw new UsageError('standard input is larger than 1 MiB')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/\r?\n$/, '')
}

async function typed(prompt: string): Promise<string> {
  process.stderr.write(`${prompt} (not shown): `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true })
  const aborted = new AbortController()
  lines.once('close', () => aborted.abort())
  try {
    return await lines.question('', { signal: aborted.signal })
  } catch (error) {
    throw new UsageError('nothing was entered', { cause: error })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}
