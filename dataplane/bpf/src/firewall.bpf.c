/*
 * The firewall's verdict at prerouting, behind conntrack and before any translation of addresses; and `explain`, which
 * tells of a packet that somebody makes up which rule would decide it.
 *
 * nft stands before this: it has ended connections for good (`firewall_ended4` and `6`) and has marked what the default
 * deny spares by STRATUM_SPARED_PRIORITY.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "classify.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * For the agent, which waits for an RCU grace period by storing into it: the kernel answers such an update of a map of
 * maps only when no program runs any longer that had begun before (kernel/bpf/syscall.c, maybe_wait_bpf_programs).
 * Pinned, so that an agent has it that takes the programs over.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, __u32);
	});
} grace SEC(".maps");

/* linux/netfilter.h */
#define NF_DROP 0
#define NF_ACCEPT 1

/* linux/netfilter/nf_conntrack_common.h: the lowest bits of skb->_nfct, and what they say. */
#define NFCT_INFO 7UL
#define IP_CT_ESTABLISHED 0
#define IP_CT_NEW 2

/* linux/if_arp.h */
#define ARPHRD_ETHER 1
#define MAC_HEADER_UNSET 0xffff

/* IANA protocol numbers */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define HOP_BY_HOP 0
#define ROUTING 43
#define FRAGMENT 44
#define AUTHENTICATION 51
#define DESTINATION_OPTIONS 60

/* As many as conntrack meets in practice; a packet with more of them has no upper layer for the rules. */
#define EXTENSIONS 8

/* Of the kernel's types only what is read; libbpf finds where that stands in the running kernel. */
#define KERNEL __attribute__((preserve_access_index))

struct net_device {
	char name[16];
	unsigned short type;
} KERNEL;

struct sk_buff {
	unsigned int len;
	__u32 priority;
	unsigned long _nfct;
	unsigned char *head;
	__u16 mac_header;
	__u16 network_header;
} KERNEL;

struct nf_hook_state {
	struct net_device *in;
} KERNEL;

union nf_inet_addr {
	__u32 all[4];
} KERNEL;

union nf_conntrack_man_proto {
	__be16 all;
} KERNEL;

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
} KERNEL;

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
		__u8 protonum;
	} dst;
} KERNEL;

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} KERNEL;

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
} KERNEL;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

struct bpf_dynptr;

/* As libbpf 1.5 declares it; earlier ones do not. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;
extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *pointer) __ksym;

struct origin {
	__u16 device;
	__u8 has_mac;
	__u32 mac_low;
	__u16 mac_high;
};

/* Device and source MAC address, where some rule asks for them. */
static __always_inline void read_origin(const struct bpf_nf_ctx *ctx, __u32 asked, struct origin *o)
{
	struct net_device *in = ctx->state->in;
	struct sk_buff *skb = ctx->skb;
	__u16 mac_header = skb->mac_header;
	__u8 mac[6];

	if (!in)
		return;
	if (asked & STRATUM_KEY_DEVICE) {
		char name[16] = {};

		bpf_probe_read_kernel_str(name, sizeof(name), in->name);
		/* Numbers stand in the map before rules ask for them. */
		name[sizeof(name) - 1] = after(asked);
		o->device = filter_device(name);
	}
	/* As nft's `ether saddr`: on Ethernet only, and where there is a link-layer header. */
	if (!(asked & STRATUM_KEY_MAC) || in->type != ARPHRD_ETHER || mac_header == MAC_HEADER_UNSET ||
	    mac_header >= skb->network_header)
		return;
	if (bpf_probe_read_kernel(mac, sizeof(mac), skb->head + mac_header + 6))
		return;
	o->has_mac = 1;
	__builtin_memcpy(&o->mac_low, mac, 4);
	__builtin_memcpy(&o->mac_high, mac + 4, 2);
}

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP;
}

/* Two bytes at `at`, 0 when the packet ends before: no rule asks for port 0. */
static __always_inline __u16 port_at(struct bpf_dynptr *bytes, __u32 at)
{
	__be16 port = 0;

	return bpf_dynptr_read(&port, sizeof(port), bytes, at, 0) ? 0 : bpf_ntohs(port);
}

