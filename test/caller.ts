/** A client that asks the agent in a namespace over and over, and counts how it is answered. */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Netns } from './netns.ts'

/** Asks for the state 100 times a second on a new connection each, and as often on one that is kept; tells how that went at its end. */
const CALLER = `
const https = require('node:https')
const kept = new https.Agent({ keepAlive: true, maxSockets: 1 })
const told = { asked: 0, answered: 0, failed: [], longest: 0 }
let open = 0
const ask = (agent) => {
  const since = performance.now()
  told.asked++
  open++
  const done = (failure) => {
    open--
    if (failure) told.failed.push(failure)
    else told.answered++
    told.longest = Math.max(told.longest, performance.now() - since)
  }
  const headers = { authorization: 'Bearer ' + process.argv[1] }
  https.get('https://127.0.0.1:7070/api/v1/status', { agent, headers, rejectUnauthorized: false }, (answer) => {
    answer.resume().on('end', () => done(answer.statusCode === 200 ? undefined : String(answer.statusCode)))
  }).on('error', (error) => done(error.code ?? error.message))
}
const clock = setInterval(() => { ask(false); ask(kept) }, 10)
process.stdin.on('end', async () => {
  clearInterval(clock)
  while (open > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  console.log(JSON.stringify(told))
  process.exit()
}).resume()
console.log('asking')
`

export interface Told {
  asked: number
  answered: number
  /** Codes of errors and statuses other than 200. */
  failed: string[]
  /** ms */
  longest: number
}

/** Asks in `ns` from when this resolves until `end`. */
export async function caller(ns: Netns, token: string): Promise<{ end(): Promise<Told> }> {
  const child = ns.spawn(process.execPath, ['-e', CALLER, token], { stdio: ['pipe', 'pipe', 'inherit'] })
  if (child.stdout === null || child.stdin === null) throw new TypeError('no pipe')
  const { stdin } = child
  const lines = createInterface({ input: child.stdout })
  await once(lines, 'line')
  return {
    async end() {
      const said = once(lines, 'line')
      stdin.end()
      const [line] = await said
      return JSON.parse(line)
    },
  }
}
