/*
 * The way past the bridge. Its forwarding table is keyed by MAC alone, where two nets may hold the same MAC; and the
 * direct way is shorter.
 */
#pragma once

#include "networks.h"

/* A device that lets less through than this carries no IPv6 (RFC 8200 section 5). */
#define SMALLEST_MTU 1280

/* The bridge drops what is too long for a port, and so must who goes past it. Segmented frames are cut to fit. */
static __always_inline int fits(struct __sk_buff *skb, const struct frame *f, __u32 ifindex)
{
	__u32 mtu = 0;

	if (skb->gso_size || skb->len <= SMALLEST_MTU + ETHERNET_HEADER)
		return 1;
	return bpf_check_mtu(skb, ifindex, &mtu, ETHERNET_HEADER - (int)f->at, 0) == 0;
}

/*
 * ifindex of br-work for a packet to its MAC, else 0. The node gets it there and not by way of the bridge, where br_netfilter
 * would show it to the IP hooks as bridged: whatever these translate to another machine would then be bridged, too, past
 * source translation and never back to the port that it came by; and a default deny would drop what the load balancer has
 * not seen yet.
 */
static __always_inline __u32 own_leg(struct __sk_buff *skb, const struct frame *f, __u32 from)
{
	__u32 only = 0;
	struct host *host;

	if ((f->type != TYPE_IPV4 && f->type != TYPE_IPV6) || f->at != ETHERNET_HEADER || skb->vlan_present)
		return 0;
	host = bpf_map_lookup_elem(&hosts, &only);
	return host && host->mac == f->destination && host->ifindex != from ? host->ifindex : 0;
}

/* Verdict for a frame of no net: to the overlay of a peer that has the destination, or to the bridge. */
static __always_inline int forward_open(struct __sk_buff *skb, const struct frame *f)
{
	__u32 *overlay, to, net, kind;

	if (!setting(STRATUM_SETTING_PEERS))
		return PASS;
	overlay = bpf_map_lookup_elem(&peers, &f->destination);
	if (!overlay)
		return PASS;
	to = *overlay;
	if (!to || !port_of(to, &net, &kind) || net || !(kind & STRATUM_PORT_OVERLAY))
		return PASS;
	if (!fits(skb, f, to))
		return drop(STRATUM_DROP_TOO_LONG);
	return bpf_redirect(to, 0);
}

/* Verdict for a frame of a net that came in by `from`: to where its destination is, or to the bridge to flood it. */
static __always_inline int forward(struct __sk_buff *skb, const struct frame *f, __u32 net, __u32 from)
{
	struct endpoint *row;
	__u32 to, net_there, kind, leg;

	if (is_multicast(f->destination))
		return PASS;
	if (net == 0)
		return forward_open(skb, f);
	row = endpoint_of(net, f->destination);
	if (row) {
		to = row->home;
	} else {
		struct endpoint_key key = {net, f->destination, f->destination >> 32};
		__u32 *uplink = bpf_map_lookup_elem(&far, &key);

		to = uplink ? *uplink : 0;
	}
	if (to == 0) {
		leg = own_leg(skb, f, from);
		return leg ? bpf_redirect(leg, BPF_F_INGRESS) : PASS;
	}
	if (to == from)
		return drop(STRATUM_DROP_HAIRPIN);
	/* Guarded ports only: the one that it was may be gone, on another bridge, or an overlay of another net. */
	if (!port_of(to, &net_there, &kind) || ((row || kind & STRATUM_PORT_OVERLAY) && net_there != net))
		return PASS;
	if (!fits(skb, f, to))
		return drop(STRATUM_DROP_TOO_LONG);
	return bpf_redirect(to, 0);
}

/* Remembers behind which uplink the sender is. */
static __always_inline void learn_far(__u32 net, __u64 mac, __u32 ifindex)
{
	struct endpoint_key key = {net, mac, mac >> 32};
	__u32 *known = bpf_map_lookup_elem(&far, &key);

	if (!known || *known != ifindex)
		bpf_map_update_elem(&far, &key, &ifindex, BPF_ANY);
}
