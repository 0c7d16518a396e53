/** Opens limits, pools and quotas: takes over what an earlier agent pinned, and joins the parts. */
import { mkdirSync } from 'node:fs'
import type { Attaching } from '../bpf/attach/attaching.ts'
import { onTrialDevice } from '../bpf/attach/trial.ts'
import { FOLDER } from '../bpf/bpffs.ts'
import type { Programs } from '../bpf/port/open.ts'
import { openRing } from '../bpf/ringbuf.ts'
import { NETLINK_ROUTE } from '../netlink/bind.ts'
import { RTM_DELLINK } from '../netlink/link.ts'
import { openMonitor, RTNLGRP_LINK, RTNLGRP_TC } from '../netlink/monitor.ts'
import { type Netlink, openNetlink } from '../netlink/socket.ts'
import { addHtb, putClass } from '../netlink/tc.ts'
import type { Driver } from '../plane.ts'
import { shapingDriver } from './driver.ts'
import type { QuotaEntry } from './entries.ts'
import { quotaEvent, shapingMaps } from './maps.ts'
import { Pairs, queueKind } from './pairs.ts'
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
  programs: Programs
  attaching: Attaching
  /** The area whose entries these are. */
  area: string
  onProblem(error: unknown): void
}

/** @throws Error that says what is missing; KernelError */
export async function openShaping(options: ShapingOptions): Promise<{ driver: Driver; shaping: Shaping }> {
  const { programs, attaching, area, onProblem } = options
  const maps = shapingMaps(programs.object)
  const quotas = new Quotas(maps.quotas, maps.clock)
  const netlink = openNetlink(NETLINK_ROUTE)
  try {
    await onTrialDevice(netlink, (ifindex) => tryQueues(netlink, ifindex))
  } catch (error) {
    await netlink.close()
    throw error
  }
  const kind = queueKind(programs)
  // What the agent leaves behind is the same whether or not there ever was a limit.
  mkdirSync(kind.dir, FOLDER)
  const pairs = new Pairs(netlink, programs.object, attaching.of(kind), kind.dir)
  let meddled = true
  const monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: [RTNLGRP_LINK, RTNLGRP_TC],
    onMessage({ type, port, payload }) {
      // struct ifinfomsg and struct tcmsg have the index at offset 4.
      const ifindex = payload.readInt32LE(4)
      if (!pairs.isOurs(ifindex)) return
      if (type === RTM_DELLINK) pairs.forget(ifindex)
      if (type === RTM_DELLINK || (TC_MESSAGES.has(type) && port !== netlink.port() && port !== attaching.port()))
        meddled = true
    },
    onOverflow() {
      pairs.forget()
      meddled = true
    },
    onError: onProblem,
  })
  const deaf = attaching.onChange((ifindex) => {
    if (ifindex !== undefined && !pairs.isOurs(ifindex)) return
    pairs.forget(ifindex)
    meddled = true
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
      deaf()
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

/** A class with its queue on a device that carries nothing. @throws Error that says what the kernel lacks */
async function tryQueues(netlink: Netlink, ifindex: number): Promise<void> {
  const trial = { minor: 1, parent: 0, rate: 1e6, ceil: 1e6, burst: 1e4, ceilBurst: 1e4, queue: 1e4 }
  const errors = await netlink.request([addHtb(ifindex), ...putClass(ifindex, trial)])
  const error = errors.find((it) => it !== undefined)
  if (error) throw new Error(`the kernel makes no queues for limits (sch_htb, sch_fifo): ${error.message}`)
}

/** RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWTCLASS, RTM_DELTCLASS */
const TC_MESSAGES: ReadonlySet<number> = new Set([36, 37, 40, 41])
