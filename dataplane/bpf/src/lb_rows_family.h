/* What is known of virtual addresses and connections, for one address family; included by lb_family.h. */

struct IN_FAMILY(lb_tuple) {
	__u32 source[WORDS];
	__u32 dest[WORDS];
	__u16 source_port;
	__u16 dest_port;
	__u32 protocol;
};

struct IN_FAMILY(lb_frontend) {
	__u32 address[WORDS];
	__u16 port;
	__u16 protocol;
};

struct IN_FAMILY(lb_flow) {
	__u32 backend;
	__u32 generation;
	__u32 last; /* unit of time in which a packet was seen */
	__u32 state;
	__u32 ifindex; /* where the client is, and by which MAC addresses */
	__u8 client[6];
	__u8 node[6];
	/* Not 0: what the backend takes for the client. */
	__u16 own_port;
	__u16 unused;
	__u32 own[WORDS];
};

struct IN_FAMILY(lb_sharers) {
	__u32 count;
	struct IN_FAMILY(lb_frontend) by[STRATUM_LB_SHARERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_LB_VIPS);
	__type(key, struct IN_FAMILY(lb_frontend));
	__type(value, struct lb_vip);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_vips) SEC(".maps");

/* By address and port of a backend: the virtual addresses that it serves. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_LB_BACKENDS);
	__type(key, struct IN_FAMILY(lb_frontend));
	__type(value, struct IN_FAMILY(lb_sharers));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_served) SEC(".maps");

/* One entry a connection, under the tuple that the client sends. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct IN_FAMILY(lb_tuple));
	__type(value, struct IN_FAMILY(lb_flow));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_flows) SEC(".maps");

/*
 * What clients have begun, before anything comes of it: only who has been answered by a backend and goes on has a
 * connection, and its entry is copied to the others. So a flood of openings, or of segments of no connection, drives out
 * its like. Entries that were copied age here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BEGUN);
	__type(key, struct IN_FAMILY(lb_tuple));
	__type(value, struct IN_FAMILY(lb_flow));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_begun) SEC(".maps");

/* Connections whose client is translated as well: what the backend sends -> what the client sends. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_LB_TRANSLATED);
	__type(key, struct IN_FAMILY(lb_tuple));
	__type(value, struct IN_FAMILY(lb_tuple));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_translated) SEC(".maps");

/* The same of those that have begun. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BEGUN);
	__type(key, struct IN_FAMILY(lb_tuple));
	__type(value, struct IN_FAMILY(lb_tuple));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_translating) SEC(".maps");

/* Ports of datagrams that come in fragments, of which only the first has them. */
struct IN_FAMILY(lb_datagram) {
	__u32 source[WORDS];
	__u32 dest[WORDS];
	__u32 id;
	__u32 protocol;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_LB_FRAGMENTS);
	__type(key, struct IN_FAMILY(lb_datagram));
	__type(value, __u32); /* as they stand in the packet */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} IN_FAMILY(lb_fragments) SEC(".maps");

/* What the stack has no room for: a connection while it is made and whom it is with, a tuple that is looked for. */
struct IN_FAMILY(lb_scratch) {
	struct lb_vip vip;
	struct IN_FAMILY(lb_flow) flow;
	struct IN_FAMILY(lb_tuple) tuple;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct IN_FAMILY(lb_scratch));
} IN_FAMILY(lb_scratches) SEC(".maps");

static __always_inline struct IN_FAMILY(lb_scratch) *IN_FAMILY(lb_scratch_now)(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&IN_FAMILY(lb_scratches), &only);
}

static __always_inline void IN_FAMILY(lb_copy)(__u32 *to, const __u32 *from)
{
	for (int i = 0; i < WORDS; i++)
		to[i] = from[i];
}

static __always_inline int IN_FAMILY(lb_same)(const __u32 *one, const __u32 *other)
{
	__u32 differs = 0;

	for (int i = 0; i < WORDS; i++)
		differs |= one[i] ^ other[i];
	return !differs;
}

static __always_inline __u32 IN_FAMILY(lb_fold)(const __u32 *address)
{
	__u32 folded = address[0];

	for (int i = 1; i < WORDS; i++)
		folded = lb_hash(folded, address[i], i);
	return folded;
}

/* Checksum difference of one address for another; several may be added before lb_sum64(). */
static __always_inline __u64 IN_FAMILY(lb_difference)(const __u32 *before, const __u32 *after)
{
	__u64 sum = 0;

	for (int i = 0; i < WORDS; i++)
		sum += (__u64)(__u32)~before[i] + after[i];
	return sum;
}

/* A connection, or what is to become one. */
static __always_inline struct IN_FAMILY(lb_flow) *IN_FAMILY(lb_known)(const struct IN_FAMILY(lb_tuple) *t)
{
	struct IN_FAMILY(lb_flow) *f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), t);

	return f ? f : bpf_map_lookup_elem(&IN_FAMILY(lb_begun), t);
}

/* The tuple by which the backend answers a client that is translated. */
static __always_inline void IN_FAMILY(lb_back)(struct IN_FAMILY(lb_tuple) *back, const struct IN_FAMILY(lb_tuple) *t,
					       const struct lb_backend *b, const struct IN_FAMILY(lb_flow) *f)
{
	IN_FAMILY(lb_copy)(back->source, b->address);
	IN_FAMILY(lb_copy)(back->dest, f->own);
	back->source_port = b->port ? b->port : t->dest_port;
	back->dest_port = f->own_port;
	back->protocol = t->protocol;
}

static __always_inline struct lb_vip *IN_FAMILY(lb_vip_of)(const __u32 *address, __u16 port, __u16 protocol, int any)
{
	struct IN_FAMILY(lb_frontend) key = {};
	struct lb_vip *vip;

	IN_FAMILY(lb_copy)(key.address, address);
	key.port = port;
	key.protocol = protocol;
	vip = bpf_map_lookup_elem(&IN_FAMILY(lb_vips), &key);
	if (vip || !any)
		return vip;
	key.port = 0;
	return bpf_map_lookup_elem(&IN_FAMILY(lb_vips), &key);
}

static __always_inline struct IN_FAMILY(lb_sharers) *
	IN_FAMILY(lb_served_by)(const __u32 *address, __u16 port, __u16 protocol, int any)
{
	struct IN_FAMILY(lb_frontend) key = {};
	struct IN_FAMILY(lb_sharers) *found;

	IN_FAMILY(lb_copy)(key.address, address);
	key.port = port;
	key.protocol = protocol;
	found = bpf_map_lookup_elem(&IN_FAMILY(lb_served), &key);
	if (found || !any)
		return found;
	key.port = 0;
	return bpf_map_lookup_elem(&IN_FAMILY(lb_served), &key);
}
