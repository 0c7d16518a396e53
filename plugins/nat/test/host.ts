/** Machines that serve and ask. A server answers with the address it sees the asker at, so that translation shows. */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Netns } from '../../../test/netns.ts'

export type Protocol = 'tcp' | 'udp'

/** Each line that comes in is answered with `<address of the asker> <own name>`. */
const SERVER = `
const [, name, port] = process.argv
const seen = (address) => address.replace('::ffff:', '') + ' ' + name + '\\n'
const tcp = require('node:net').createServer((c) => c.on('error', () => {}).on('data', () => c.write(seen(c.remoteAddress))))
const bind = (type, next) => {
  const udp = require('node:dgram').createSocket({ type, ipv6Only: type === 'udp6' })
  udp.on('message', (_, { address, port: to }) => udp.send(seen(address), to, address)).bind(+port, next)
}
tcp.listen({ host: '::', port: +port }, () => bind('udp4', () => bind('udp6', () => console.log('serving'))))
`

/** A line in is said, a line out is what came back; ends with the connection. */
const CLIENT = `
const [, proto, host, port] = process.argv
const lines = require('node:readline').createInterface({ input: process.stdin })
if (proto === 'udp') {
  const udp = require('node:dgram').createSocket(host.includes(':') ? 'udp6' : 'udp4')
  udp.on('message', (text) => process.stdout.write(text)).on('error', () => {}).bind(() => console.log('open'))
  lines.on('line', (line) => udp.send(line, +port, host, () => {}))
} else {
  const tcp = require('node:net').connect(+port, host, () => console.log('open'))
  tcp.on('data', (text) => process.stdout.write(text)).on('error', () => {}).on('close', () => process.exit())
  lines.on('line', (line) => tcp.write(line + '\\n'))
}
lines.on('close', () => process.exit())
`

/** How long an answer, or a connection, may take; and how long silence is listened to. */
const PATIENCE_MS = 4000
const SILENCE_MS = 500

export interface Talk {
  /** What comes back within the time given, the next time that something is said; undefined when nothing does. */
  say(ms?: number): Promise<string | undefined>
  end(): void
}

/** Serves TCP and UDP of both families on `port`. */
export async function serve(ns: Netns, name: string, port: number): Promise<void> {
  const child = ns.spawn(process.execPath, ['-e', SERVER, name, String(port)])
  if (child.stdout === null) throw new TypeError('no stdout')
  await once(child.stdout, 'data')
}

/** A conversation; undefined when TCP does not connect in time. */
export async function open(
  ns: Netns,
  proto: Protocol,
  host: string,
  port: number,
  ms = PATIENCE_MS,
): Promise<Talk | undefined> {
  const child = ns.spawn(process.execPath, ['-e', CLIENT, proto, host, String(port)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new TypeError('both are pipes')
  stdin.on('error', () => {})
  const lines = createInterface({ input: stdout })
  let closed = false
  lines.once('close', () => {
    closed = true
  })
  // Not by AbortSignal.any: Node 20 may collect a timeout that nothing else refers to, and it never comes.
  const next = async (within: number) => {
    if (closed) return undefined
    const over = new AbortController()
    const end = () => over.abort()
    const timer = setTimeout(end, within)
    lines.once('close', end)
    try {
      return String((await once(lines, 'line', { signal: over.signal }))[0])
    } catch {
      return undefined
    } finally {
      clearTimeout(timer)
      lines.off('close', end)
    }
  }
  // Node itself takes its time to start; a refused connection ends the process at once.
  if ((await next(ms + 2000)) === undefined) {
    child.kill()
    return undefined
  }
  return {
    async say(within = PATIENCE_MS) {
      const answer = next(within)
      stdin.write('hello\n')
      return answer
    },
    end: () => void child.kill(),
  }
}

/** What a server answers to somebody new; undefined when nobody does. `silent`: that is expected, and not waited for long. */
export async function ask(
  ns: Netns,
  proto: Protocol,
  host: string,
  port: number,
  { silent = false } = {},
): Promise<string | undefined> {
  const talk = await open(ns, proto, host, port, silent ? SILENCE_MS : PATIENCE_MS)
  const answer = await talk?.say(silent ? SILENCE_MS : PATIENCE_MS)
  talk?.end()
  return answer
}

/** Whether nothing comes back any more, soon. */
export async function falls(talk: Talk): Promise<boolean> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    if ((await talk.say(SILENCE_MS)) === undefined) return true
  }
  return false
}
