/** Opens limits, pools and quotas: takes over what an earlier agent pinned, and joins the parts. */
import type { BpfObject } from '../bpf/object.ts'
import { openRing } from '../bpf/ringbuf.ts'
import { NETLINK_ROUTE } from '../netlink/bind.ts'
import { RTM_DELLINK } from '../netlink/link.ts'
import { openMonitor, RTNLGRP_LINK, RTNLGRP_TC } from '../netlink/monitor.ts'
import { openNetlink } from '../netlink/socket.ts'
import type { Driver } from '../plane.ts'
import { shapingDriver } from './driver.ts'
import type { QuotaEntry } from './entries.ts'
import { quotaEvent, shapingMaps } from './maps.ts'
import { Pairs } from './pairs.ts'
import { Queues } from './queues.ts'
import { monthOf, Quotas, type Usage } from './quotas.ts'

/** What the programs have counted, and when they say so. */
export interface Shaping {
  /** What was used of a quota; undefined when the kernel does not have it. */
  usage(quota: Pick<QuotaEntry, 'slot' | 'number'>): Usage | undefined
  /** Tells the programs which month it is. To be called now and then: clocks are set. */
  setMonth(now: Date): void
  /** Calls `listener` when some quota came near its limit or reached it; returns how to stop that. */
  onQuota(listener: () => void): () => void
}

/** Programs that are not loaded: nothing is counted. */
export const NO_SHAPING: Shaping = { usage: () => undefined, setMonth: () => {}, onQuota: () => () => {} }

export interface ShapingOptions {
  /** The programs of br-work. */
  programs: { object: BpfObject; dir: string }
  /** The area whose entries these are. */
  area: string
  onProblem(error: unknown): void
}

/** @throws Error that says what is missing; KernelError */
export async function openShaping(options: ShapingOptions): Promise<{ driver: Driver; shaping: Shaping }> {
  const { programs, area, onProblem } = options
  const maps = shapingMaps(programs.object)
  const quotas = new Quotas(maps.quotas, maps.clock)
  const netlink = openNetlink(NETLINK_ROUTE)
  const pairs = new Pairs(netlink, programs)
  let meddled = true
  const monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: [RTNLGRP_LINK, RTNLGRP_TC],
    onMessage({ type, port, payload }) {
      // struct ifinfomsg and struct tcmsg have the index at offset 4.
      const ifindex = payload.readInt32LE(4)
      if (!pairs.isOurs(ifindex)) return
      if (type === RTM_DELLINK) pairs.forget(ifindex)
      if (type === RTM_DELLINK || (TC_MESSAGES.has(type) && port !== netlink.port())) meddled = true
    },
    onOverflow() {
      pairs.forget()
      meddled = true
    },
    onError: onProblem,
  })
  const listeners = new Set<() => void>()
  const ring = openRing(maps.events, (record) => {
    quotaEvent.decode(record, 0)
    for (const listener of listeners) listener()
  })
  const setMonth = (now: Date) => {
    const { month, end } = monthOf(now)
    quotas.setMonth(month, process.hrtime.bigint() + BigInt(end.getTime() - now.getTime()) * 1_000_000n)
  }
  setMonth(new Date())
  const driver = shapingDriver({
    maps,
    pairs,
    queues: new Queues(netlink, pairs),
    quotas,
    area,
    listen: () => monitor.drain(),
    changedByOthers: () => meddled,
    settled() {
      meddled = false
    },
    async close() {
      ring.close()
      monitor.close()
      await netlink.close()
      quotas.close()
    },
  })
  return {
    driver,
    shaping: {
      usage: (quota) => quotas.usage(quota),
      setMonth,
      onQuota(listener) {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
    },
  }
}

/** RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWTCLASS, RTM_DELTCLASS */
const TC_MESSAGES: ReadonlySet<number> = new Set([36, 37, 40, 41])
