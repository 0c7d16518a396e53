/** Loaded into the agent before its own program (`--import`): SIGUSR2 begins to watch its event loop, the next one tells the longest stall, in ms, on stderr. */
import { watchStalls } from './stall.ts'

let stop: (() => Promise<number>) | undefined
process.on('SIGUSR2', async () => {
  if (stop === undefined) stop = watchStalls()
  else process.stderr.write(`stall ${await stop()}\n`)
})
