/** Keeps the program on the devices that there are, whoever makes and removes them. */
import { NETLINK_ROUTE } from '../../netlink/bind.ts'
import { listLinks, RTM_DELLINK, RTM_NEWLINK } from '../../netlink/link.ts'
import { openMonitor, RTNLGRP_LINK } from '../../netlink/monitor.ts'
import type { Netlink } from '../../netlink/socket.ts'
import { type BalancerLinks, balanced } from './links.ts'
import type { SocketLinks } from './sockets.ts'

export interface Follower {
  /** Brings everything to what there is now; resolves when that is done. @throws KernelError */
  sync(): Promise<void>
  /** Somebody may have taken off what is attached: that is looked at soon. */
  doubt(): void
  close(): Promise<void>
}

export interface FollowerParts {
  route: Netlink
  links: BalancerLinks
  sockets: SocketLinks
  /** Whether there are virtual addresses; without any the programs are nowhere. */
  needed(): boolean
  onProblem(error: unknown): void
}

export function followDevices({ route, links, sockets, needed, onProblem }: FollowerParts): Follower {
  /** What was done about the sockets last. */
  let hooked: boolean | undefined
  let lane: Promise<void> | undefined
  let [again, closed, doubtful] = [false, false, true]

  function bring(): Promise<void> {
    again = true
    lane ??= (async () => {
      while (again && !closed) {
        again = false
        const thorough = doubtful
        doubtful = false
        await links.bring(needed() ? balanced(await listLinks(route)) : [], thorough)
        if (thorough || hooked !== needed()) await sockets.bring(needed())
        hooked = needed()
      }
    })().finally(() => {
      lane = undefined
    })
    return lane
  }
  const soon = () => {
    if (!closed && needed()) bring().catch(onProblem)
  }
  const monitor = openMonitor({
    protocol: NETLINK_ROUTE,
    groups: [RTNLGRP_LINK],
    onMessage: ({ type }) => (type === RTM_NEWLINK || type === RTM_DELLINK) && soon(),
    onOverflow: soon,
    onError: onProblem,
  })
  return {
    sync() {
      doubtful = true
      return bring()
    },
    doubt() {
      doubtful = true
      soon()
    },
    async close() {
      closed = true
      monitor.close()
      await lane?.catch(() => {})
    },
  }
}
