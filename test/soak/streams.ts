/** Numbered datagrams between machines, one a stream every few milliseconds, and which of them came. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Netns } from '../netns.ts'

const EVERY_MS = 2
/** What was sent may be on its way for so long. */
const PATIENCE_MS = 10_000

/** Its buffer is large: what it does not read in time while it waits for the processor is no loss of the node's. */
const RECEIVER = `
const seen = new Set(); let doubled = 0
const socket = require('node:dgram').createSocket({ type: 'udp4', recvBufferSize: 1 << 20 })
socket.on('message', (m) => { const n = m.readUInt32LE(0); if (seen.has(n)) doubled++; seen.add(n) })
socket.bind(Number(process.argv[1]), () => console.log('listening'))
process.on('SIGUSR2', () => {
  const missing = []
  const last = Math.max(...[...seen].slice(-1000), -1)
  for (let n = 0; n < last && missing.length < 10_000; n++) if (!seen.has(n)) missing.push(n)
  console.log(JSON.stringify({ received: seen.size, doubled, missing }))
})
`
const SENDER = `
const [, address, port] = process.argv
const socket = require('node:dgram').createSocket('udp4')
let sent = 0
// The same source all the while: one flow to whatever keeps flows.
socket.bind(20000 + Number(port), () => {
  console.log('sending')
  const timer = setInterval(() => {
    const number = Buffer.alloc(4); number.writeUInt32LE(sent++)
    socket.send(number, Number(port), address)
  }, ${EVERY_MS})
  process.on('SIGUSR2', () => { clearInterval(timer); console.log(JSON.stringify({ sent })) })
  process.on('SIGHUP', () => console.log(JSON.stringify({ sent })))
})
`

export interface Counted {
  sent: number
  received: number
  doubled: number
}

export interface Stream {
  readonly name: string
  /** How many have been sent so far: the number of the next one. */
  sent(): Promise<number>
  /** Ends it; waits until all has come, a few seconds at most. `missing`: numbers of those that did not, before others that did. */
  end(): Promise<Counted & { missing: number[] }>
}

export interface Route {
  name: string
  from: Netns
  to: Netns
  /** Where it is sent to, and the port that the receiver listens on. */
  address: string
  port: number
  listen: number
}

export async function stream({ name, from, to, address, port, listen }: Route): Promise<Stream> {
  const receiver = to.spawn(process.execPath, ['-e', RECEIVER, String(listen)])
  const receives = teller(receiver)
  await receives()
  const sender = from.spawn(process.execPath, ['-e', SENDER, address, String(port)])
  const sends = teller(sender)
  await sends()
  return {
    name,
    async sent() {
      sender.kill('SIGHUP')
      return (JSON.parse(await sends()) as { sent: number }).sent
    },
    async end() {
      sender.kill('SIGUSR2')
      const { sent } = JSON.parse(await sends()) as { sent: number }
      const deadline = Date.now() + PATIENCE_MS
      for (;;) {
        receiver.kill('SIGUSR2')
        const { received, doubled, missing } = JSON.parse(await receives()) as Omit<Counted, 'sent'> & {
          missing: number[]
        }
        if (received >= sent || Date.now() > deadline) {
          await Promise.all([sender, receiver].map(killed))
          return { sent, received, doubled, missing }
        }
        await new Promise((wait) => setTimeout(wait, 20))
      }
    },
  }
}

async function killed(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

/** The next line that a process says. */
function teller({ stdout }: ChildProcess): () => Promise<string> {
  if (stdout === null) throw new TypeError('no stdout')
  const lines = createInterface({ input: stdout })
  const ended = once(lines, 'close').then(() => {
    throw new Error('a machine of a stream ended without a word')
  })
  ended.catch(() => {})
  return async () => String(((await Promise.race([once(lines, 'line'), ended])) as unknown[])[0])
}
