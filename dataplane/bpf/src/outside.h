/*
 * MACs behind uplinks that belong to no net, such as the router's. The bridge learns a MAC at any port, so an open port
 * could draw another's frames to itself: it is refused a MAC that lives behind an uplink. One frame from there is not
 * enough, or anybody on the wire could silence a guest by a frame that bears its MAC. A guest that comes from another
 * node is let in when that has been silent for so long, or at once when a MAC binding names its port.
 */
#pragma once

#include "macbind.h"

/* Program: how a MAC was heard behind uplinks. */
struct outside {
	/* ns of CLOCK_MONOTONIC, renewed once a second. */
	__u64 heard;
	/* In how many seconds, none of them more than OUTSIDE_SECONDS after the one before. */
	__u64 times;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_OUTSIDE_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct outside);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} outside SEC(".maps");

/*
 * Program: a bit for the MACs that were heard often enough, some of others by chance. None is taken back: a look-up in
 * `outside` that finds nothing is all that it costs. Every frame of an open port would pay for that look-up otherwise.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << (STRATUM_OUTSIDE_BITS - 5));
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} outside_bits SEC(".maps");

/* The word of a MAC, and its bit there. */
static __always_inline __u32 *outside_word(__u64 mac, __u32 *bit)
{
	__u32 hash = (__u32)(mac ^ mac >> 24) * 2654435761u >> (32 - STRATUM_OUTSIDE_BITS), at = hash >> 5;

	*bit = 1u << (hash & 31);
	return bpf_map_lookup_elem(&outside_bits, &at);
}

static __always_inline void mark_outside(__u64 mac)
{
	__u32 bit, *word = outside_word(mac, &bit);

	if (word && !(*(volatile __u32 *)word & bit))
		__sync_fetch_and_or(word, bit);
}

/* Nanoseconds since then. Signed: another CPU may have written it just now. */
static __always_inline __s64 since(const struct outside *row, __u64 now)
{
	return now - *(volatile __u64 *)&row->heard;
}

static __always_inline void heard_outside(__u64 mac)
{
	struct outside first = {bpf_ktime_get_ns(), 1}, *row = bpf_map_lookup_elem(&outside, &mac);
	__s64 silent;

	if (!row) {
		bpf_map_update_elem(&outside, &mac, &first, BPF_ANY);
		return;
	}
	silent = since(row, first.heard);
	if (silent <= (__s64)SECOND)
		return;
	row->times = silent > (__s64)(STRATUM_OUTSIDE_SECONDS * SECOND) ? 1 : row->times + 1;
	*(volatile __u64 *)&row->heard = first.heard;
	if (row->times >= STRATUM_OUTSIDE_TIMES)
		mark_outside(mac);
}

/* A binding names this very port. */
static __always_inline int is_named_here(struct __sk_buff *skb, const struct frame *f)
{
	struct macbind *row = bpf_map_lookup_elem(&macbinds, &f->source);

	return row && row->ifindex == skb->ifindex && admits(row, f, skb->ifindex);
}

/* 0 or the reason against the source MAC of a frame that comes in by an open port, or by the overlay of such. */
static __always_inline __u32 judge_outside(struct __sk_buff *skb, const struct frame *f)
{
	__u32 bit, *word = outside_word(f->source, &bit);
	struct outside *row;

	if (!word || !(*(volatile __u32 *)word & bit))
		return 0;
	row = bpf_map_lookup_elem(&outside, &f->source);
	if (!row || row->times < STRATUM_OUTSIDE_TIMES)
		return 0;
	if (since(row, bpf_ktime_get_ns()) > (__s64)(STRATUM_OUTSIDE_SECONDS * SECOND))
		return 0;
	return setting(STRATUM_SETTING_MACBIND) && is_named_here(skb, f) ? 0 : STRATUM_DROP_OUTSIDE_MAC;
}