/* Moves `at` behind the extension headers of IPv6 (RFC 8200 §4); the upper layer, or 0 when none is to be seen. */
static __always_inline __u8 skip_extensions(struct bpf_dynptr *bytes, __u8 next, __u32 *at, int *later)
{
	for (int i = 0; i < EXTENSIONS; i++) {
		__u8 head[8];

		if (next != HOP_BY_HOP && next != ROUTING && next != FRAGMENT && next != AUTHENTICATION &&
		    next != DESTINATION_OPTIONS)
			return next;
		if (bpf_dynptr_read(head, sizeof(head), bytes, *at, 0))
			return 0;
		if (next == FRAGMENT && (head[2] || head[3] & 0xf8))
			*later = 1;
		*at += next == FRAGMENT ? 8 : next == AUTHENTICATION ? (head[1] + 2) * 4 : (head[1] + 1) * 8;
		next = head[0];
	}
	return 0;
}

struct iphdr_fields {
	__u8 version_length;
	__u8 unused[5];
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 dest;
};

struct ipv6hdr_fields {
	__u8 unused[6];
	__u8 next;
	__u8 hops;
	__u32 source[4];
	__u32 dest[4];
};

/* Fills the packet from its own headers. Not 0: it is shorter than they. */
static __always_inline int read_packet4(struct sk_buff *skb, struct filter_packet4 *p)
{
	struct iphdr_fields ip = {};
	struct bpf_dynptr bytes;
	__u32 at;

	if (bpf_dynptr_from_skb(skb, 0, &bytes) || bpf_dynptr_read(&ip, sizeof(ip), &bytes, 0, 0))
		return -1;
	p->source[0] = ip.source;
	p->dest[0] = ip.dest;
	p->protocol = ip.protocol;
	if (!has_ports(ip.protocol) || ip.fragment & bpf_htons(0x1fff))
		return 0;
	at = (ip.version_length & 15) * 4;
	p->source_port = port_at(&bytes, at);
	p->dest_port = port_at(&bytes, at + 2);
	return 0;
}

static __always_inline int read_packet6(struct sk_buff *skb, struct filter_packet6 *p)
{
	struct ipv6hdr_fields ip = {};
	struct bpf_dynptr bytes;
	__u32 at = sizeof(ip);
	int later = 0;

	if (bpf_dynptr_from_skb(skb, 0, &bytes) || bpf_dynptr_read(&ip, sizeof(ip), &bytes, 0, 0))
		return -1;
	__builtin_memcpy(p->source, ip.source, sizeof(ip.source));
	__builtin_memcpy(p->dest, ip.dest, sizeof(ip.dest));
	p->protocol = skip_extensions(&bytes, ip.next, &at, &later);
	if (!has_ports(p->protocol) || later)
		return 0;
	p->source_port = port_at(&bytes, at);
	p->dest_port = port_at(&bytes, at + 2);
	return 0;
}

/*
 * How a connection was opened, first member of its `tuplehash`. libbpf finds no type for struct nf_conn, because there is
 * an nf_conn___init besides; but where its members stand.
 */
static __always_inline struct nf_conntrack_tuple_hash *first_tuple(unsigned long connection)
{
	return bpf_rdonly_cast((void *)connection + bpf_core_field_offset(struct nf_conn, tuplehash),
			       bpf_core_type_id_kernel(struct nf_conntrack_tuple_hash));
}

/* Fills the packet from its connection: addresses and ports as they were before translation, fragments put together. */
#define READ_CONNECTION(words)                                                                                         \
	do {                                                                                                           \
		__u8 protocol = first->tuple.dst.protonum;                                                             \
                                                                                                                       \
		for (int i = 0; i < words; i++) {                                                                      \
			p->source[i] = first->tuple.src.u3.all[i];                                                     \
			p->dest[i] = first->tuple.dst.u3.all[i];                                                       \
		}                                                                                                      \
		p->protocol = protocol;                                                                                \
		if (has_ports(protocol)) {                                                                             \
			p->source_port = bpf_ntohs(first->tuple.src.u.all);                                            \
			p->dest_port = bpf_ntohs(first->tuple.dst.u.all);                                              \
		}                                                                                                      \
	} while (0)

static __always_inline void read_connection4(struct nf_conntrack_tuple_hash *first, struct filter_packet4 *p)
{
	READ_CONNECTION(1);
}

static __always_inline void read_connection6(struct nf_conntrack_tuple_hash *first, struct filter_packet6 *p)
{
	READ_CONNECTION(4);
}

/* A mark counts only while nft sees to it that nobody brings one. */
static __always_inline int admits_by_default(const struct filter_settings *settings, const struct sk_buff *skb)
{
	__u32 action = READ_ONCE(settings->action);

	return action == STRATUM_DEFAULT_ACCEPT ||
	       (action == STRATUM_DEFAULT_SPARE && skb->priority == STRATUM_SPARED_PRIORITY);
}

