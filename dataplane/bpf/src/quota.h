/*
 * Quotas: bytes that a MAC has sent and got in the month (UTC), counted, compared and enforced here, so that they hold
 * while no agent runs. A slot begins the next month by itself, with the first frame after the instant that the agent gave.
 */
#pragma once

#include "account.h"

/* QUOTA_SLOT_WORDS words a slot. Agent: all but QUOTA_USED, QUOTA_MONTH and QUOTA_TOLD, which it only begins with. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STRATUM_QUOTA_ROWS << STRATUM_QUOTA_WORD_BITS);
	__type(key, __u32); /* slot << QUOTA_WORD_BITS | QUOTA_* */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} quotas SEC(".maps");

/* Agent: when the month ends (CLOCK_MONOTONIC), and which it is, written in this order; QUOTA_CLOCK_*. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STRATUM_QUOTA_CLOCK_ROWS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} quota_clock SEC(".maps");

struct quota_event {
	__u64 used;
	/* QUOTA_WARNED or QUOTA_EXCEEDED. */
	__u32 level;
	__u32 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STRATUM_QUOTA_EVENT_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} quota_events SEC(".maps");

static __always_inline __u64 *quota_word(__u32 slot, __u32 which)
{
	__u32 at = slot << STRATUM_QUOTA_WORD_BITS | which;

	return bpf_map_lookup_elem(&quotas, &at);
}

/* `which` may be more than the number, by what is read before (order.h). */
static __always_inline __u64 clock_word(__u32 which)
{
	__u64 *word = bpf_map_lookup_elem(&quota_clock, &which);

	return word ? *(volatile __u64 *)word : 0;
}

/* The month first: with the end of an earlier one it would be a month that is not yet. */
static __always_inline __u64 month_now(void)
{
	__u64 month = clock_word(STRATUM_QUOTA_CLOCK_MONTH);

	return month + (bpf_ktime_get_ns() >= clock_word(STRATUM_QUOTA_CLOCK_END + after(month)));
}

/* Not inline, so that the type information of the object shows the struct. */
static __noinline int tell_quota(const struct quota_event *event)
{
	return event && bpf_ringbuf_output(&quota_events, (void *)event, sizeof(*event), 0) == 0;
}

/* Whoever finds the level higher than what was told tells it, once. */
static __always_inline void reach(__u32 slot, __u64 used, __u64 limit, __u64 warn)
{
	__u64 level = used >= limit ? STRATUM_QUOTA_EXCEEDED : STRATUM_QUOTA_WARNED;
	__u64 seen, *told = quota_word(slot, STRATUM_QUOTA_TOLD);
	struct quota_event event = {used, level, slot};

	if (used < warn || !told)
		return;
	seen = *(volatile __u64 *)told;
	if (seen < level && __sync_val_compare_and_swap(told, seen, level) == seen && !tell_quota(&event))
		*(volatile __u64 *)told = seen;
}

/*
 * Counts a frame of the slot. Returns QUOTA_BLOCK for one that must not pass, which is not counted then, QUOTA_THROTTLE
 * for one that passes slowly, else 0.
 */
static __noinline int spend(struct __sk_buff *skb, __u32 slot)
{
	__u64 *used, *month, *told, *warn, *action, *limit = quota_word(slot, STRATUM_QUOTA_LIMIT);
	__u64 seen, current, most, now_used;
	struct wire wire;

	most = limit ? READ_ONCE(*limit) : 0;
	if (!most)
		return 0;
	/* The agent writes the limit last (Quotas.put). */
	slot += after(most);
	used = quota_word(slot, STRATUM_QUOTA_USED);
	month = quota_word(slot, STRATUM_QUOTA_MONTH);
	told = quota_word(slot, STRATUM_QUOTA_TOLD);
	warn = quota_word(slot, STRATUM_QUOTA_WARN);
	action = quota_word(slot, STRATUM_QUOTA_ACTION);
	if (!used || !month || !told || !warn || !action)
		return 0;
	current = month_now();
	seen = *(volatile __u64 *)month;
	if (seen < current && __sync_val_compare_and_swap(month, seen, current) == seen) {
		*(volatile __u64 *)told = 0;
		__sync_lock_test_and_set(used, 0);
	}
	if (*action == STRATUM_QUOTA_BLOCK && *(volatile __u64 *)used >= most)
		return STRATUM_QUOTA_BLOCK;
	measure(skb, &wire);
	now_used = __sync_fetch_and_add(used, wire.bytes) + wire.bytes;
	reach(slot, now_used, most, *warn);
	return *action == STRATUM_QUOTA_THROTTLE && now_used >= most ? STRATUM_QUOTA_THROTTLE : 0;
}
