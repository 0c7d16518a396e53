/*
 * The load balancer, at tcx ingress of the devices that the node's IP stack begins at. A packet to a virtual address is
 * judged by the firewall when it opens a connection, given a backend, and leaves by where the routing table says the
 * backend is; what a backend answers goes back to where its client came from. Neither meets conntrack or nft.
 *
 * Whatever is not the load balancer's goes on to the stack as it came.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "classify.h"
#include "lb_direct.h"
#include "lb_kernel.h"
#include "lb_maps.h"
#include "lb_parse.h"
#include "lb_pick.h"
#include "lb_reply.h"

char LICENSE[] SEC("license") = "GPL";

/* LOOPBACK_IFINDEX of linux/net/loopback: what the node itself sends is routed as if it came from here. */
#define LB_LOOPBACK 1
/* sys/socket.h */
#define LB_AF_INET 2
#define LB_AF_INET6 10

/* MAC addresses of the sender and of the node. */
static __always_inline void lb_sender(struct __sk_buff *skb, __u8 *client, __u8 *node)
{
	struct lb_ethernet *e = (void *)(long)skb->data;

	if ((void *)(e + 1) > (void *)(long)skb->data_end)
		return;
	__builtin_memcpy(client, e->source, 6);
	__builtin_memcpy(node, e->dest, 6);
}

/* The same of a connection, written only when the router before its client is another one by now. */
static __always_inline void lb_sender_now(struct __sk_buff *skb, __u8 *client, __u8 *node)
{
	struct lb_ethernet *e = (void *)(long)skb->data;

	if ((void *)(e + 1) > (void *)(long)skb->data_end)
		return;
	if (*(__u32 *)e->source == *(__u32 *)client && *(__u16 *)(e->source + 4) == *(__u16 *)(client + 4))
		return;
	lb_sender(skb, client, node);
}

/* What rules may ask for besides the tuple. */
static __always_inline void lb_origin(struct __sk_buff *skb, __u32 asked, __u16 *device, __u32 *mac_low, __u16 *mac_high,
				      __u8 *has_mac)
{
	struct lb_ethernet *e = (void *)(long)skb->data;

	if ((void *)(e + 1) <= (void *)(long)skb->data_end) {
		__builtin_memcpy(mac_low, e->source, 4);
		__builtin_memcpy(mac_high, e->source + 4, 2);
		*has_mac = 1;
	}
	if (asked & STRATUM_KEY_DEVICE) {
		struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);
		char name[16] = {};

		bpf_probe_read_kernel_str(name, sizeof(name), kernel->dev->name);
		/* Numbers stand in the map before rules ask for them. */
		name[sizeof(name) - 1] = after(asked);
		*device = filter_device(name);
	}
}

struct lb_sweep {
	__u32 now;
};

#define WORDS 1
#define IN_FAMILY(name) name##4
#define AF LB_AF_INET
#define IN_ITS_FRAME __always_inline
#define FLOWS STRATUM_LB_FLOWS4
#define BEGUN STRATUM_LB_BEGUN4
#define FIB_DEST(fib) (&(fib).ipv4_dst)
#define FIB_SOURCE(fib) (&(fib).ipv4_src)
#define HOP_ADDRESS(hop) (&(hop).ipv4_nh)
#define IP_ADDRESS(field) (&(field))
#define IP_HOPS(ip) ((ip)->ttl)
#define IP_RECHECK(ip, difference) lb_recheck(&(ip)->check, (difference) + (__u16)~bpf_htons(0x0100))
#define IP_SOURCE_AT 12
#define IP_DEST_AT 16
/* The header's own checksum follows its addresses, so that the sum over the quote changes by the ports only. */
#define QUOTE_RECHECK(skb, quoted, addresses) bpf_l3_csum_replace(skb, (quoted) + 10, 0, lb_sum16(addresses), 0)
#define QUOTE_SUM(addresses, ports) (ports)
#define ICMP_READDRESS(skb, check, addresses) 0
#include "lb_family.h"
#undef WORDS
#undef IN_FAMILY
#undef AF
#undef IN_ITS_FRAME
#undef FLOWS
#undef BEGUN
#undef FIB_DEST
#undef FIB_SOURCE
#undef HOP_ADDRESS
#undef IP_ADDRESS
#undef IP_HOPS
#undef IP_RECHECK
#undef IP_SOURCE_AT
#undef IP_DEST_AT
#undef QUOTE_RECHECK
#undef QUOTE_SUM
#undef ICMP_READDRESS

