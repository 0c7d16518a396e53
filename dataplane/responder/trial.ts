/** Whether a responder works on this node: one is started, told to serve an address of the loopback, and ended. */
import { rmSync } from 'node:fs'
import { dnsListener } from './entries.ts'
import { TRIAL } from './protocol.ts'
import { startResponder } from './session.ts'

const DEAF = { onLost() {}, onLeases() {}, onWaiting() {}, onProblem() {} }
/** At ports that the kernel chooses. */
const LISTENER = dnsListener('trial', { address: '127.0.0.1', port: 0 })

/** `path`: of the control socket that the responder itself will have. Rejects with a sentence for the operator. */
export async function tryResponder(path: string): Promise<void> {
  const own = `${path}.trial`
  try {
    const session = await startResponder(own, DEAF, TRIAL)
    try {
      await session.ask({ do: 'stage', passages: [{ after: LISTENER }] })
      await session.ask({ do: 'commit', patient: false })
      await session.ask({ do: 'stop' })
    } finally {
      session.close()
    }
  } finally {
    rmSync(own, { force: true })
  }
}
