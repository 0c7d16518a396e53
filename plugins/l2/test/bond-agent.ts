/** The agent with bridges and bonds alone, over netlink alone: run it as `main` of startAgent. */
import { build } from '../../../core/app.ts'
import { controlSocket, placesFrom } from '../../../core/environment.ts'
import { openLog } from '../../../core/observe/log.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import { netlinkPlane } from './netlink-plane.ts'

const places = placesFrom(process.env)
const log = openLog('info')
const agent = await build({
  ...places,
  environment: process.env,
  log,
  openPlane: netlinkPlane,
  only: ['node', 'l2'],
})
await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
log.info('ready')
