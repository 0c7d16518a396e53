/**
 * What passes through a node while something befalls it, from one namespace to another: numbered datagrams that are answered
 * each, what stays without an answer being counted; connections whose bytes are told by their place, and come back.
 */
import type { ChildProcess } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import type { Netns } from '../netns.ts'

/** An answer may take so long on a machine under load. */
const PATIENCE_MS = 10_000

/** Their buffers are large: what a program that has to wait for the processor does not read in time is no loss of the node's. */
const ECHO = `const [port] = process.argv.slice(1)
const socket = require('node:dgram').createSocket({ type: 'udp4', recvBufferSize: 1 << 20 })
socket.on('message', (bytes, { port, address }) => socket.send(bytes, port, address))
socket.bind(Number(port), () => console.log('listening'))`

const PROBE = `const [host, port, patience] = process.argv.slice(1)
const socket = require('node:dgram').createSocket({ type: 'udp4', recvBufferSize: 1 << 20 })
let sent = 0, answered = 0
const open = new Map()
socket.on('message', (bytes) => { if (open.delete(Number(bytes))) answered++ })
socket.connect(Number(port), host, () => {
  console.log('probing')
  const clock = setInterval(() => { open.set(sent, 1); socket.send(String(sent++), () => {}) }, 5)
  process.stdin.once('data', () => {
    clearInterval(clock)
    const until = Date.now() + Number(patience)
    setInterval(() => {
      if (open.size > 0 && Date.now() < until) return
      console.log(JSON.stringify({ sent, answered }))
      process.exit(0)
    }, 20)
  })
})
socket.on('error', () => {})`

const ECHO_STREAM = `const [port] = process.argv.slice(1)
require('node:net').createServer((socket) => socket.pipe(socket).on('error', () => {})).listen(Number(port), () => console.log('listening'))`

/** Byte n of the stream is n mod 251. A machine under load lets the sender itself wait, so that is told beside the pauses. */
const STREAM = `const [host, port, patience] = process.argv.slice(1)
const socket = require('node:net').connect(Number(port), host)
const size = 100
let sent = 0, back = 0, wrong = 0, broken = null, last = 0, pause = 0, tick = 0, late = 0, ending = false
const tell = () => { console.log(JSON.stringify({ sent, back, wrong, broken, pause: Math.round(pause), late: Math.round(late) })); process.exit(0) }
socket.setNoDelay(true)
socket.on('error', (error) => { broken = error.code; if (ending) tell() })
socket.on('close', () => { broken ??= 'closed'; if (ending) tell() })
socket.on('data', (bytes) => {
  const now = performance.now()
  pause = Math.max(pause, now - last)
  last = now
  for (const byte of bytes) if (byte !== back++ % 251) wrong++
  if (ending && back === sent) tell()
})
socket.on('connect', () => {
  last = tick = performance.now()
  console.log('streaming')
  const clock = setInterval(() => {
    const now = performance.now()
    late = Math.max(late, now - tick)
    tick = now
    socket.write(Buffer.from(Array.from({ length: size }, () => sent++ % 251)))
  }, 10)
  process.stdin.once('data', () => {
    clearInterval(clock)
    ending = true
    if (broken !== null || back === sent) tell()
    setTimeout(tell, Number(patience))
  })
})`

/** Asks GET /health without pause; tells the longest time between two answers, ms. */
const ASK = `const https = require('node:https')
let last = performance.now(), longest = 0
const ask = () => {
  const request = https.get({ host: '127.0.0.1', port: 7070, path: '/api/v1/health', rejectUnauthorized: false, agent: false, timeout: 5000 }, (answer) => {
    answer.resume()
    answer.on('end', () => { const now = performance.now(); longest = Math.max(longest, now - last); last = now; setTimeout(ask, 20) })
  })
  request.on('timeout', () => request.destroy())
  request.on('error', () => setTimeout(ask, 20))
}
ask()
console.log('asking')
process.stdin.once('data', () => { console.log(JSON.stringify({ silent: Math.round(Math.max(longest, performance.now() - last)) })); process.exit(0) })`

export interface Probe {
  /** Ends it and tells what it has seen. */
  end(): Promise<{ sent: number; answered: number }>
}

/** What became of a connection: bytes sent and come back, those that were not the ones sent, the longest pause in ms. */
export interface Streamed {
  sent: number
  back: number
  wrong: number
  /** The error that ended it; null while it stands. */
  broken: string | null
  pause: number
  /** The longest time between two writes, ms: without any delay it is also the longest pause. */
  late: number
}

/** Answers every datagram to `port` in `ns`, and sends back what comes by a connection, until the test ends. */
export async function echo(ns: Netns, port: number): Promise<void> {
  for (const program of [ECHO, ECHO_STREAM])
    await lines(ns.spawn(process.execPath, ['-e', program, String(port)])).next()
}

/** 10,000 bytes a second by one connection, and back. */
export const stream = (ns: Netns, host: string, port: number): Promise<{ end(): Promise<Streamed> }> =>
  begun(ns, STREAM, host, String(port), String(PATIENCE_MS))

/** How long at most the API of the agent in `ns` gave no answer, until it is ended. */
export const asking = (ns: Netns): Promise<{ end(): Promise<{ silent: number }> }> => begun(ns, ASK)

/** 200 datagrams a second from one socket, so all of them are one connection. */
export const probe = (ns: Netns, host: string, port: number): Promise<Probe> =>
  begun(ns, PROBE, host, String(port), String(PATIENCE_MS))

/** A program that says when it has begun, ends at a word, and then tells what it has seen. */
async function begun<Seen>(ns: Netns, program: string, ...args: string[]): Promise<{ end(): Promise<Seen> }> {
  const child = ns.spawn(process.execPath, ['-e', program, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
  const said = lines(child)
  await said.next()
  return {
    async end() {
      child.stdin?.write('end\n')
      return JSON.parse((await said.next()).value ?? '{}')
    },
  }
}

function lines(child: ChildProcess): AsyncIterator<string> {
  if (child.stdout === null) throw new TypeError('the output must be piped')
  const reader: Interface = createInterface({ input: child.stdout })
  return reader[Symbol.asyncIterator]()
}
