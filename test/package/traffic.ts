/** Numbered datagrams from one namespace to addresses that answer each; what stays without an answer is counted. */
import type { ChildProcess } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import type { Netns } from '../netns.ts'

/** An answer may take so long on a machine under load. */
const PATIENCE_MS = 3000

const ECHO = `const [port] = process.argv.slice(1)
const socket = require('node:dgram').createSocket('udp4')
socket.on('message', (bytes, { port, address }) => socket.send(bytes, port, address))
socket.bind(Number(port), () => console.log('listening'))`

const PROBE = `const [host, port, patience] = process.argv.slice(1)
const socket = require('node:dgram').createSocket('udp4')
let sent = 0, answered = 0
const open = new Map()
socket.on('message', (bytes) => { if (open.delete(Number(bytes))) answered++ })
socket.connect(Number(port), host, () => {
  console.log('probing')
  const clock = setInterval(() => { open.set(sent, 1); socket.send(String(sent++), () => {}) }, 2)
  process.stdin.once('data', () => {
    clearInterval(clock)
    setTimeout(() => { console.log(JSON.stringify({ sent, answered })); process.exit(0) }, Number(patience))
  })
})
socket.on('error', () => {})`

export interface Probe {
  /** Ends it and tells what it has seen. */
  end(): Promise<{ sent: number; answered: number }>
}

/** Answers every datagram to `port` in `ns`, until the test ends. */
export async function echo(ns: Netns, port: number): Promise<void> {
  await lines(ns.spawn(process.execPath, ['-e', ECHO, String(port)])).next()
}

/** 500 datagrams a second from one socket, so all of them are one connection. */
export async function probe(ns: Netns, host: string, port: number): Promise<Probe> {
  const args = ['-e', PROBE, host, String(port), String(PATIENCE_MS)]
  const child = ns.spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
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
