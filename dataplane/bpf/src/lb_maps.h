/*
 * What the load balancer knows. The agent writes virtual addresses, backends and rings, the programs write connections;
 * all of it is pinned, so that connections go on without the agent.
 *
 * Addresses and ports stand in network order everywhere.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"
#include "order.h"

/* A backend of one virtual address: one cache line. */
struct lb_backend {
	__u32 address[4];
	/* Changes whenever the row is given to another backend: connections of the one before do not mean it. 0: empty. */
	__u32 generation;
	/* 0: the port that the client asked for. */
	__u16 port;
	__u8 state; /* STRATUM_LB_UP and so on */
	__u8 unused;
	/* The way there, as the routing table told the program lately: unit of time << 32 | ifindex. */
	__u64 way;
	/* MAC addresses of the next hop and of the device, in 48 bits each; above them flags, and the MTU. */
	__u64 next_hop;
	__u64 device;
	/* The node's own address towards it. */
	__u32 own[4];
};

/*
 * Order of loads: a row is filled, its generation last, before any ring leads to it, and rings and connections lead here by its
 * number, so its address is never older than they. Only the way is written under way, by programs: see lb_way_known().
 */

/* Flags above lb_backend.next_hop. */
#define LB_WAY_ON_LINK 1
#define LB_WAY_UNRESOLVED 2
#define LB_WAY_LOCAL 4
#define LB_WAY_NONE 8

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STRATUM_LB_BACKENDS);
	__type(key, __u32);
	__type(value, struct lb_backend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_backends SEC(".maps");

/* Whether the way to a backend is that of now; what else is read of the backend then is as new. */
static __always_inline int lb_way_known(struct lb_backend **b, __u32 now)
{
	__u64 way = READ_ONCE((*b)->way);

	*b = (void *)*b + after(way);
	return (__u32)(way >> 32) == now;
}

/*
 * Connections that a backend serves: those that are established, and UDP ones that are not idle. Changed by atomic additions only;
 * nothing else is read by what stands here, so no order is needed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STRATUM_LB_BACKENDS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_active SEC(".maps");

/* What the sweep counts, and by how much the last one found `lb_active` wrong. */
struct lb_recount {
	__s32 found;
	__s32 wrong;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STRATUM_LB_BACKENDS);
	__type(key, __u32);
	__type(value, struct lb_recount);
} lb_recounts SEC(".maps");

/* Which backends get new connections. */
struct lb_ring {
	__u64 digest; /* of what the ring was made of; the agent's */
	__u32 live;
	__u32 turn;
	/* Places. Hash algorithms: all slots; others: the first `live` of them. */
	__u8 place[STRATUM_LB_RING];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, STRATUM_LB_VIPS);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, sizeof(struct lb_ring));
	});
} lb_rings SEC(".maps");

struct lb_vip {
	__u32 index;
	__u8 algorithm; /* STRATUM_LB_ROUND_ROBIN and so on */
	__u8 flags;	/* STRATUM_LB_DSR */
	__u16 unused;
};

struct lb_settings {
	/* Not 0: some virtual address stands for every port. */
	__u32 any_port;
	__u32 generation;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_settings);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_settings SEC(".maps");

struct lb_hints {
	__u32 words[(1 << STRATUM_LB_HINT_BITS) / 32];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_hints);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_hints SEC(".maps");

/*
 * Whether there may be a row for an address, folded into one word, and a port. A bit is set before its row is written and cleared
 * after it has gone: who reads the bit too early does not meet the row either, as the packet before. So no order is needed.
 */
static __always_inline int lb_hinted(const struct lb_hints *hints, __u32 address, __u16 port, __u16 protocol)
{
	__u32 hash = ((address * STRATUM_LB_HINT_MIX) ^ ((__u32)port << 8 | protocol)) * STRATUM_LB_HINT_FINISH;

	hash >>= 32 - STRATUM_LB_HINT_BITS;
	return hints->words[hash >> 5] >> (hash & 31) & 1;
}

/* Names that the operator gave: of a virtual address under its index | 1 << 31, of a backend under its row. */
struct lb_label {
	char id[64];
	__u32 weight;
	__u32 algorithm; /* position in the list of all algorithms */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_LB_BACKENDS + STRATUM_LB_VIPS);
	__type(key, __u32);
	__type(value, struct lb_label);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_labels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STRATUM_LB_DEVICES);
	__type(key, __u32); /* ifindex */
	__type(value, __u32); /* STRATUM_LB_INSIDE */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STRATUM_LB_TALLIES);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_tallies SEC(".maps");

/* Bits of lb_flow.state. */
#define LB_FIN_CLIENT 1
#define LB_FIN_BACKEND 2
#define LB_RESET 4
#define LB_OPEN 8    /* counted in lb_active */
#define LB_CLOSED 16 /* and taken off again */
#define LB_TRANSLATED 32
#define LB_DIRECT 64	 /* only the client's side is seen */
#define LB_PLAUSIBLE 128 /* what the client sends next makes it a connection */
#define LB_ENDED 256	 /* by the firewall: the client's packets are judged anew, the backend's are dropped */

/* Whether lb_active counts a flow of this state. */
#define LB_COUNTS(state) (((state) & (LB_OPEN | LB_CLOSED | LB_ENDED)) == LB_OPEN)

/* Ticks of the running kernel in a second (CONFIG_HZ). */
const volatile __u32 lb_hz = 250;

/* The count of ticks is the cheapest clock there is: one load. */
#define LB_NOW ((__u32)(bpf_jiffies64() >> STRATUM_LB_UNIT_BITS))

/* How many openings a CPU has taken down in a unit of time. */
struct lb_pace {
	__u32 unit;
	__u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_pace);
} lb_paces SEC(".maps");

/* Openings a second and CPU that are taken down before this is a flood. */
const volatile __u32 lb_openings = STRATUM_LB_OPENINGS;

/* Counts an opening; whether there are too many. */
static __always_inline int lb_flooded(__u32 now)
{
	__u32 only = 0;
	struct lb_pace *pace = bpf_map_lookup_elem(&lb_paces, &only);

	if (!pace)
		return 0;
	if (pace->unit != now) {
		pace->unit = now;
		pace->count = 0;
	}
	return pace->count++ >= ((__u64)lb_openings << STRATUM_LB_UNIT_BITS) / lb_hz;
}

static __always_inline int lb_tally(__u32 row, int verdict)
{
	__u64 *count = bpf_map_lookup_elem(&lb_tallies, &row);

	if (count)
		(*count)++;
	return verdict;
}

static __always_inline void lb_count(__u32 backend, __s64 by)
{
	__u64 *active = bpf_map_lookup_elem(&lb_active, &backend);

	if (active)
		__sync_fetch_and_add(active, by);
}
