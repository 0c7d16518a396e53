/** The process that answers DNS and DHCP outlives the agent, so a test that started an agent ends it. */
import { existsSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { findResponder } from '../dataplane/responder/session.ts'

const QUIET = { onLost() {}, onLeases() {}, onWaiting() {}, onProblem() {} }

/** Process id of the responder behind a control socket; undefined when none runs. Asking takes the connection from its agent. */
export async function responderPid(socket: string): Promise<number | undefined> {
  const session = await findResponder(socket, QUIET)
  session?.close()
  return session?.pid
}

/** Resolves when none runs there any more. */
export async function endResponder(socket: string): Promise<void> {
  const pid = await responderPid(socket)
  if (pid === undefined) return
  process.kill(pid, 'SIGKILL')
  while (existsSync(`/proc/${pid}`)) await wait(10)
}
