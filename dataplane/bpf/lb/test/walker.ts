/** Many clients at once: segments in a row, each from another client, run through the programs without a wire. */

import { bytes, u32 } from '../../codec.ts'
import { openObject } from '../../object.ts'
import { ethernet, ipv4, PROTOCOL, TYPE } from '../../port/test/packet.ts'
import { ifindex, objectPath, run } from '../../test/support.ts'
import { runProgram } from '../../test_run.ts'
import { BALANCER_OBJECT, pinsOf } from '../open.ts'
import { ticks } from '../sockets.ts'
import { segment } from './wire.ts'

export const SYN = 0x02
export const ACK = 0x10

export interface Wave {
  to: string
  protocol?: 'tcp' | 'udp'
  /** Of TCP. */
  flags?: number
  /** A power of 2; at most 2^24. */
  clients: number
  /** Which of the clients begins; the next wave of the same `turn` comes from the same ones. */
  turn?: number
  count: number
}

export interface Walker {
  /** Sends `count` packets, each of another client until all have had their turn; resolves to what became of the last. */
  send(wave: Wave): Promise<number>
  close(): void
}

/** `openings` a second and CPU are no flood; without it as many as there may be. */
export async function walker(root: string, device: string, openings = 0xffffffff): Promise<Walker> {
  const limit = Buffer.alloc(4)
  limit.writeUInt32LE(openings)
  const rodata = { lb_openings: limit, lb_hz: ticks() }
  const object = openObject(BALANCER_OBJECT, { ...pinsOf(root), rodata })
  await object.load()
  const walking = openObject(objectPath('walk'))
  await walking.load()
  walking.map('walked', u32, u32).set(0, object.program('lb_in').fd)
  const walks = walking.map('walks', u32, bytes(88))
  const mac = /link\/ether (\S+)/.exec(run('ip', 'link', 'show', 'dev', device))?.[1] ?? ''
  const ctx = Buffer.alloc(192)
  ctx.writeUInt32LE(ifindex(device), 40)
  return {
    async send({ to, protocol = 'tcp', flags = 0, clients, turn = 0, count }) {
      const packet = ipv4('198.18.0.1', to, PROTOCOL[protocol], segment(protocol, 1, 80, flags))
      const walk = Buffer.concat([ethernet(mac, '02:00:00:00:00:99', TYPE.ipv4, packet)], 88)
      // In struct walk of walk.bpf.c, behind the frame: slot, mask of the clients, where address and port stand, turn.
      for (const [n, value] of [0, clients - 1, 26, 34, turn].entries()) walk.writeUInt32LE(value, 64 + n * 4)
      walks.set(0, walk)
      const { retval } = await runProgram(walking.program('walk').fd, {
        data: walk.subarray(0, 64),
        ctx,
        repeat: count,
      })
      return retval
    },
    close() {
      walking.close()
      object.close()
    },
  }
}
