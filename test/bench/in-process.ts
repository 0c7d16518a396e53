/** The agent in the process of a bench, so that the longest stall of its event loop can be seen. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { Agent } from '../../core/agent.ts'
import { build } from '../../core/app.ts'
import { hashSecret } from '../../core/gates/bearer.ts'
import { openOverrides } from '../../core/state/overrides.ts'
import { openKernel } from '../../dataplane/kernel.ts'
import { TOKEN } from './agent.ts'

export interface InProcess {
  agent: Agent
  /** Where it keeps its state, and where it pins BPF objects. */
  dir: string
  bpfDir: string
  close(): Promise<void>
}

/** With a licence, the areas that are named, and the node's kernel. */
export async function inProcess(...only: string[]): Promise<InProcess> {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  const bpfDir = `/sys/fs/bpf/stratum-bench-${process.pid}`
  openOverrides(join(dir, 'overrides.json')).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
  })
  const agent = await build({
    stateDir: dir,
    configFile: join(dir, 'none.json'),
    environment: { STRATUM_API_RATE_LIMIT: '10000000', STRATUM_API_RATE_BURST: '1000000' },
    log: pino({ level: 'error' }),
    openPlane: (options) => openKernel({ ...options, bpfDir, responderSocket: join(dir, 'responder.sock') }),
    only: ['node', ...only],
    // Nothing beats by itself while it is measured.
    clock: () => performance.now(),
  })
  const close = async () => {
    await agent.close()
    for (const made of [dir, bpfDir]) rmSync(made, { recursive: true, force: true })
  }
  try {
    await agent.licence.evaluate()
  } catch (error) {
    await close()
    throw error
  }
  return { agent, dir, bpfDir, close }
}