#define VERDICT(family)                                                                                                \
	static __always_inline int judge##family(struct bpf_nf_ctx *ctx, const struct filter_settings *settings,       \
						 unsigned long nfct, int standing)                                     \
	{                                                                                                              \
		struct filter_search##family search = {};                                                              \
		struct sk_buff *skb = ctx->skb;                                                                        \
		struct origin origin = {};                                                                             \
                                                                                                                       \
		search.generation = filter_generation(&settings);                                                      \
		if (nfct)                                                                                              \
			read_connection##family(first_tuple(nfct), &search.packet);                                    \
		else if (read_packet##family(skb, &search.packet))                                                     \
			return NF_DROP;                                                                                \
		if (settings->asked) {                                                                                 \
			read_origin(ctx, settings->asked, &origin);                                                    \
			search.packet.device = origin.device;                                                          \
			search.packet.has_mac = origin.has_mac;                                                        \
			search.packet.mac_low = origin.mac_low;                                                        \
			search.packet.mac_high = origin.mac_high;                                                      \
		}                                                                                                      \
		if (!filter_classify##family(&search, settings))                                                       \
			return standing || admits_by_default(settings, skb);                                           \
		if (standing && !(search.flags & STRATUM_RULE_FRESH))                                                  \
			return NF_ACCEPT;                                                                              \
		filter_count##family(&search, skb->len);                                                               \
		return search.flags & STRATUM_RULE_ACCEPT;                                                             \
	}                                                                                                              \
                                                                                                                       \
	/* What most packets are: of a connection that stands, while no drop is fresh. */                              \
	static __always_inline int verdict##family(struct bpf_nf_ctx *ctx)                                             \
	{                                                                                                              \
		struct filter_settings *settings = filter_settings_now();                                              \
		unsigned long nfct = ctx->skb->_nfct;                                                                  \
		__u32 info = nfct & NFCT_INFO;                                                                         \
		int standing;                                                                                          \
                                                                                                                       \
		if (!settings)                                                                                         \
			return NF_DROP;                                                                                \
		nfct &= ~NFCT_INFO;                                                                                    \
		standing = nfct && info != IP_CT_NEW;                                                                  \
		if (standing && (!settings->fresh || info != IP_CT_ESTABLISHED))                                       \
			return NF_ACCEPT;                                                                              \
		return judge##family(ctx, settings, nfct, standing);                                                   \
	}

VERDICT(4)
VERDICT(6)

SEC("netfilter") int firewall4(struct bpf_nf_ctx *ctx)
{
	return verdict4(ctx) ? NF_ACCEPT : NF_DROP;
}

SEC("netfilter") int firewall6(struct bpf_nf_ctx *ctx)
{
	return verdict6(ctx) ? NF_ACCEPT : NF_DROP;
}

/* What `explain` is asked, as the content of a frame; its answer takes the place of the question. */
struct question {
	__u32 unused[3]; /* so that a frame of any family is long enough to be one */
	__u32 family;
	union {
		struct filter_packet4 packet4;
		struct filter_packet6 packet6;
	};
	char device[16];
};

struct answer {
	__u64 id; /* 0: no rule, the default */
	__u32 accept;
	__u32 probes;
};

#define EXPLAIN(family)                                                                                                \
	static __noinline int explain##family(struct question *q, struct answer *a)                                    \
	{                                                                                                              \
		const struct filter_settings *settings = filter_settings_now();                                        \
		struct filter_search##family search = {};                                                              \
		int found;                                                                                             \
                                                                                                                       \
		if (!settings || !q || !a)                                                                             \
			return -1;                                                                                     \
		search.generation = filter_generation(&settings);                                                      \
		search.packet = q->packet##family;                                                                     \
		search.packet.device = filter_device(q->device);                                                       \
		found = filter_classify##family(&search, settings);                                                    \
		a->id = found ? search.id : 0;                                                                         \
		a->accept = found ? search.flags & STRATUM_RULE_ACCEPT : settings->action == STRATUM_DEFAULT_ACCEPT;    \
		a->probes = search.probes;                                                                             \
		return 0;                                                                                              \
	}

EXPLAIN(4)
EXPLAIN(6)

SEC("xdp") int explain(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct question *asked = data;
	struct answer *told = data;
	struct answer a = {};
	struct question q;

	if (data + sizeof(q) > (void *)(long)ctx->data_end)
		return -1;
	__builtin_memcpy(&q, asked, sizeof(q));
	if (q.family == 4 ? explain4(&q, &a) : explain6(&q, &a))
		return -1;
	__builtin_memcpy(told, &a, sizeof(a));
	return 0;
}
