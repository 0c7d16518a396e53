/*
 * Tenants: one whose traffic is blocked neither sends nor gets anything, and one with a limit sends and gets no more than
 * that, all its nets on this node together.
 *
 * A limit is a token bucket of one word, so that all CPUs share it without a lock: the instant at which everything that
 * passed is paid for at the rate. As far as that is ahead of now, so much of the burst is used up. A frame passes while any
 * of it is left, whatever its size, and may leave a debt: a policer that asks for the whole of a 64 kB frame starves TCP.
 */
#pragma once

#include "account.h"

static __always_inline struct tenant_net *tenant_of(__u32 net)
{
	__u32 only = 0, *any = bpf_map_lookup_elem(&any_tenant_net, &only);

	return net && any && *any ? bpf_map_lookup_elem(&tenant_nets, &net) : 0;
}

/* Frames that workloads of this node neither send nor get, such as those between two uplinks, are blocked as well. */
static __always_inline int is_blocked(__u32 net)
{
	struct tenant_net *row = tenant_of(net);

	return row && row->flags & STRATUM_TENANT_BLOCKED;
}

/* False when the burst is used up. */
static __always_inline int pay(__u64 *paid, __u64 rate, __u64 bytes)
{
	__u64 now = bpf_ktime_get_ns(), seen = *(volatile __u64 *)paid, debt = seen > now ? seen - now : 0;
	__u64 price = bytes * 8 * SECOND / rate, burst = STRATUM_TENANT_BURST_BYTES * 8 * SECOND / rate;

	if (burst < STRATUM_TENANT_BURST_NS)
		burst = STRATUM_TENANT_BURST_NS;
	if (debt >= (bytes > STRATUM_TENANT_SMALL_BYTES ? burst : 2 * burst))
		return 0;
	/* Where another CPU was faster, what it wrote is no longer in the past. */
	if (__sync_val_compare_and_swap(paid, seen, now + debt + price) != seen)
		__sync_fetch_and_add(paid, price);
	return 1;
}

/* 0 or the reason against a frame that a workload of the net sends (`up`) or gets. */
static __noinline int judge_tenant(struct __sk_buff *skb, __u32 net, int up)
{
	struct tenant_net *row = tenant_of(net);
	struct bucket *bucket;
	struct wire wire;
	__u64 rate;

	if (!row)
		return 0;
	if (row->flags & STRATUM_TENANT_BLOCKED)
		return STRATUM_DROP_TENANT_BLOCKED;
	rate = row->rate;
	if (!rate)
		return 0;
	bucket = bpf_map_lookup_elem(&buckets, &row->bucket);
	if (!bucket)
		return 0;
	measure(skb, &wire);
	return pay(up ? &bucket->up : &bucket->down, rate, wire.bytes) ? 0 : STRATUM_DROP_TENANT_LIMIT;
}
