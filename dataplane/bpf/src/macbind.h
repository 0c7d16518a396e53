/*
 * MAC bindings: a port that one of them names, or every port when one names all, admits bound MACs only. One that names a
 * port holds its MAC to that port, also when it is an endpoint's.
 */
#pragma once

#include "drop.h"
#include "parse.h"

static __always_inline __u32 setting(__u32 which)
{
	__u32 *value = bpf_map_lookup_elem(&settings, &which);

	return value ? *value : 0;
}

/* The stricter lock of those that hold for the port. */
static __always_inline __u32 lock_of(__u32 ifindex)
{
	__u32 *named = bpf_map_lookup_elem(&locks, &ifindex), every = setting(STRATUM_SETTING_LOCK);

	return named && *named > every ? *named : every;
}

/* True when the binding admits its MAC here. */
static __always_inline int admits(const struct macbind *row, const struct frame *f, __u32 ifindex)
{
	return (!row->ifindex || row->ifindex == ifindex) && (!row->vlan || (f->tags > 0 && row->vlan == f->vids[0]));
}

/* Tells of a soft lock and lets pass. */
static __always_inline __u32 judge_lock(struct __sk_buff *skb, const struct frame *f, __u32 lock)
{
	if (lock == STRATUM_LOCK_HARD)
		return STRATUM_DROP_MACBIND;
	violation(skb, f->source, STRATUM_TALLY_MACBIND_SOFT, f->sender, f->vids[0] | f->vids[1] << 16);
	return 0;
}

/*
 * 0 or the reason against the MAC of an endpoint, for which only bindings count that name a port: its own, and those that
 * lock this port. `home`: it is at this port already.
 */
static __always_inline __u32 judge_named_macbind(struct __sk_buff *skb, const struct frame *f, int home)
{
	__u32 ifindex = skb->ifindex, lock = 0, *named;
	struct macbind *row;

	if (setting(STRATUM_SETTING_MACBIND) < STRATUM_BINDINGS_NAME_PORTS)
		return 0;
	row = bpf_map_lookup_elem(&macbinds, &f->source);
	if (row && admits(row, f, ifindex))
		return 0;
	if (row && row->ifindex)
		lock = row->lock;
	if (!home) {
		named = bpf_map_lookup_elem(&locks, &ifindex);
		if (named && *named > lock)
			lock = *named;
	}
	return lock ? judge_lock(skb, f, lock) : 0;
}

/* 0 or the reason against a MAC that no endpoint has. */
static __always_inline __u32 judge_macbind(struct __sk_buff *skb, const struct frame *f)
{
	struct macbind *row;
	__u32 lock;
	__u64 mac;

	if (!setting(STRATUM_SETTING_MACBIND))
		return 0;
	lock = lock_of(skb->ifindex);
	if (lock == 0)
		return 0;
	/* The agent locks when the bindings are there. */
	mac = f->source + after(lock);
	row = bpf_map_lookup_elem(&macbinds, &mac);
	if (row && admits(row, f, skb->ifindex))
		return 0;
	return judge_lock(skb, f, lock);
}
