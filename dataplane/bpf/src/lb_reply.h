/* What the load balancer answers itself: that nobody can serve a connection, that a packet is too long for its way. */
#pragma once

#include "lb_kernel.h"
#include "lb_maps.h"
#include "lb_parse.h"

static __always_inline __u32 lb_sum16(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u32 lb_sum64(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return lb_sum16((sum & 0xffffffff) + (sum >> 32));
}

/* Makes one change of 16-bit words known to an IPv4 header's checksum (RFC 1624, equation 3). */
static __always_inline void lb_recheck(__u16 *check, __u32 difference)
{
	*check = ~lb_sum16((__u16)~*check + difference);
}

/*
 * Whether the checksum at `at` is still to be completed by the device (CHECKSUM_PARTIAL): then a change that is not of
 * the pseudo header leaves it alone. Spoils it.
 */
static __always_inline int lb_is_partial(struct __sk_buff *skb, __u32 at)
{
	__u16 before = 0, after = 0;

	bpf_skb_load_bytes(skb, at, &before, 2);
	bpf_l4_csum_replace(skb, at, 0, 1, 0);
	bpf_skb_load_bytes(skb, at, &after, 2);
	return before == after;
}

/* The header of the answer to a segment of `length` bytes that belongs to no connection (RFC 9293, section 3.10.7.1). */
static __always_inline void lb_reset_header(struct lb_tcp *h, const struct lb_tcp *asked, __u32 length)
{
	h->source = asked->dest;
	h->dest = asked->source;
	h->offset = 5 << 4;
	h->flags = LB_RST;
	h->seq = asked->ack;
	if (asked->flags & LB_ACK)
		return;
	h->flags = LB_RST | LB_ACK;
	h->seq = 0;
	length += !!(asked->flags & LB_SYN) + (asked->flags & LB_FIN);
	h->ack = bpf_htonl(bpf_ntohl(asked->seq) + length);
}

static __always_inline void lb_turn_link(struct lb_ethernet *e)
{
	__u8 mac[6];

	__builtin_memcpy(mac, e->dest, 6);
	__builtin_memcpy(e->dest, e->source, 6);
	__builtin_memcpy(e->source, mac, 6);
}

__noinline int lb_refuse4(struct __sk_buff *skb, struct lb_packet *p)
{
	struct lb_tcp asked = {}, reset = {};
	struct lb_ip4 ip = {};
	void *data, *end;
	struct lb_ip4 *to;
	__u32 l4, sum, source, partial;

	if (!p || p->flags & LB_RST || p->fragment)
		return LB_SHOT;
	l4 = p->l4;
	if (bpf_skb_load_bytes(skb, LB_ETHERNET, &ip, sizeof(ip)) || bpf_skb_load_bytes(skb, l4, &asked, sizeof(asked)))
		return LB_SHOT;
	lb_reset_header(&reset, &asked, bpf_ntohs(ip.length) - (l4 - LB_ETHERNET) - (asked.offset >> 4) * 4);
	partial = lb_is_partial(skb, l4 + LB_TCP_CHECK);
	if (bpf_skb_change_tail(skb, l4 + sizeof(reset), 0))
		return LB_SHOT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	to = data + LB_ETHERNET;
	if ((void *)(to + 1) > end)
		return LB_SHOT;
	source = to->source;
	to->source = to->dest;
	to->dest = source;
	sum = (__u16)~to->length + (__u16)~*(__u16 *)&to->ttl;
	to->length = bpf_htons(l4 - LB_ETHERNET + sizeof(reset));
	to->ttl = 64;
	sum += to->length + *(__u16 *)&to->ttl;
	lb_recheck(&to->check, sum);
	lb_turn_link(data);
	sum = lb_sum16(bpf_csum_diff(0, 0, &ip.source, 8, 0)) + bpf_htons(LB_PROTOCOL_TCP) + bpf_htons(sizeof(reset));
	reset.check = partial ? lb_sum16(sum) : ~lb_sum16(bpf_csum_diff(0, 0, (void *)&reset, sizeof(reset), sum));
	if (bpf_skb_store_bytes(skb, l4, &reset, sizeof(reset), 0))
		return LB_SHOT;
	skb->mark = 0;
	return bpf_redirect(skb->ifindex, 0);
}

__noinline int lb_refuse6(struct __sk_buff *skb, struct lb_packet *p)
{
	struct lb_tcp asked = {}, reset = {};
	struct lb_ip6 ip = {};
	void *data, *end;
	struct lb_ip6 *to;
	__u32 l4, sum, partial;

	if (!p || p->flags & LB_RST || p->fragment)
		return LB_SHOT;
	l4 = p->l4;
	if (bpf_skb_load_bytes(skb, LB_ETHERNET, &ip, sizeof(ip)) || bpf_skb_load_bytes(skb, l4, &asked, sizeof(asked)))
		return LB_SHOT;
	lb_reset_header(&reset, &asked,
			bpf_ntohs(ip.length) + sizeof(ip) - (l4 - LB_ETHERNET) - (asked.offset >> 4) * 4);
	partial = lb_is_partial(skb, l4 + LB_TCP_CHECK);
	if (bpf_skb_change_tail(skb, l4 + sizeof(reset), 0))
		return LB_SHOT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	to = data + LB_ETHERNET;
	if ((void *)(to + 1) > end)
		return LB_SHOT;
	__builtin_memcpy(to->source, ip.dest, 16);
	__builtin_memcpy(to->dest, ip.source, 16);
	to->length = bpf_htons(l4 - LB_ETHERNET - sizeof(ip) + sizeof(reset));
	to->hops = 64;
	lb_turn_link(data);
	sum = lb_sum16(bpf_csum_diff(0, 0, ip.source, 32, 0)) + bpf_htons(LB_PROTOCOL_TCP) + bpf_htons(sizeof(reset));
	reset.check = partial ? lb_sum16(sum) : ~lb_sum16(bpf_csum_diff(0, 0, (void *)&reset, sizeof(reset), sum));
	if (bpf_skb_store_bytes(skb, l4, &reset, sizeof(reset), 0))
		return LB_SHOT;
	skb->mark = 0;
	return bpf_redirect(skb->ifindex, 0);
}

#define LB_QUOTED_PORTS 8

/* The answer to an IPv4 packet that is longer than `mtu` and may not be cut (RFC 1191). What may be cut is dropped. */
__noinline int lb_too_long4(struct __sk_buff *skb, __u32 mtu)
{
	struct {
		struct lb_ip4 ip;
		__u8 type, code;
		__u16 check, unused, mtu;
		struct lb_ip4 quote;
		__u8 ports[LB_QUOTED_PORTS];
	} answer = {};
	void *data, *end;

	if (lb_summed(skb) == CHECKSUM_PARTIAL ||
	    bpf_skb_load_bytes(skb, LB_ETHERNET, &answer.quote, sizeof(answer.quote) + LB_QUOTED_PORTS))
		return LB_SHOT;
	if (!(answer.quote.fragment & bpf_htons(0x4000)) || answer.quote.version_length != 0x45)
		return LB_SHOT;
	if (bpf_skb_change_tail(skb, LB_ETHERNET + sizeof(answer), 0))
		return LB_SHOT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + LB_ETHERNET > end)
		return LB_SHOT;
	lb_turn_link(data);
	answer.ip.version_length = 0x45;
	answer.ip.length = bpf_htons(sizeof(answer));
	answer.ip.ttl = 64;
	answer.ip.protocol = LB_PROTOCOL_ICMP;
	answer.ip.source = answer.quote.dest;
	answer.ip.dest = answer.quote.source;
	answer.ip.check = ~lb_sum16(bpf_csum_diff(0, 0, (void *)&answer.ip, sizeof(answer.ip), 0));
	answer.type = LB_ICMP_UNREACHABLE;
	answer.code = 4;
	answer.mtu = bpf_htons(mtu);
	answer.check = ~lb_sum16(bpf_csum_diff(0, 0, (void *)&answer.type, sizeof(answer) - sizeof(answer.ip), 0));
	if (bpf_skb_store_bytes(skb, LB_ETHERNET, &answer, sizeof(answer), 0))
		return LB_SHOT;
	skb->mark = 0;
	return bpf_redirect(skb->ifindex, 0);
}

