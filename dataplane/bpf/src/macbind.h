/* MAC bindings: a port that one of them names, or every port when one names all, admits bound MACs only. */
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

/* 0 or the reason against a MAC that no endpoint has. A soft lock tells and lets pass. */
static __always_inline __u32 judge_macbind(struct __sk_buff *skb, const struct frame *f)
{
	struct macbind *row;
	__u32 lock;

	if (!setting(STRATUM_SETTING_MACBIND))
		return 0;
	lock = lock_of(skb->ifindex);
	if (lock == 0)
		return 0;
	row = bpf_map_lookup_elem(&macbinds, &f->source);
	if (row && (!row->ifindex || row->ifindex == skb->ifindex) &&
	    (!row->vlan || (f->tags > 0 && row->vlan == f->vids[0])))
		return 0;
	if (lock == STRATUM_LOCK_HARD)
		return STRATUM_DROP_MACBIND;
	violation(skb, f->source, STRATUM_TALLY_MACBIND_SOFT, f->sender, f->vids[0] | f->vids[1] << 16);
	return 0;
}
