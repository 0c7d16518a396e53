/*
 * Flows: both directions of what two ends say to each other in one row, counted where a packet is met first. That is where
 * it enters br-work, by a port, by an uplink or from the node, so each is counted once whatever its way out.
 *
 * A row is in the state that its flags and times tell (dataplane/bpf/flow/state.ts); nothing has to look after it. One
 * that is over begins anew with the next packet, others go when the map needs their room.
 */
#pragma once

#include "ipv6.h"
#include "usage.h"

/* RFC 9293 section 3.1 */
#define FLOW_FIN 0x01
#define FLOW_SYN 0x02
#define FLOW_RST 0x04
#define FLOW_ACK 0x10

/* IANA protocol numbers of those that begin with two ports. */
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136

/* Seconds in units of the flow clock. */
#define FLOW_TIME(seconds) ((__u32)((seconds) * 1000000000ULL >> STRATUM_FLOW_CLOCK_BITS))

/*
 * The two ends in order of their addresses and ports, so that both directions are one key. `scope` is the net << 8 | IP
 * protocol. All else as it stands in the packet; ports are 0 where there are none.
 */
struct flow_key4 {
	__u32 scope;
	__u32 low;
	__u32 high;
	__u16 low_port;
	__u16 high_port;
};

struct flow_key6 {
	__u32 scope;
	__u16 low_port;
	__u16 high_port;
	__u64 low[2];
	__u64 high[2];
};

/* What stands at 0 is of the low end, at 1 of the high one. Times: nanoseconds of CLOCK_MONOTONIC >> FLOW_CLOCK_BITS. */
struct flow {
	/* Sent by that end. */
	__u64 bytes[2];
	__u64 packets[2];
	__u32 first;
	__u32 last;
	/* All flags of TCP that it has sent. */
	__u8 tcp[2];
	/* The end that began, and the one that is a workload, or stands for one. */
	__u8 initiator;
	__u8 inside;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_FLOW4_ROWS);
	__type(key, struct flow_key4);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_FLOW6_ROWS);
	__type(key, struct flow_key6);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows6 SEC(".maps");

/* One element: 1 while no flows are kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows_off SEC(".maps");

/* Where a packet is met. */
#define MET_WORKLOAD 0
#define MET_UPLINK 1
#define MET_NODE 2

/* A packet as a flow sees it. */
struct met {
	struct wire wire;
	__u64 destination;
	__u32 net;
	/* Where the network header begins. */
	__u32 at;
	__u8 where;
	/* The end that has sent it. */
	__u8 side;
	__u8 flags;
	__u8 protocol;
	/* Source and destination. */
	__u16 ports[2];
};

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP || protocol == PROTOCOL_SCTP ||
	       protocol == PROTOCOL_UDPLITE;
}

/* Ports and flags; `at` is where the transport header begins. What cannot be read is 0. */
static __always_inline void read_transport(struct __sk_buff *skb, struct met *m, __u32 at)
{
	__u8 header[14] = {};

	if (!has_ports(m->protocol))
		return;
	if (m->protocol != PROTOCOL_TCP) {
		bpf_skb_load_bytes(skb, at, m->ports, sizeof(m->ports));
		return;
	}
	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return;
	m->ports[0] = *(__u16 *)header;
	m->ports[1] = *(__u16 *)(header + 2);
	m->flags = header[13];
}

/* True for the end that the flow's bytes are told by: a workload, as far as one is known. */
static __always_inline __u8 inside_of(const struct met *m)
{
	__u8 other = !m->side;

	if (m->where == MET_WORKLOAD)
		return m->side;
	if (m->where == MET_UPLINK)
		return other;
	if (is_multicast(m->destination) || (m->net && endpoint_of(m->net, m->destination)))
		return other;
	return !m->net && bpf_map_lookup_elem(&usage_open, &m->destination) ? other : m->side;
}

/* True when the packet belongs to a flow that comes after this one (D89). */
static __always_inline int is_over(const struct flow *f, const struct met *m, __u32 now)
{
	__u32 age = now - f->last;
	__u8 both = f->tcp[0] & f->tcp[1], either = f->tcp[0] | f->tcp[1];

	/* Another CPU may have been later by a tick. */
	if ((__s32)age < 0)
		return 0;
	if (m->protocol != PROTOCOL_TCP)
		return age > FLOW_TIME(STRATUM_FLOW_IDLE);
	if (either & FLOW_RST || both & FLOW_FIN)
		return age > FLOW_TIME(STRATUM_FLOW_KEPT) || (m->flags & (FLOW_SYN | FLOW_ACK)) == FLOW_SYN;
	return age > (both & FLOW_ACK ? FLOW_TIME(STRATUM_FLOW_IDLE_TCP) : FLOW_TIME(STRATUM_FLOW_IDLE_HALF_OPEN));
}

