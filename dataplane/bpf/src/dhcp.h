/* DHCP of workloads in a net that the node serves: it alone answers, and everybody asks for himself. */
#pragma once

#include "drop.h"
#include "parse.h"

#define UDP_HEADER 8
/* Client hardware address in a message (RFC 2131 section 2). */
#define DHCP_CHADDR 28

/*
 * True for what goes to a client or a server, by whatever port it comes from: clients do not look at that. Of a later
 * fragment nothing is known here.
 */
static __always_inline int may_be_dhcp(const struct frame *f)
{
	__u32 to = UDP_TO(f->ports);

	return to == DHCP_CLIENT || to == DHCP_SERVER || (f->payload && f->fragment);
}

/*
 * 0 or the reason. `at` is where the IPv4 header begins, `payload` where what it carries does. `source` is the MAC of the
 * sender, 0 for a fragment, which may hide whose request it is.
 */
static __noinline __u32 judge_dhcp(struct __sk_buff *skb, __u32 at, __u32 payload, __u64 source)
{
	__u64 client = 0;
	__u16 total, fragment;
	__u16 udp[4];

	if (bpf_skb_load_bytes(skb, payload, udp, sizeof(udp)) || bpf_skb_load_bytes(skb, at + 2, &total, sizeof(total)) ||
	    bpf_skb_load_bytes(skb, at + 6, &fragment, sizeof(fragment)))
		return 0;
	if (fragment & bpf_htons(0x1fff)) {
		/* Some clients read raw packets, and take a later fragment for a datagram that is dressed as one. */
		return udp[1] == bpf_htons(DHCP_CLIENT) && bpf_ntohs(udp[2]) == bpf_ntohs(total) - (payload - at) ?
			       STRATUM_DROP_DHCP_SERVER :
			       0;
	}
	if (udp[1] == bpf_htons(DHCP_CLIENT))
		return STRATUM_DROP_DHCP_SERVER;
	if (udp[1] != bpf_htons(DHCP_SERVER))
		return 0;
	if (source == 0)
		return STRATUM_DROP_DHCP_CLIENT;
	/* What ends before it is no request. */
	if (bpf_skb_load_bytes(skb, payload + UDP_HEADER + DHCP_CHADDR, &client, 6))
		return 0;
	return client == source ? 0 : STRATUM_DROP_DHCP_CLIENT;
}
