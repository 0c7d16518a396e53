/**
 * The agent as a member of a cluster of which nobody else is there: run it as `main` of startAgent. It is called `n1`, all
 * that it changes is taken, and POST /control/v1/mates {changes: [{collection, before?, after?}]} is what others change.
 */
import { build } from '../core/app.ts'
import { type AreaContext, defineArea } from '../core/area.ts'
import { controlSocket, frrPlaces, placesFrom, responderSocket } from '../core/environment.ts'
import { openLog } from '../core/observe/log.ts'
import { applyRows, type Row, type RowChange } from '../core/replication.ts'
import { system } from '../core/state/events.ts'
import { listenControl } from '../core/transport/listener.ts'
import { openKernel } from '../dataplane/kernel.ts'

export interface Elsewhere {
  collection: string
  before?: Row
  after?: Row
}

const SELF = 'n1'
const given: { context?: AreaContext } = {}
const area = defineArea(import.meta.url, {
  name: 'mates',
  prefixes: ['/mates'],
  routes() {},
  control(app) {
    app.post('/', async (request) => {
      const { changes } = request.body as { changes: Elsewhere[] }
      await given.context?.adopt(system('n2'), async (tx) => {
        const theirs = changes.flatMap(({ collection: name, ...rest }): RowChange[] => {
          const collection = given.context?.collections.get(name)
          return collection ? [{ collection, ...rest }] : []
        })
        return { result: undefined, ...(await applyRows(tx, SELF, theirs)) }
      })
      return { status: 'adopted' }
    })
  },
  replicator(context) {
    given.context = context
    return { self: SELF, active: () => true, ready() {}, send: async () => {} }
  },
})

const places = placesFrom(process.env)
const log = openLog('info')
const agent = await build({
  ...places,
  environment: process.env,
  log,
  openPlane: (options) =>
    openKernel({ ...options, bpfDir: places.bpfDir, responderSocket: responderSocket(places), frr: frrPlaces(places) }),
  extraAreas: [area],
})
await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
log.info('ready')