#define WORDS 4
#define IN_FAMILY(name) name##6
#define AF LB_AF_INET6
/* With the wide addresses there is not room for everything on the stack. */
#define IN_ITS_FRAME __noinline
#define FLOWS STRATUM_LB_FLOWS6
#define BEGUN STRATUM_LB_BEGUN6
#define FIB_DEST(fib) ((fib).ipv6_dst)
#define FIB_SOURCE(fib) ((fib).ipv6_src)
#define HOP_ADDRESS(hop) ((hop).ipv6_nh)
#define IP_ADDRESS(field) (field)
#define IP_HOPS(ip) ((ip)->hops)
#define IP_RECHECK(ip, difference)
#define IP_SOURCE_AT 8
#define IP_DEST_AT 24
#define QUOTE_RECHECK(skb, quoted, addresses) 0
#define QUOTE_SUM(addresses, ports) (lb_sum16(addresses) + lb_sum16(ports))
#define ICMP_READDRESS(skb, check, addresses) bpf_l4_csum_replace(skb, check, 0, addresses, BPF_F_PSEUDO_HDR)
#include "lb_family.h"

#include "lb_own.h"
#include "lb_packet.h"

SEC("tc") int lb_in(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct lb_ethernet *e = data;

	/* The tag of a device above this one; a frame that is for others. */
	if (skb->vlan_present || skb->pkt_type != LB_PACKET_HOST)
		return PASS;
	if (skb->protocol != LB_IPV4 && skb->protocol != LB_IPV6)
		return PASS;
	if (data + LB_ETHERNET + (skb->protocol == LB_IPV4 ? sizeof(struct lb_ip4) : sizeof(struct lb_ip6)) +
		    sizeof(struct lb_tcp) >
	    end) {
		bpf_skb_pull_data(skb, skb->len < LB_HEADERS ? skb->len : LB_HEADERS);
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		e = data;
	}
	if ((void *)(e + 1) > end)
		return PASS;
	if (e->type == LB_IPV4) {
		struct lb_ip4 *ip = data + LB_ETHERNET;

		if ((void *)(ip + 1) > end || ip->version_length >> 4 != 4 || (ip->version_length & 15) < 5)
			return PASS;
		if (ip->protocol == LB_PROTOCOL_ICMP)
			return errors4(skb, LB_ETHERNET + (ip->version_length & 15) * 4);
		return balance4(skb);
	}
	if (e->type == LB_IPV6) {
		struct lb_ip6 *ip = data + LB_ETHERNET;

		if ((void *)(ip + 1) > end)
			return PASS;
		return ip->next == LB_PROTOCOL_ICMPV6 ? errors6(skb, LB_ETHERNET + sizeof(*ip)) : balance6(skb);
	}
	return PASS;
}

/* Sets right what events have left wrong, such as connections that the kernel gave up to make room. */
static long lb_correct(void *map, __u32 *row, struct lb_recount *recount, struct lb_sweep *sweep)
{
	__u64 *active = bpf_map_lookup_elem(&lb_active, row);
	__s32 wrong, last, sure;

	if (!active)
		return 0;
	wrong = recount->found - (__s32)*active;
	last = recount->wrong;
	/* Connections opened and closed meanwhile are no mistake: only what was found twice is. */
	sure = (wrong ^ last) < 0 ? 0 : wrong > 0 ? (wrong < last ? wrong : last) : (wrong > last ? wrong : last);
	if (sure)
		__sync_fetch_and_add(active, (__s64)sure);
	recount->wrong = wrong - sure;
	recount->found = 0;
	return 0;
}

/* Forgets idle connections and counts the others. Run by the agent from time to time. */
SEC("syscall") int lb_tidy(void *context)
{
	struct lb_sweep sweep = {.now = LB_NOW};

	bpf_for_each_map_elem(&lb_flows4, lb_visit4, &sweep, 0);
	bpf_for_each_map_elem(&lb_flows6, lb_visit6, &sweep, 0);
	bpf_for_each_map_elem(&lb_begun4, lb_visit_begun4, &sweep, 0);
	bpf_for_each_map_elem(&lb_begun6, lb_visit_begun6, &sweep, 0);
	bpf_for_each_map_elem(&lb_recounts, lb_correct, &sweep, 0);
	return 0;
}
