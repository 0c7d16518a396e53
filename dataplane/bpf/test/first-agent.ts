/**
 * Run by adopt.test.ts as a process of its own: `first-agent.js <pin directory> <ifindex>` loads the probe, attaches
 * and pins one link of each kind, and is then killed without any chance to tidy up.
 */
import { join } from 'node:path'
import { u32, u64 } from '../codec.ts'
import { attachNetfilter, attachTcx, attachXdp } from '../link.ts'
import { openObject } from '../object.ts'
import { objectPath } from './support.ts'

const [pinDir = '', index = ''] = process.argv.slice(2)
const probe = openObject(objectPath('probe'), { pinDir })
await probe.load()
probe.map('verdict', u32, u64).set(0, 1n)
const tcx = await attachTcx(probe.program('count_first'), Number(index), 'ingress')
const { link: xdp } = await attachXdp(probe.program('count_xdp'), Number(index), 'generic')
const place = { family: 'ipv4', hook: 'prerouting', priority: -150 } as const
const netfilter = await attachNetfilter(probe.program('judge'), place)
tcx.pin(join(pinDir, 'link_tcx'))
xdp.pin(join(pinDir, 'link_xdp'))
netfilter.pin(join(pinDir, 'link_netfilter'))
process.kill(process.pid, 'SIGKILL')
