/*
 * IPv6 of a bound MAC. Nets are IPv4, so nothing but what belongs to the link passes: link-local senders, neighbour
 * discovery about themselves, and nobody who plays the router.
 */
#pragma once

#include "drop.h"
#include "parse.h"

#define IPV6_HEADER 40

/* Next header values (IANA protocol numbers). */
#define HOP_BY_HOP 0
#define ROUTING 43
#define FRAGMENT 44
#define AUTHENTICATION 51
#define DESTINATION_OPTIONS 60
#define MOBILITY 135
#define HOST_IDENTITY 139
#define SHIM6 140

/* RFC 4861: ICMPv6 types, and options that give a link-layer address. */
#define ROUTER_SOLICITATION 133
#define ROUTER_ADVERTISEMENT 134
#define NEIGHBOUR_SOLICITATION 135
#define NEIGHBOUR_ADVERTISEMENT 136
#define REDIRECT 137
#define SOURCE_LINK_ADDRESS 1
#define TARGET_LINK_ADDRESS 2

#define DHCPV6_SERVER 547

#define EXTENSIONS 4
#define OPTIONS 4

static __always_inline int is_extension(__u32 next)
{
	return next == HOP_BY_HOP || next == ROUTING || next == DESTINATION_OPTIONS;
}

/* Moves `at` from behind the fixed header to the upper layer, whose protocol `next` becomes. Not 0: the frame ends. */
static __always_inline int skip_extensions(struct __sk_buff *skb, __u32 *at, __u32 *next)
{
#pragma unroll
	for (int i = 0; i < EXTENSIONS; i++) {
		__u8 head[2];

		if (!is_extension(*next))
			break;
		if (bpf_skb_load_bytes(skb, *at, head, sizeof(head)))
			return -1;
		*next = head[0];
		*at += (head[1] + 1) * 8;
	}
	return 0;
}

static __always_inline int is_link_local(const __u8 *address)
{
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* Every link-layer address among the options must be the sender's own. */
static __always_inline __u32 judge_options(struct __sk_buff *skb, __u32 at, __u32 end, __u64 source)
{
#pragma unroll
	for (int i = 0; i < OPTIONS; i++) {
		__u8 head[2];
		__u64 mac = 0;

		if (at >= end)
			return 0;
		if (bpf_skb_load_bytes(skb, at, head, sizeof(head)))
			return STRATUM_DROP_SHORT;
		if (head[1] == 0)
			return STRATUM_DROP_MALFORMED;
		if (head[0] == SOURCE_LINK_ADDRESS || head[0] == TARGET_LINK_ADDRESS) {
			if (bpf_skb_load_bytes(skb, at + 2, &mac, 6))
				return STRATUM_DROP_SHORT;
			if (mac != source)
				return STRATUM_DROP_IPV6;
		}
		at += head[1] * 8;
	}
	return at >= end ? 0 : STRATUM_DROP_IPV6;
}

static __always_inline __u32 judge_icmpv6(struct __sk_buff *skb, __u32 at, __u32 end, __u64 source)
{
	__u8 message[24];
	__u8 type;

	if (bpf_skb_load_bytes(skb, at, &type, 1))
		return STRATUM_DROP_SHORT;
	if (type == ROUTER_ADVERTISEMENT || type == REDIRECT)
		return STRATUM_DROP_IPV6_ROUTER;
	if (type == ROUTER_SOLICITATION)
		return at + 8 > end ? STRATUM_DROP_SHORT : judge_options(skb, at + 8, end, source);
	if (type != NEIGHBOUR_SOLICITATION && type != NEIGHBOUR_ADVERTISEMENT)
		return 0;
	if (at + sizeof(message) > end || bpf_skb_load_bytes(skb, at, message, sizeof(message)))
		return STRATUM_DROP_SHORT;
	if (!is_link_local(message + 8))
		return STRATUM_DROP_IPV6;
	return judge_options(skb, at + sizeof(message), end, source);
}

/* 0 or the reason. `at` is where the IPv6 header begins. */
static __noinline __u32 judge_ipv6(struct __sk_buff *skb, __u32 at, __u64 source)
{
	__u8 header[IPV6_HEADER];
	__u32 next, end;

	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return STRATUM_DROP_SHORT;
	if (header[0] >> 4 != 6)
		return STRATUM_DROP_MALFORMED;
	for (int i = 8; i < 24 && !is_link_local(header + 8); i++)
		if (header[i])
			return STRATUM_DROP_IPV6;
	next = header[6];
	at += IPV6_HEADER;
	end = at + (header[4] << 8 | header[5]);
	if (skip_extensions(skb, &at, &next))
		return STRATUM_DROP_SHORT;
	/* What hides behind these, a router's words among it, is not for the link (RFC 6980, RFC 7113). */
	if (is_extension(next) || next == FRAGMENT || next == AUTHENTICATION || next == MOBILITY ||
	    next == HOST_IDENTITY || next == SHIM6)
		return STRATUM_DROP_IPV6_HIDDEN;
	if (next == PROTOCOL_ICMPV6)
		return judge_icmpv6(skb, at, end, source);
	if (next == PROTOCOL_UDP) {
		__u16 port;

		if (bpf_skb_load_bytes(skb, at, &port, sizeof(port)))
			return STRATUM_DROP_SHORT;
		if (port == bpf_htons(DHCPV6_SERVER))
			return STRATUM_DROP_IPV6_ROUTER;
	}
	return 0;
}