/* The same for IPv6, where nobody on the way cuts (RFC 4443, section 3.2). */
__noinline int lb_too_long6(struct __sk_buff *skb, __u32 mtu)
{
	struct {
		struct lb_ip6 ip;
		__u8 type, code;
		__u16 check;
		__u32 mtu;
		struct lb_ip6 quote;
		__u8 ports[LB_QUOTED_PORTS];
	} answer = {};
	__u32 length = sizeof(answer) - sizeof(answer.ip), sum;
	void *data, *end;

	if (lb_summed(skb) == CHECKSUM_PARTIAL ||
	    bpf_skb_load_bytes(skb, LB_ETHERNET, &answer.quote, sizeof(answer.quote) + LB_QUOTED_PORTS))
		return LB_SHOT;
	if (bpf_skb_change_tail(skb, LB_ETHERNET + sizeof(answer), 0))
		return LB_SHOT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + LB_ETHERNET > end)
		return LB_SHOT;
	lb_turn_link(data);
	answer.ip.flow = bpf_htonl(6U << 28);
	answer.ip.length = bpf_htons(length);
	answer.ip.next = LB_PROTOCOL_ICMPV6;
	answer.ip.hops = 64;
	__builtin_memcpy(answer.ip.source, answer.quote.dest, 16);
	__builtin_memcpy(answer.ip.dest, answer.quote.source, 16);
	answer.type = 2;
	answer.mtu = bpf_htonl(mtu);
	sum = lb_sum16(bpf_csum_diff(0, 0, answer.ip.source, 32, 0)) + bpf_htons(length) + bpf_htons(LB_PROTOCOL_ICMPV6);
	answer.check = ~lb_sum16(bpf_csum_diff(0, 0, (void *)&answer.type, length, sum));
	if (bpf_skb_store_bytes(skb, LB_ETHERNET, &answer, sizeof(answer), 0))
		return LB_SHOT;
	skb->mark = 0;
	return bpf_redirect(skb->ifindex, 0);
}
