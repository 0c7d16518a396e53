/*
 * Reads a frame. Every field that a judgment rests on is read here, within the bounds of the packet, once: the
 * fragments of the areas see values only. IPv6 is read where it is judged (ipv6.h), because its headers have no end.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"

/* linux/if_ether.h and RFC 903, in network order. */
#define TYPE_IPV4 bpf_htons(0x0800)
#define TYPE_ARP bpf_htons(0x0806)
#define TYPE_RARP bpf_htons(0x8035)
#define TYPE_IPV6 bpf_htons(0x86dd)
#define TYPE_VLAN bpf_htons(0x8100)
#define TYPE_SERVICE_VLAN bpf_htons(0x88a8)
#define TYPE_OLD_QINQ bpf_htons(0x9100)
/* LLC follows, as it does behind a length (below 0x0600), in frames that are longer than a length can say. */
#define TYPE_LLC bpf_htons(0x8870)
#define SMALLEST_TYPE 0x0600

#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58

#define ETHERNET_HEADER 14
#define TAG 4
#define IPV4_HEADER 20
#define ARP_MESSAGE 28
#define UDP_PORTS 4

/* Enough for two tags and any header read here; a guest decides how much of its frame is linear. */
#define HEADERS 78

/* Source and destination port as they stand in the packet. */
#define UDP_FROM_TO(from, to) bpf_htonl((from) << 16 | (to))
#define UDP_TO(ports) (bpf_ntohl(ports) & 0xffff)
#define DHCP_CLIENT 68
#define DHCP_SERVER 67

struct frame {
	/* MACs: the first byte is the lowest. */
	__u64 source;
	__u64 destination;
	/* Sender hardware address of ARP. */
	__u64 arp_mac;
	/* Source and destination of IPv4, sender and target of ARP, in network order; else 0. */
	__u32 sender;
	__u32 target;
	/* UDP_FROM_TO of an IPv4 datagram or its first fragment; else 0. */
	__u32 ports;
	/* Where what an IPv4 packet of UDP carries begins, the header of UDP or a later fragment's part; else 0. */
	__u32 payload;
	/* Where the network header begins. */
	__u32 at;
	/* The tags from the outside in, whether the kernel has taken one out of the frame or not. */
	__u32 tags;
	__u32 vids[2];
	/* EtherType behind the tags, in network order. */
	__u16 type;
	/* True for every fragment of an IPv4 packet. */
	__u16 fragment;
};

static __always_inline __u64 mac_at(const void *at)
{
	return *(const __u32 *)at | (__u64)*(const __u16 *)(at + 4) << 32;
}

/* Broadcast included. */
static __always_inline int is_multicast(__u64 mac)
{
	return mac & 1;
}

/* 01:80:c2:00:00:0x, which no bridge passes on: spanning tree, pause, LACP, LLDP (IEEE 802.1Q table 8-1). */
static __always_inline int is_reserved(__u64 mac)
{
	return (mac & 0xf0ffffffffffULL) == 0x000000c28001ULL;
}

static __always_inline int is_tag(__u16 type)
{
	return type == TYPE_VLAN || type == TYPE_SERVICE_VLAN;
}

/* Ethernet header and tags. 0 or a reason. */
static __always_inline __u32 read_link(struct __sk_buff *skb, struct frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (data + ETHERNET_HEADER > end)
		return STRATUM_DROP_SHORT;
	f->destination = mac_at(data);
	f->source = mac_at(data + 6);
	f->type = *(__u16 *)(data + 12);
	f->at = ETHERNET_HEADER;
	f->tags = 0;
	if (skb->vlan_present) {
		f->vids[0] = skb->vlan_tci & 0xfff;
		f->tags = 1;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		void *tag = data + ETHERNET_HEADER + i * TAG;
		__u32 vid;

		if (!is_tag(f->type))
			break;
		if (tag + TAG > end)
			return STRATUM_DROP_SHORT;
		vid = bpf_ntohs(*(__u16 *)tag) & 0xfff;
		if (f->tags == 0)
			f->vids[0] = vid;
		else
			f->vids[1] = vid;
		f->tags++;
		f->type = *(__u16 *)(tag + 2);
		f->at = ETHERNET_HEADER + (i + 1) * TAG;
	}
	if (f->tags > 2 || is_tag(f->type) || f->type == TYPE_OLD_QINQ)
		return STRATUM_DROP_TAGS;
	return 0;
}

