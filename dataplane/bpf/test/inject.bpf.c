/*
 * Puts packets into the real stack and tells which got through, for test/firewall/inject.ts: `inject` runs by
 * BPF_PROG_TEST_RUN with live frames, builds the packet whose turn it is and passes it on as if it had come in by a
 * device; `arrived` stands where the packets leave the node.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PACKETS 65536
/* Behind the IP header: header of the protocol, zeros, the mark. */
#define PAYLOAD 32
#define MARK 0x73747261
/* Room for the longer of both families. */
#define FRAME (ETH_HLEN + 40 + PAYLOAD)

/* All in network order but the number. */
struct spec {
	__u8 family;
	__u8 protocol;
	/* Type of service, traffic class. */
	__u8 tos;
	__u8 reserved;
	__u32 number;
	__u8 mac[ETH_ALEN];
	__be16 sport;
	__be32 source[4];
	__be32 dest[4];
	__be16 dport;
	__be16 ident;
	__u32 padding[3];
};

/* Packets from `first` up to `end` in turn. */
struct turn {
	__u32 next;
	__u32 first;
	__u32 end;
	__u32 padding;
};

/* At the end of each packet. */
struct mark {
	__u32 known;
	__u32 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PACKETS);
	__type(key, __u32);
	__type(value, struct spec);
} specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turn);
} turns SEC(".maps");

/* How often each packet got through. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PACKETS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline void *write_ipv4(struct iphdr *ip, const struct spec *spec)
{
	__u16 *halves = (void *)ip;
	__u32 sum = 0;

	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = spec->tos;
	ip->tot_len = bpf_htons(sizeof(*ip) + PAYLOAD);
	ip->ttl = 64;
	ip->protocol = spec->protocol;
	ip->saddr = spec->source[0];
	ip->daddr = spec->dest[0];
#pragma unroll
	for (int n = 0; n < 10; n++)
		sum += halves[n];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
	return ip + 1;
}

static __always_inline void *write_ipv6(struct ipv6hdr *ip, const struct spec *spec)
{
	*(__be32 *)ip = bpf_htonl(0x60000000 | (__u32)spec->tos << 20);
	ip->payload_len = bpf_htons(PAYLOAD);
	ip->nexthdr = spec->protocol;
	ip->hop_limit = 64;
	__builtin_memcpy(&ip->saddr, spec->source, 16);
	__builtin_memcpy(&ip->daddr, spec->dest, 16);
	return ip + 1;
}

/* Checksums stay wrong or empty: conntrack is told not to look, and nobody else does on the way through. */
static __always_inline void write_payload(void *payload, const struct spec *spec)
{
	__u8 *bytes = payload;
	__be16 *halves = payload;
	struct mark *mark = payload + PAYLOAD - sizeof(*mark);

	__builtin_memset(payload, 0, PAYLOAD);
	if (spec->protocol == IPPROTO_TCP || spec->protocol == IPPROTO_UDP) {
		halves[0] = spec->sport;
		halves[1] = spec->dport;
	}
	if (spec->protocol == IPPROTO_TCP) {
		halves[3] = bpf_htons(1);
		bytes[12] = 0x50;
		bytes[13] = 0x02; /* SYN */
		halves[7] = 0xffff;
	} else if (spec->protocol == IPPROTO_UDP) {
		halves[2] = bpf_htons(PAYLOAD);
		/* IPv6 asks for one. */
		halves[3] = spec->family == 6 ? 0x1234 : 0;
	} else if (spec->protocol == IPPROTO_ICMP || spec->protocol == IPPROTO_ICMPV6) {
		bytes[0] = spec->protocol == IPPROTO_ICMP ? 8 : 128; /* echo request */
		halves[2] = spec->ident;
	}
	mark->known = MARK;
	mark->number = spec->number;
}

SEC("xdp")
int inject(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	const struct spec *spec;
	struct turn *turn;
	void *payload;
	__u32 now = 0;

	turn = bpf_map_lookup_elem(&turns, &now);
	if (data + FRAME > end || !turn)
		return XDP_ABORTED;
	now = turn->next;
	turn->next = now + 1 < turn->end ? now + 1 : turn->first;
	spec = bpf_map_lookup_elem(&specs, &now);
	if (!spec)
		return XDP_ABORTED;

	__builtin_memcpy(eth->h_dest, "\x02\xfa\x00\x00\x00\x01", ETH_ALEN);
	__builtin_memcpy(eth->h_source, spec->mac, ETH_ALEN);
	if (spec->family == 4) {
		eth->h_proto = bpf_htons(ETH_P_IP);
		payload = write_ipv4(data + ETH_HLEN, spec);
	} else {
		eth->h_proto = bpf_htons(ETH_P_IPV6);
		payload = write_ipv6(data + ETH_HLEN, spec);
	}
	if (payload + PAYLOAD > end)
		return XDP_ABORTED;
	write_payload(payload, spec);
	return XDP_PASS;
}

SEC("tc")
int arrived(struct __sk_buff *skb)
{
	struct mark mark;
	__u64 *count;

	if (skb->len < sizeof(mark) ||
	    bpf_skb_load_bytes(skb, skb->len - sizeof(mark), &mark, sizeof(mark)) < 0 || mark.known != MARK)
		return TC_ACT_SHOT;
	count = bpf_map_lookup_elem(&seen, &mark.number);
	if (count)
		__sync_fetch_and_add(count, 1);
	return TC_ACT_SHOT;
}

char _license[] SEC("license") = "GPL";
