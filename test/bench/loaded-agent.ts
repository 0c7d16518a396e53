/**
 * The agent, which tells how long its event loop stood still and can be filled: run it as `main` of startAgent. On SIGUSR2 it logs
 * the longest stall since the last time; POST /control/v1/load {allocations} allocates so many addresses in pools of a /16.
 */
import { type AreaContext, defineArea } from '../../core/area.ts'
import { openLog } from '../../core/observe/log.ts'
import { system } from '../../core/state/events.ts'
import { allocate } from '../../plugins/ipam/offers.ts'
import { serveAgent } from '../agent-with.ts'
import { watchStalls } from './stall.ts'

const BATCH = 500
const given: { context?: AreaContext } = {}
const load = defineArea(import.meta.url, {
  name: 'load',
  prefixes: ['/load'],
  needs: ['ipam'],
  routes() {},
  async start(context) {
    given.context = context
    return async () => {}
  },
  control(app) {
    app.post('/', async (request) => {
      const { pool, allocations } = request.body as { pool: number; allocations: number }
      for (let at = 0; at < allocations; at += BATCH) {
        await given.context?.mutate(system('bench'), (tx) => {
          for (let n = 0; n < BATCH; n++) {
            allocate(tx, { pool, label: () => ({ hostname: `h${at + n}`, owner: '' }) })
          }
          return { result: undefined, touch: [], events: [] }
        })
      }
      return { status: 'loaded' }
    })
  },
})

const log = openLog('info')
let end = watchStalls()
process.on('SIGUSR2', async () => {
  log.info({ longest: await end() }, 'stalls')
  end = watchStalls()
})
await serveAgent({ extraAreas: [load] })
