/** What becomes of a packet of a test's own: the programs, over the maps of a load balancer, without a wire. */
import type { Scope } from '../../../../test/netns.ts'
import { openObject } from '../../object.ts'
import { ethernet, TYPE } from '../../port/test/packet.ts'
import { ifindex, run } from '../../test/support.ts'
import { runProgram } from '../../test_run.ts'
import { BALANCER_OBJECT, pinsOf } from '../open.ts'

const VERDICTS: Record<number, string> = { 4294967295: 'pass', 2: 'drop', 7: 'redirect' }
/** Who sends unless a test says otherwise. */
const SENDER = '02:00:00:00:00:99'
const macOf = (name: string) => /link\/ether (\S+)/.exec(run('ip', 'link', 'show', 'dev', name))?.[1] ?? ''

export interface Played {
  /** pass (to the stack), drop, redirect, or another number. */
  verdict: string
  /** The frame afterwards, and what is in it. */
  data: Buffer
  packet: Buffer
}

export type Play = (
  device: 'up0' | 'br-work',
  packet: Buffer,
  tags?: { vid: number }[],
  mac?: string,
) => Promise<Played>

/** Answers what becomes of an IP packet that comes in by a device. */
export async function player(t: Scope, root: string): Promise<Play> {
  const macs = { up0: macOf('up0'), 'br-work': macOf('br-work') }
  const object = openObject(BALANCER_OBJECT, pinsOf(root))
  await object.load()
  t.teardown(() => object.close())
  return async (device, packet, tags = [], mac = SENDER) => {
    const type = (packet[0] ?? 0) >> 4 === 6 ? TYPE.ipv6 : TYPE.ipv4
    const context = Buffer.alloc(192)
    context.writeUInt32LE(ifindex(device), 40)
    const data = ethernet(macs[device], mac, type, packet, tags)
    const { retval, dataOut } = await runProgram(object.program('lb_in').fd, { data, ctx: context })
    return { verdict: VERDICTS[retval] ?? String(retval), data: dataOut, packet: dataOut.subarray(14) }
  }
}
