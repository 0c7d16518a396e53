/*
 * How frames end: counted, and where somebody broke a rule also told, so rarely that no flood can fill the ring.
 */
#pragma once

#include "maps.h"

/* TCX_NEXT and TCX_DROP of linux/bpf.h from 6.6 on. */
#define PASS -1
#define DROP 2

#define SECOND 1000000000ULL

static __always_inline void tally(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&tallies, &what);

	if (count)
		*count += 1;
}

static __always_inline int drop(__u32 reason)
{
	tally(reason);
	return DROP;
}

/* True for the first EVENTS_PER_SECOND calls of a port and second. */
static __always_inline int may_tell(__u32 ifindex, __u64 now)
{
	__u64 second = now / SECOND << 32, first = second | 1, seen, *row = bpf_map_lookup_elem(&told, &ifindex);

	if (!row)
		return bpf_map_update_elem(&told, &ifindex, &first, BPF_NOEXIST) == 0;
	seen = *(volatile __u64 *)row;
	if (seen >> 32 << 32 != second && __sync_val_compare_and_swap(row, seen, first) == seen)
		return 1;
	return (__u32)__sync_fetch_and_add(row, 1) < STRATUM_EVENTS_PER_SECOND;
}

/* False when the ring is full. Not inline, so that the type information of the object shows the struct. */
static __noinline int tell(const struct violation_event *event)
{
	return event && bpf_ringbuf_output(&events, (void *)event, sizeof(*event), 0) == 0;
}

/* Tells that an endpoint is at another port than before. Not inline, as `tell`. */
static __noinline int tell_claim(const struct claim_event *event)
{
	return event && bpf_ringbuf_output(&events, (void *)event, sizeof(*event), 0) == 0;
}

/*
 * Counts a broken rule and tells of it at most once a second for the same MAC, port and reason. What is not told is
 * counted: in the row of the three, which the next event carries, or as TALLY_UNTOLD while there is no row. `vlans` is
 * outer | inner << 16.
 */
static __noinline int violation(struct __sk_buff *skb, __u64 mac, __u32 reason, __u32 address, __u32 vlans)
{
	__u64 now = bpf_ktime_get_ns(), last;
	struct violation_event event = {now, mac, 0, skb->ifindex, reason, address, {vlans, vlans >> 16}};
	struct violation_key key = {mac, event.ifindex, reason};
	struct violation *row = bpf_map_lookup_elem(&violations, &key);

	tally(reason);
	if (!row) {
		struct violation first = {now, 0};

		if (!may_tell(key.ifindex, now) || bpf_map_update_elem(&violations, &key, &first, BPF_NOEXIST) ||
		    !tell(&event))
			tally(STRATUM_TALLY_UNTOLD);
		return DROP;
	}
	last = row->last;
	if (now - last >= SECOND && may_tell(key.ifindex, now) &&
	    __sync_val_compare_and_swap(&row->last, last, now) == last) {
		event.suppressed = __sync_lock_test_and_set(&row->suppressed, 0);
		if (tell(&event))
			return DROP;
		__sync_fetch_and_add(&row->suppressed, event.suppressed);
	}
	__sync_fetch_and_add(&row->suppressed, 1);
	return DROP;
}
