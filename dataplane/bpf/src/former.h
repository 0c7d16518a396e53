/*
 * A client of DHCP whose MAC is bound no more: the node hears its request, to refuse it, and the port by which it came gets the answer.
 * Nothing else of such a MAC is admitted because of that, and its request reaches nobody but the node.
 */
#pragma once

#include "networks.h"

#define MAC_BROADCAST MAC_BITS

/* The MAC of the client that a DHCP message is about; 0 for one that is cut off, or that stands behind tags or IP options. */
static __always_inline __u64 client_of(struct __sk_buff *skb, const struct frame *f)
{
	__u64 client = 0;

	if (f->tags || f->fragment || f->payload != f->at + IPV4_HEADER)
		return 0;
	return bpf_skb_load_bytes(skb, f->payload + UDP_HEADER + DHCP_CHADDR, &client, 6) ? 0 : client;
}

/* The net of which somebody asks for its former lease; 0 for any other frame. */
static __noinline __u32 former_net(struct __sk_buff *skb, const struct frame *f)
{
	struct former *row;
	struct host *host;
	struct net *there;
	__u32 only = 0, net;

	if (f->ports != UDP_FROM_TO(DHCP_CLIENT, DHCP_SERVER))
		return 0;
	row = bpf_map_lookup_elem(&formers, &f->source);
	if (!row || (f->sender && f->sender != row->address))
		return 0;
	net = row->net;
	there = bpf_map_lookup_elem(&nets, &net);
	if (!there || !(there->flags & STRATUM_NET_DHCP) || (f->target != 0xffffffff && f->target != there->gateway))
		return 0;
	host = bpf_map_lookup_elem(&hosts, &only);
	if (!host || !host->ifindex || (f->destination != MAC_BROADCAST && f->destination != host->mac))
		return 0;
	return client_of(skb, f) == f->source ? net : 0;
}

/* The same for a frame that was refused for `reason`: 0 unless it is a request that only this was against. */
static __always_inline __u32 refused_former(struct __sk_buff *skb, const struct frame *f, __u32 net, __u32 reason)
{
	__u32 former;

	if (reason != STRATUM_DROP_PRIVATE_ADDRESS && reason != STRATUM_DROP_UNBOUND && reason != STRATUM_DROP_ADDRESS)
		return 0;
	former = former_net(skb, f);
	/* A net to which the MAC or its port belongs by now counts. */
	if (!former || (net && net != former))
		return 0;
	return reason == STRATUM_DROP_PRIVATE_ADDRESS && (judge_macbind(skb, f) || judge_outside(skb, f)) ? 0 : former;
}

/* ifindex of br-work, where the node takes the request of a client of `net`. */
static __always_inline __u32 to_node(struct __sk_buff *skb, const struct frame *f, __u32 net)
{
	__u32 only = 0, ifindex = skb->ifindex;
	struct host *host = bpf_map_lookup_elem(&hosts, &only);

	bpf_map_update_elem(&former_ports, &f->source, &ifindex, BPF_ANY);
	skb->mark = STRATUM_STAMP | net;
	return host ? host->ifindex : 0;
}

/* True for the node's answer to a client of net `net` that has asked by this port last. */
static __noinline int answers_former(struct __sk_buff *skb, __u32 net)
{
	struct frame f = {};
	struct former *row;
	__u32 *port;
	__u64 client;

	if (parse(skb, &f) || f.ports != UDP_FROM_TO(DHCP_SERVER, DHCP_CLIENT))
		return 0;
	client = client_of(skb, &f);
	row = bpf_map_lookup_elem(&formers, &client);
	port = bpf_map_lookup_elem(&former_ports, &client);
	return row && row->net == net && port && *port == skb->ifindex &&
	       (f.destination == MAC_BROADCAST || f.destination == client);
}
