/* The node's own leg on br-work: what of a net may reach the node, and to which net belongs what the node sends. */
#pragma once

#include "flow.h"
#include "forward.h"
#include "vlan.h"

/* 169.254.0.1: the next hop of machines with a routed address. */
#define ROUTED_GATEWAY bpf_htonl(0xa9fe0001)

/* Net and STAMP_ROUTED of an address that the node reaches in a net; 0 for any other. */
static __always_inline __u32 host_range(__u32 address)
{
	struct prefix key = {32, address};
	__u32 *net = bpf_map_lookup_elem(&host_ranges, &key);

	return net ? *net : 0;
}

/* NET_* of a net, and its gateway. */
static __always_inline __u32 net_flags(__u32 net, __u32 *gateway)
{
	struct net *row;

	if (net >= STRATUM_ROUTED_NET_BASE)
		return STRATUM_NET_ROUTED;
	row = bpf_map_lookup_elem(&nets, &net);
	if (!row)
		return 0;
	*gateway = row->gateway;
	return row->flags;
}

/* True when a frame of a net is for the node. */
static __always_inline int is_for_host(const struct frame *f, __u32 net, __u32 mark)
{
	__u32 gateway = 0, flags = net_flags(net, &gateway);

	if (f->tags)
		return 0;
	if (f->type == TYPE_ARP)
		return (flags & STRATUM_NET_HOST_GATEWAY && f->target == gateway) ||
		       (flags & STRATUM_NET_ROUTED && f->target == ROUTED_GATEWAY);
	if (f->type != TYPE_IPV4)
		return 0;
	return flags & STRATUM_NET_HOST_GATEWAY || (flags & STRATUM_NET_ROUTED && mark & STRATUM_STAMP_ROUTED);
}

/* What an open port says by IPv6 and the node does not hear: a router's words, DHCPv6 answers, and what may hide them. */
static __noinline __u32 judge_open6(struct __sk_buff *skb, __u32 at)
{
	__u32 next = 0;
	__u16 ports[2];
	__u8 byte = 0;

	if (bpf_skb_load_bytes(skb, at + 6, &byte, 1))
		return STRATUM_DROP_SHORT;
	next = byte;
	at += IPV6_HEADER;
	if (skip_extensions(skb, &at, &next))
		return STRATUM_DROP_SHORT;
	if (is_extension(next) || next == FRAGMENT || next == AUTHENTICATION)
		return STRATUM_DROP_IPV6_HIDDEN;
	if (next == PROTOCOL_ICMPV6) {
		if (bpf_skb_load_bytes(skb, at, &byte, 1))
			return STRATUM_DROP_SHORT;
		return byte == ROUTER_ADVERTISEMENT || byte == REDIRECT ? STRATUM_DROP_IPV6_ROUTER : 0;
	}
	if (next != PROTOCOL_UDP)
		return 0;
	if (bpf_skb_load_bytes(skb, at, ports, sizeof(ports)))
		return STRATUM_DROP_SHORT;
	return ports[1] == bpf_htons(DHCPV6_CLIENT) ? STRATUM_DROP_IPV6_ROUTER : 0;
}

/* 0 or the reason against a frame of an open port, or of one of another node, that is for the node: nobody vouches for it. */
static __always_inline __u32 judge_open(struct __sk_buff *skb, const struct frame *f)
{
	__u32 range;

	if (setting(STRATUM_SETTING_CLOSED))
		return STRATUM_DROP_OPEN_PORT;
	if (f->type == TYPE_IPV6)
		return judge_open6(skb, f->at);
	if (UDP_TO(f->ports) == DHCP_CLIENT)
		return STRATUM_DROP_DHCP_SERVER;
	/* Into a net nothing of it is routed; routed addresses are the world's. */
	range = f->target ? host_range(f->target) : 0;
	return range && !(range & STRATUM_STAMP_ROUTED) ? STRATUM_DROP_OPEN_PORT : 0;
}

/* Verdict for a frame that goes up to the node. */
static __always_inline int host_ingress(struct __sk_buff *skb)
{
	__u32 mark = skb->mark, net = mark & STRATUM_STAMP_NET, reason;
	struct frame f = {};

	if ((mark & STRATUM_STAMP_MASK) != STRATUM_STAMP)
		return drop(STRATUM_DROP_UNSTAMPED);
	reason = parse(skb, &f);
	if (net == 0) {
		reason = mark & STRATUM_STAMP_OUTSIDE ? 0 : judge_open(skb, &f);
		if (reason)
			return drop(reason);
		/* From off the node nobody speaks for an address that the node reaches in a net. VLAN 0 is none. */
		return (f.vids[0] | f.vids[1]) == 0 && f.sender && host_range(f.sender) ?
			       drop(STRATUM_DROP_PRIVATE_ADDRESS) :
			       PASS;
	}
	if (reason)
		return drop(reason);
	return is_for_host(&f, net, mark) ? PASS : drop(STRATUM_DROP_HOST);
}

/* The net of a packet by where it goes, or where that is everybody, by the gateway that it comes from. */
static __always_inline __u32 net_of_target(const struct frame *f)
{
	__u32 range;

	if (f->tags || (f->type != TYPE_IPV4 && f->type != TYPE_ARP))
		return 0;
	range = f->target ? host_range(f->target) : 0;
	/* 224.0.0.0/3: multicast, and the broadcast of the link. */
	if (range == 0 && f->sender && (f->target == 0 || (f->target & 0xe0) == 0xe0))
		range = host_range(f->sender);
	return range;
}

/* Verdict for a frame that the node sends or routes into br-work. */
static __always_inline int host_egress(struct __sk_buff *skb)
{
	__u32 mark = skb->mark, from = 0, range, net, reason;
	struct frame f = {};

	reason = parse(skb, &f);
	if (reason == STRATUM_DROP_TAGS)
		return drop(reason);
	reason = judge_vlans(&f);
	if (reason)
		return drop(reason);
	range = net_of_target(&f);
	net = range & STRATUM_STAMP_NET;
	if ((mark & STRATUM_STAMP_MASK) == STRATUM_STAMP)
		from = mark & STRATUM_STAMP_NET;
	/* The node routes for nets, not between them; routed addresses are the world's. */
	if (from && net && from != net && !(range & mark & STRATUM_STAMP_ROUTED))
		return drop(STRATUM_DROP_HOST_ROUTING);
	skb->mark = STRATUM_STAMP | net;
	/* What the node routes back into br-work was met where it came in. */
	if (skb->ingress_ifindex != skb->ifindex)
		meet(skb, &f, net, MET_NODE);
	return forward(skb, &f, net, skb->ifindex);
}