static __always_inline void count_flow(void *map, const void *key, const struct met *m)
{
	struct flow *f = bpf_map_lookup_elem(map, key);
	__u32 now = bpf_ktime_get_coarse_ns() >> STRATUM_FLOW_CLOCK_BITS;
	__u32 side = m->side & 1;

	if (!f || is_over(f, m, now)) {
		struct flow fresh = {.first = now, .last = now, .inside = inside_of(m)};
		__u8 answers = (m->flags & (FLOW_SYN | FLOW_ACK)) == (FLOW_SYN | FLOW_ACK);

		fresh.initiator = answers ? !side : side;
		/* Where another CPU was first, its row stands. */
		bpf_map_update_elem(map, key, &fresh, f ? BPF_ANY : BPF_NOEXIST);
		f = bpf_map_lookup_elem(map, key);
		if (!f)
			return;
	}
	__sync_fetch_and_add(&f->bytes[side], m->wire.bytes);
	__sync_fetch_and_add(&f->packets[side], m->wire.packets);
	if (f->last != now)
		f->last = now;
	if ((f->tcp[side] & m->flags) != m->flags)
		f->tcp[side] |= m->flags;
}

/* What is read of an IPv4 header. */
struct ends4 {
	__u32 from;
	__u32 to;
	__u16 fragment;
	__u8 length;
	__u8 protocol;
};

static __always_inline void read_ends4(struct ends4 *e, const __u8 *header)
{
	e->length = (header[0] & 0xf) * 4;
	e->fragment = *(__u16 *)(header + 6);
	e->protocol = header[9];
	e->from = *(__u32 *)(header + 12);
	e->to = *(__u32 *)(header + 16);
}

static __noinline int count_flow4(struct __sk_buff *skb, struct met *m)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u8 header[IPV4_HEADER];
	struct flow_key4 key;
	struct ends4 e;

	if (!m)
		return 0;
	/* Nearly always linear by now, and a helper costs a third of all this. */
	data += m->at & 31;
	if (data + IPV4_HEADER <= end) {
		read_ends4(&e, data);
	} else {
		if (bpf_skb_load_bytes(skb, m->at, header, sizeof(header)))
			return 0;
		read_ends4(&e, header);
	}
	m->protocol = e.protocol;
	/* Only the first fragment has ports; the others are a flow without. */
	if (!(e.fragment & bpf_htons(0x1fff)))
		read_transport(skb, m, m->at + e.length);
	m->side = e.from > e.to || (e.from == e.to && m->ports[0] > m->ports[1]);
	key.scope = m->net << 8 | m->protocol;
	key.low = m->side ? e.to : e.from;
	key.high = m->side ? e.from : e.to;
	key.low_port = m->ports[m->side & 1];
	key.high_port = m->ports[!m->side];
	count_flow(&flows4, &key, m);
	return 0;
}

static __noinline int count_flow6(struct __sk_buff *skb, struct met *m)
{
	__u64 ends[4];
	__u8 *from = (__u8 *)ends;
	struct flow_key6 key;
	__u32 at, next;
	__u8 first;

	if (!m || bpf_skb_load_bytes(skb, m->at + 6, &first, 1) ||
	    bpf_skb_load_bytes(skb, m->at + 8, from, sizeof(ends)))
		return 0;
	at = m->at + IPV6_HEADER;
	next = first;
	if (skip_extensions(skb, &at, &next))
		return 0;
	m->protocol = next;
	/* Behind a fragment header is no transport header that all fragments have. */
	read_transport(skb, m, at);
	m->side = ends[0] > ends[2] || (ends[0] == ends[2] && (ends[1] > ends[3] || (ends[1] == ends[3] &&
		  m->ports[0] > m->ports[1])));
	key.scope = m->net << 8 | m->protocol;
	key.low[0] = m->side ? ends[2] : ends[0];
	key.low[1] = m->side ? ends[3] : ends[1];
	key.high[0] = m->side ? ends[0] : ends[2];
	key.high[1] = m->side ? ends[1] : ends[3];
	key.low_port = m->ports[m->side & 1];
	key.high_port = m->ports[!m->side];
	count_flow(&flows6, &key, m);
	return 0;
}

/* Counts a packet where it is met first. `f` has been filled by `parse_link` at least, `where` is MET_*. */
static __always_inline void meet(struct __sk_buff *skb, const struct frame *f, __u32 net, __u8 where)
{
	struct met m = {.destination = f->destination, .net = net, .at = f->at, .where = where};
	__u32 zero = 0, *off;

	measure(skb, &m.wire);
	if (where == MET_WORKLOAD)
		usage_up(skb, net, f->source, f->type == TYPE_IPV4 ? f->sender : 0, &m.wire);
	off = bpf_map_lookup_elem(&flows_off, &zero);
	if (off && *off)
		return;
	if (f->type == TYPE_IPV4)
		count_flow4(skb, &m);
	else if (f->type == TYPE_IPV6)
		count_flow6(skb, &m);
}
