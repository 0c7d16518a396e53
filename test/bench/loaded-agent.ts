/**
 * The agent, which tells how long its event loop stood still and can be filled: run it as `main` of startAgent. On SIGUSR2 it logs
 * the longest stall since the last time; POST /control/v1/load {allocations} allocates so many addresses in pools of a /16.
 */
import { build } from '../../core/app.ts'
import { type AreaContext, defineArea } from '../../core/area.ts'
import { controlSocket, frrPlaces, placesFrom, responderSocket } from '../../core/environment.ts'
import { openLog } from '../../core/observe/log.ts'
import { system } from '../../core/state/events.ts'
import { listenControl } from '../../core/transport/listener.ts'
import { openKernel } from '../../dataplane/kernel.ts'
import { allocate } from '../../plugins/ipam/offers.ts'
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

const places = placesFrom(process.env)
const log = openLog('info')
let end = watchStalls()
process.on('SIGUSR2', async () => {
  log.info({ longest: await end() }, 'stalls')
  end = watchStalls()
})
const agent = await build({
  ...places,
  environment: process.env,
  log,
  openPlane: (options) =>
    openKernel({ ...options, bpfDir: places.bpfDir, responderSocket: responderSocket(places), frr: frrPlaces(places) }),
  extraAreas: [load],
})
await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
log.info('ready')
