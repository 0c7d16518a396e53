/** stratumctl: what an operator types on the node. Speaks to the agent over its control socket and to nothing else. */
import { once } from 'node:events'
import { controlSocket, placesFrom } from '../environment.ts'
import { openAsk, openClient, PATIENCE_MS } from './client.ts'
import { openLines } from './lines.ts'
import { textOn } from './output.ts'
import { run } from './program.ts'
import { progressOn } from './progress.ts'
import { openScreen } from './screen.ts'
import { readStdin } from './stdin.ts'
import { allVerbs } from './table.ts'

/** Carries out the command line of this process; its end sets the exit code. */
export async function main(): Promise<void> {
  // `stratumctl rules list | head` closes the pipe early, and that is fine.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(0)
  })

  const places = placesFrom(process.env)
  const socket = controlSocket(places)
  const progress = progressOn(process.stderr)
  let interruption: AbortController | undefined
  /** Until the first call Ctrl-C ends the process, as it does everywhere. */
  const interrupted = () => {
    if (interruption === undefined) {
      const controller = new AbortController()
      process.once('SIGINT', () => controller.abort())
      interruption = controller
    }
    return interruption.signal
  }

  // Not process.exit(): what is still on its way into a pipe would be lost.
  process.exitCode = await run(process.argv.slice(2), await allVerbs(), {
    call: openClient(socket, PATIENCE_MS, progress),
    ask: openAsk(socket, PATIENCE_MS, progress),
    lines: openLines(socket, interrupted),
    stdin: readStdin,
    out: textOn(process.stdout),
    async drained() {
      if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
    },
    err: textOn(process.stderr),
    places,
    screen: () => openScreen(process.stdin, process.stdout),
  })
}
