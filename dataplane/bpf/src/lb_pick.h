/* Which backend gets a new connection. */
#pragma once

#include "lb_maps.h"

/* Final mixing of Bob Jenkins' lookup3 (public domain), as the kernel's jhash_3words(). */
static __always_inline __u32 lb_rotate(__u32 word, int by)
{
	return word << by | word >> (32 - by);
}

static __always_inline __u32 lb_hash(__u32 a, __u32 b, __u32 c)
{
	a += 0xdeadbef3;
	b += 0xdeadbef3;
	c += 0xdeadbef3;
	c ^= b;
	c -= lb_rotate(b, 14);
	a ^= c;
	a -= lb_rotate(c, 11);
	b ^= a;
	b -= lb_rotate(a, 25);
	c ^= b;
	c -= lb_rotate(b, 16);
	a ^= c;
	a -= lb_rotate(c, 4);
	b ^= a;
	b -= lb_rotate(a, 14);
	c ^= b;
	c -= lb_rotate(b, 24);
	return c;
}

static __always_inline __u32 lb_row(__u32 vip, const struct lb_ring *ring, __u32 slot)
{
	/* What clang derives from the remainder, the verifier does not. */
	asm volatile("" : "+r"(slot));
	if (slot >= STRATUM_LB_RING)
		return vip * STRATUM_LB_PLACES;
	return vip * STRATUM_LB_PLACES + ring->place[slot];
}

static __always_inline __u64 lb_load(__u32 row)
{
	__u64 *active = bpf_map_lookup_elem(&lb_active, &row);

	return active && (__s64)*active > 0 ? *active : 0;
}

/* Of equals each gets its turn. */
static __always_inline __u32 lb_least(__u32 vip, const struct lb_ring *ring, __u32 live, __u32 turn)
{
	__u32 best = 0, count = live < STRATUM_LB_EXACT ? live : STRATUM_LB_EXACT;
	__u64 least = ~0ULL;

	if (live > STRATUM_LB_EXACT) {
		__u32 one = lb_row(vip, ring, bpf_get_prandom_u32() % live);
		__u32 other = lb_row(vip, ring, bpf_get_prandom_u32() % live);

		return lb_load(other) < lb_load(one) ? other : one;
	}
	for (__u32 i = 0; i < STRATUM_LB_EXACT; i++) {
		__u32 row;
		__u64 load;

		if (i >= count)
			break;
		row = lb_row(vip, ring, (i + turn) % count);
		load = lb_load(row);
		if (load < least) {
			least = load;
			best = row;
		}
	}
	return best;
}

/*
 * Row of a live backend, or -1 when there is none. `by_source` and `by_all`: hashes of the source, of the whole tuple.
 * `steady`: by these, so that the next packet gets the same one although nothing is known of this.
 */
__noinline long lb_pick(struct lb_vip *vip, __u32 by_source, __u32 by_all, int steady)
{
	__u32 only = 0, index, algorithm, live, turn;
	struct lb_ring *ring;
	void *rings;

	if (!vip)
		return -1;
	index = vip->index;
	algorithm = vip->algorithm;
	rings = bpf_map_lookup_elem(&lb_rings, &index);
	if (!rings)
		return -1;
	ring = bpf_map_lookup_elem(rings, &only);
	if (!ring)
		return -1;
	live = ring->live;
	if (live == 0)
		return -1;
	if (algorithm == STRATUM_LB_HASH)
		return lb_row(index, ring, by_all % STRATUM_LB_RING);
	if (algorithm == STRATUM_LB_SOURCE_HASH)
		return lb_row(index, ring, by_source % STRATUM_LB_RING);
	if (steady)
		return lb_row(index, ring, by_all % live);
	turn = __sync_fetch_and_add(&ring->turn, 1);
	if (algorithm == STRATUM_LB_LEAST_CONN)
		return lb_least(index, ring, live, turn);
	return lb_row(index, ring, turn % live);
}
