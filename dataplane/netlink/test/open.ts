import type { Netns, Scope } from '../../../test/netns.ts'
import { inNamespace } from '../../libc.ts'
import { type Netlink, openNetlink } from '../socket.ts'

/** A netlink socket inside a test's namespace, closed when the test ends. */
export function netlinkIn(t: Scope, ns: Netns, protocol: number): Netlink {
  const netlink = inNamespace(ns.path, () => openNetlink(protocol))
  t.teardown(() => netlink.close())
  return netlink
}
