/* VLAN policy: locked VLANs, and the VLANs that carry nets between nodes, which no workload may inject into. */
#pragma once

#include "drop.h"
#include "parse.h"

static __always_inline __u32 vlan_policy(__u32 vid)
{
	__u32 *policy = bpf_map_lookup_elem(&vlans, &vid);

	return policy ? *policy : 0;
}

/* 0 or the reason against a frame that a workload or the node sends. */
static __always_inline __u32 judge_vlans(const struct frame *f)
{
	__u32 outer = f->tags > 0 ? vlan_policy(f->vids[0]) : 0, inner = f->tags > 1 ? vlan_policy(f->vids[1]) : 0;

	if ((outer | inner) & STRATUM_VLAN_LOCKED)
		return STRATUM_DROP_VLAN_LOCKED;
	return outer | inner ? STRATUM_DROP_VLAN_OF_NET : 0;
}

/* 0 or the reason against a frame from an uplink; `net` becomes that of its outer tag. */
static __always_inline __u32 judge_uplink_vlans(const struct frame *f, __u32 *net)
{
	__u32 outer = f->tags > 0 ? vlan_policy(f->vids[0]) : 0, inner = f->tags > 1 ? vlan_policy(f->vids[1]) : 0;

	if ((outer | inner) & STRATUM_VLAN_LOCKED)
		return STRATUM_DROP_VLAN_LOCKED;
	*net = outer & STRATUM_STAMP_NET;
	return 0;
}