static __always_inline __u32 read_ipv4(struct __sk_buff *skb, struct frame *f, const __u8 *header, const void *end)
{
	__u32 length;
	__u16 fragment;

	if ((void *)header + IPV4_HEADER > end)
		return STRATUM_DROP_SHORT;
	length = (header[0] & 0xf) * 4;
	if (header[0] >> 4 != 4 || length < IPV4_HEADER)
		return STRATUM_DROP_MALFORMED;
	f->sender = *(__u32 *)(header + 12);
	f->target = *(__u32 *)(header + 16);
	fragment = *(__u16 *)(header + 6);
	f->fragment = (fragment & bpf_htons(0x3fff)) != 0;
	if (header[9] != PROTOCOL_UDP)
		return 0;
	f->payload = f->at + length;
	if (fragment & bpf_htons(0x1fff))
		return 0;
	if (length == IPV4_HEADER && (void *)header + IPV4_HEADER + UDP_PORTS <= end)
		f->ports = *(__u32 *)(header + IPV4_HEADER);
	else if (bpf_skb_load_bytes(skb, f->at + length, &f->ports, UDP_PORTS))
		f->ports = 0;
	return 0;
}

/* ARP (RFC 826) and RARP, of Ethernet and IPv4 only. */
static __always_inline __u32 read_arp(struct frame *f, const void *message, const void *end)
{
	if (message + ARP_MESSAGE > end)
		return STRATUM_DROP_SHORT;
	if (*(__u32 *)message != bpf_htonl(0x00010800) || *(__u16 *)(message + 4) != bpf_htons(0x0604))
		return STRATUM_DROP_MALFORMED;
	f->arp_mac = mac_at(message + 8);
	f->sender = *(__u32 *)(message + 14);
	f->target = *(__u32 *)(message + 24);
	return 0;
}

static __always_inline int is_arp(const struct frame *f)
{
	return f->type == TYPE_ARP || f->type == TYPE_RARP;
}

/*
 * LLC with SNAP (IEEE 802.2, RFC 1042, 802.1H) in front of what is judged under its EtherType: some receivers unwrap it.
 * 0 or the reason.
 */
static __noinline __u32 judge_llc(struct __sk_buff *skb, __u32 at)
{
	__u8 head[8];
	__u16 type;

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return 0;
	/* The lowest bits of the two SAPs and the poll bit say nothing of what follows. */
	if ((head[0] & 0xfe) != 0xaa || (head[1] & 0xfe) != 0xaa || (head[2] & 0xef) != 0x03)
		return 0;
	if (head[3] || head[4] || (head[5] && head[5] != 0xf8))
		return 0;
	type = bpf_htons(head[6] << 8 | head[7]);
	if (type == TYPE_IPV4 || type == TYPE_IPV6 || type == TYPE_ARP || type == TYPE_RARP || is_tag(type) ||
	    type == TYPE_OLD_QINQ)
		return STRATUM_DROP_LLC;
	return 0;
}

/* What stands behind the tags, as far as it tells addresses. 0 or a reason. */
static __always_inline __u32 read_network(struct __sk_buff *skb, struct frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	f->sender = f->target = f->ports = f->payload = f->fragment = 0;
	if (f->type == TYPE_IPV4)
		return read_ipv4(skb, f, data + (f->at & 31), end);
	if (is_arp(f))
		return read_arp(f, data + (f->at & 31), end);
	if (bpf_ntohs(f->type) < SMALLEST_TYPE || f->type == TYPE_LLC)
		return judge_llc(skb, f->at);
	return 0;
}

/* Makes the headers linear; what `data` pointed to is to be read anew. */
static __always_inline void pull(struct __sk_buff *skb)
{
	bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS);
}

/* `read_link`, however little of the frame is linear. */
static __always_inline __u32 parse_link(struct __sk_buff *skb, struct frame *f)
{
	__u32 reason = read_link(skb, f);

	if (reason != STRATUM_DROP_SHORT)
		return reason;
	pull(skb);
	return read_link(skb, f);
}

/* `read_link` and `read_network`, however little of the frame is linear. */
static __always_inline __u32 parse(struct __sk_buff *skb, struct frame *f)
{
	__u32 reason = read_link(skb, f);

	if (!reason)
		reason = read_network(skb, f);
	if (reason != STRATUM_DROP_SHORT)
		return reason;
	pull(skb);
	reason = read_link(skb, f);
	return reason ? reason : read_network(skb, f);
}
