/* Direct server return: a backend gets the packet as it is, by its MAC address, or in another IP packet (RFC 2003, 2473). */
#pragma once

#include "lb_maps.h"
#include "lb_parse.h"
#include "lb_reply.h"

/* Puts a packet into one to the backend. Not 0: it cannot be. */
__noinline int lb_wrap4(struct __sk_buff *skb, struct lb_backend *b)
{
	struct lb_ip4 outer = {.version_length = 0x45, .ttl = 64, .protocol = LB_PROTOCOL_IPIP};
	__u32 length = skb->len - LB_ETHERNET + sizeof(outer);
	__u64 flags = BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;

	if (!b || bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC, flags))
		return -1;
	outer.length = bpf_htons(length);
	outer.source = b->own[0];
	outer.dest = b->address[0];
	outer.check = ~lb_sum16(bpf_csum_diff(0, 0, (void *)&outer, sizeof(outer), 0));
	return bpf_skb_store_bytes(skb, LB_ETHERNET, &outer, sizeof(outer), 0);
}

__noinline int lb_wrap6(struct __sk_buff *skb, struct lb_backend *b)
{
	struct lb_ip6 outer = {.flow = bpf_htonl(6U << 28), .next = LB_PROTOCOL_IPV6, .hops = 64};
	__u32 length = skb->len - LB_ETHERNET;
	__u64 flags = BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;

	if (!b || bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC, flags))
		return -1;
	outer.length = bpf_htons(length);
	__builtin_memcpy(outer.source, b->own, 16);
	__builtin_memcpy(outer.dest, b->address, 16);
	return bpf_skb_store_bytes(skb, LB_ETHERNET, &outer, sizeof(outer), 0);
}
