/*
 * Ports of br-work that lead off the node: nets travel there under their tag, and the rest as it is. An overlay carries
 * a single net, or what belongs to none, without tag.
 */
#pragma once

#include "flow.h"
#include "forward.h"
#include "tenant.h"
#include "vlan.h"

/* Verdict for a frame from off the node. `net` is the port's own: not 0 for one that carries a single net untagged. */
static __always_inline int uplink_ingress(struct __sk_buff *skb, __u32 net, __u32 kind)
{
	__u32 reason, of_tag = 0, ifindex = skb->ifindex;
	struct frame f = {};

	reason = parse_link(skb, &f);
	if (!reason && (f.source == 0 || is_multicast(f.source)))
		reason = STRATUM_DROP_SOURCE_MAC;
	/* By an overlay nobody gets into a net through its tag. */
	if (!reason)
		reason = kind & STRATUM_PORT_OVERLAY ? judge_vlans(&f) : judge_uplink_vlans(&f, &of_tag);
	if (reason)
		return drop(reason);
	if (net == 0 && of_tag) {
		if (bpf_skb_vlan_pop(skb))
			return drop(STRATUM_DROP_KERNEL);
		net = of_tag;
		/* The kernel lays the second tag, if there is one, beside the frame. */
		f.at = ETHERNET_HEADER;
	}
	if (is_blocked(net))
		return drop(STRATUM_DROP_TENANT_BLOCKED);
	skb->mark = STRATUM_STAMP | net;
	if (net) {
		learn_far(net, f.source, ifindex);
	} else if (kind & STRATUM_PORT_OVERLAY) {
		/* What belongs to none comes from open ports of other nodes. */
		reason = judge_outside(skb, &f);
		if (reason)
			return drop(reason);
	} else {
		heard_outside(f.source);
		skb->mark |= STRATUM_STAMP_OUTSIDE;
	}
	meet(skb, &f, net, MET_UPLINK);
	/* What belongs to none goes from one way off the node to no other. */
	return net ? forward(skb, &f, net, ifindex) : PASS;
}

/* True for what the node itself says to its neighbour on the wire by a socket on the port: LLDP, LACP, EAPOL. */
static __always_inline int is_own_word(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	return skb->mark == 0 && data + ETHERNET_HEADER <= end && is_reserved(mac_at(data));
}

/*
 * True for a frame from off the node that would leave it again, where one of the two ways is an overlay: behind both may
 * be the same nodes, which pass it on as well. The bridge and redirecting leave `ingress_ifindex` as it came.
 */
static __always_inline int is_transit(struct __sk_buff *skb, __u32 kind)
{
	__u32 net, from;

	return port_of(skb->ingress_ifindex, &net, &from) && from & STRATUM_PORT_UPLINK &&
	       (from | kind) & STRATUM_PORT_OVERLAY;
}

/* Verdict for a frame that leaves the node. */
static __always_inline int uplink_egress(struct __sk_buff *skb, __u32 own_net, __u32 kind)
{
	__u32 net = skb->mark & STRATUM_STAMP_NET, vid;
	struct net *row;

	if ((skb->mark & STRATUM_STAMP_MASK) != STRATUM_STAMP)
		return is_own_word(skb) ? PASS : drop(STRATUM_DROP_UNSTAMPED);
	if (is_transit(skb, kind))
		return drop(STRATUM_DROP_TRANSIT);
	if (is_blocked(net))
		return drop(STRATUM_DROP_TENANT_BLOCKED);
	if (net != own_net) {
		if (own_net || kind & STRATUM_PORT_OVERLAY)
			return drop(STRATUM_DROP_OTHER_NET);
		row = bpf_map_lookup_elem(&nets, &net);
		vid = row ? row->vlan : 0;
		if (vid == 0)
			return drop(STRATUM_DROP_NO_VLAN);
		if (vlan_policy(vid) & STRATUM_VLAN_LOCKED)
			return drop(STRATUM_DROP_VLAN_LOCKED);
		if (bpf_skb_vlan_push(skb, TYPE_VLAN, vid))
			return drop(STRATUM_DROP_KERNEL);
	}
	skb->mark = 0;
	return PASS;
}
