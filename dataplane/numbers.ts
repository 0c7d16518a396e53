/**
 * Every number and name that stratum-node shares with the kernel, in one place.
 * `dataplane/bpf/src/numbers.h` is generated from this file, so C and TypeScript cannot disagree.
 */

/** rtnetlink route protocol that marks routes made by the agent (see /etc/iproute2/rt_protos). */
export const ROUTE_PROTOCOL = 201

/** The one nftables table of the agent; nothing outside it is ever written. */
export const NFT_FAMILY = 'inet'
export const NFT_TABLE = 'stratum'

/** Hook priority of the firewall: after conntrack (-200), before destination NAT (-100). */
export const FIREWALL_PRIORITY = -150

/** Layout version of pinned BPF objects: maps live below `<bpf dir>/v<N>`. */
export const BPF_LAYOUT = 1

/** Every interface that the agent creates begins with this, except the managed bridges and an operator's own names. */
export const LINK_PREFIX = 'st'

/** TCP ports of the three transports. */
export const REST_PORT = 7070
export const GRPC_PORT = 7071
export const EVENTS_PORT = 7072
