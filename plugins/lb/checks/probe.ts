/** One look at one backend, by its own address. */
import { request } from 'node:http'
import { connect } from 'node:net'

export interface Target {
  type: 'tcp' | 'http'
  address: string
  port: number
  /** Of http. */
  path: string
}

/** Resolves with what is wrong, undefined for nothing; `signal` ends the wait and what was opened for it. Never rejects. */
export type Probe = (target: Target, signal: AbortSignal) => Promise<string | undefined>

export const probe: Probe = (target, signal) =>
  target.type === 'tcp' ? connects(target, signal) : answers(target, signal)

function connects({ address: host, port }: Target, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, signal })
    // What goes wrong after the first word is nobody's concern, and must have a listener.
    socket.on('error', (error) => resolve(reasonOf(error, signal)))
    socket.once('connect', () => {
      resolve(undefined)
      socket.destroy()
    })
  })
}

/** A redirection is an answer, and is not followed. */
function answers({ address: host, port, path }: Target, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const asked = request({ host, port, path, signal, agent: false, headers: { 'user-agent': 'stratum-node' } })
    asked.on('error', (error) => resolve(reasonOf(error, signal)))
    asked.once('close', () => resolve('the connection ended without an answer'))
    asked.once('response', (response) => {
      const { statusCode = 0 } = response
      resolve(statusCode >= 200 && statusCode < 400 ? undefined : `status ${statusCode}`)
      // Of what follows nothing is wanted.
      response.on('error', () => {})
      asked.destroy()
    })
    asked.end()
  })
}

function reasonOf(error: NodeJS.ErrnoException, signal: AbortSignal): string {
  return signal.aborted ? 'no answer in time' : (error.code ?? 'failed')
}
