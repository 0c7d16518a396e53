/**
 * The agent as a member of a cluster of which nobody else is there: run it as `main` of startAgent. It is called `n1`, all
 * that it changes is taken, and POST /control/v1/mates {changes: [{collection, before?, after?}]} is what others change.
 */
import { type AreaContext, defineArea } from '../core/area.ts'
import { applyRows, type Row, type RowChange } from '../core/replication.ts'
import { system } from '../core/state/events.ts'
import { serveAgent } from './agent-with.ts'

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

await serveAgent({ extraAreas: [area] })
