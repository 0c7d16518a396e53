/** The agent with bridges and bonds alone, over netlink alone: run it as `main` of startAgent. */

import { serveAgent } from '../../../test/agent-with.ts'
import { netlinkPlane } from './netlink-plane.ts'

await serveAgent({ openPlane: netlinkPlane, only: ['node', 'l2'] })
