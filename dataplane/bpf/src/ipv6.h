/*
 * IPv6 of a bound MAC. Nets are IPv4, so nothing but what belongs to the link passes: senders by link-local addresses of
 * their own, neighbour discovery, and nobody who plays the router or speaks for another.
 */
#pragma once

#include "drop.h"
#include "link_local.h"
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

/* RFC 2710, RFC 3810 */
#define MLD_REPORT 131
#define MLD_DONE 132
#define MLD_REPORT_2 143

#define DHCPV6_CLIENT 546
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

/* The sender of a packet: its MAC, and the net and slot in which that is bound. */
struct speaker {
	__u64 mac;
	__u32 net;
	__u32 slot;
	/* It has no address yet. */
	__u32 unspecified;
};

static __always_inline int speaks_for(const __u8 *address, const struct speaker *who)
{
	return owns_link(address, who->net, who->slot, who->mac);
}

/* What a machine says while it has no address: who is there, and to which groups it listens. */
static __always_inline int needs_no_address(__u8 type)
{
	return type == ROUTER_SOLICITATION || type == NEIGHBOUR_SOLICITATION || type == MLD_REPORT || type == MLD_DONE ||
	       type == MLD_REPORT_2;
}

static __always_inline __u32 judge_icmpv6(struct __sk_buff *skb, __u32 at, __u32 end, const struct speaker *who)
{
	__u8 message[24] __attribute__((aligned(8)));
	__u8 type;

	if (bpf_skb_load_bytes(skb, at, &type, 1))
		return STRATUM_DROP_SHORT;
	if (type == ROUTER_ADVERTISEMENT || type == REDIRECT)
		return STRATUM_DROP_IPV6_ROUTER;
	if (who->unspecified && !needs_no_address(type))
		return STRATUM_DROP_ZERO_ADDRESS;
	if (type == ROUTER_SOLICITATION)
		return at + 8 > end ? STRATUM_DROP_SHORT : judge_options(skb, at + 8, end, who->mac);
	if (type != NEIGHBOUR_SOLICITATION && type != NEIGHBOUR_ADVERTISEMENT)
		return 0;
	if (at + sizeof(message) > end || bpf_skb_load_bytes(skb, at, message, sizeof(message)))
		return STRATUM_DROP_SHORT;
	if (!is_link_local(message + 8))
		return STRATUM_DROP_IPV6;
	/* Whoever solicits without address asks whether the one that it is about to take is another's (RFC 4862). */
	if ((type == NEIGHBOUR_ADVERTISEMENT || who->unspecified) && !speaks_for(message + 8, who))
		return STRATUM_DROP_IPV6_TARGET;
	return judge_options(skb, at + sizeof(message), end, who->mac);
}

/* 0 or the reason against the source address; `who` learns whether there is none. */
static __always_inline __u32 judge_source6(const __u8 *source, struct speaker *who)
{
	__u64 high, low;

	__builtin_memcpy(&high, source, 8);
	__builtin_memcpy(&low, source + 8, 8);
	who->unspecified = (high | low) == 0;
	if (who->unspecified)
		return 0;
	if (!is_link_local(source))
		return STRATUM_DROP_IPV6;
	return speaks_for(source, who) ? 0 : STRATUM_DROP_IPV6_LINK;
}

/* 0 or the reason. `at` is where the IPv6 header begins; `mac` is bound in `slot`, in `net`. */
static __noinline __u32 judge_ipv6(struct __sk_buff *skb, __u32 at, __u64 mac, __u32 net, __u32 slot)
{
	struct speaker who = {mac, net, slot, 0};
	__u8 header[IPV6_HEADER] __attribute__((aligned(8)));
	__u32 next, end, reason;

	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return STRATUM_DROP_SHORT;
	if (header[0] >> 4 != 6)
		return STRATUM_DROP_MALFORMED;
	reason = judge_source6(header + 8, &who);
	if (reason)
		return reason;
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
		return judge_icmpv6(skb, at, end, &who);
	if (next == PROTOCOL_UDP) {
		__u16 ports[2];

		if (bpf_skb_load_bytes(skb, at, ports, sizeof(ports)))
			return STRATUM_DROP_SHORT;
		/* Clients do not look at the port that an answer comes from. */
		if (ports[0] == bpf_htons(DHCPV6_SERVER) || ports[1] == bpf_htons(DHCPV6_CLIENT))
			return STRATUM_DROP_IPV6_ROUTER;
	}
	return who.unspecified ? STRATUM_DROP_ZERO_ADDRESS : 0;
}
