/* Private networks: who may send as whom, and where a MAC of a net is. */
#pragma once

#include "dhcp.h"
#include "ipv6.h"
#include "macbind.h"
#include "outside.h"

#define MAC_BITS 0xffffffffffffULL

/* What judging a frame found out about its sender. */
struct sender {
	__u32 net;
	__u32 slot;
	/* STAMP_ROUTED when it uses a routed address. */
	__u32 routed;
};

/*
 * Where the word of a guarded port stands in `ports`, and the word, read once; none for any other port. All that is said of a port
 * is in the word, so loads need no order here.
 */
static __always_inline __u64 *port_word(__u32 ifindex, __u64 *word)
{
	__u32 set = ifindex * (__u32)STRATUM_PORT_HASH >> (32 - STRATUM_PORT_SET_BITS) << STRATUM_PORT_WAY_BITS;

	for (__u32 way = 0; way < 1 << STRATUM_PORT_WAY_BITS; way++) {
		__u32 at = set + way;
		__u64 *entry = bpf_map_lookup_elem(&ports, &at);

		if (!entry)
			break;
		*word = *(volatile __u64 *)entry;
		if (*word >> 32 == ifindex)
			return entry;
	}
	return 0;
}

/* False for a port that is not guarded; else its net, 0 while it is open, and PORT_*. */
static __always_inline int port_of(__u32 ifindex, __u32 *net, __u32 *kind)
{
	__u64 word;

	if (!port_word(ifindex, &word))
		return 0;
	*net = word & STRATUM_STAMP_NET;
	*kind = word & (STRATUM_PORT_UPLINK | STRATUM_PORT_OVERLAY);
	return 1;
}

static __always_inline int net_of_port(__u32 ifindex, __u32 *net)
{
	__u32 kind;

	return port_of(ifindex, net, &kind);
}

/* Gives an open port to a net. False when it is another's by now. */
static __always_inline int claim(__u32 ifindex, __u32 net)
{
	__u64 open = (__u64)ifindex << 32, seen, *entry = port_word(ifindex, &seen);

	if (!entry)
		return 0;
	seen = __sync_val_compare_and_swap(entry, open, open | net);
	return seen == open || seen == (open | net);
}

/* Takes it back. Whoever else claimed it for the same net does so again with the next frame. */
static __always_inline void unclaim(__u32 ifindex, __u32 net)
{
	__u64 open = (__u64)ifindex << 32, seen, *entry = port_word(ifindex, &seen);

	if (entry)
		__sync_val_compare_and_swap(entry, open | net, open);
}

static __always_inline struct endpoint *endpoint_of(__u32 net, __u64 mac)
{
	struct endpoint_key key = {net, mac, mac >> 32};

	return bpf_map_lookup_elem(&by_mac, &key);
}

/* True when the MAC is the one bound in the endpoint's slot; `found` is then filled from the row. */
static __always_inline int is_bound(const struct endpoint *row, __u64 mac, struct endpoint *found, __u64 *bound)
{
	__u64 word = READ_ONCE(*(const __u64 *)&row->home), *truth;

	found->address = READ_ONCE(row->address);
	found->home = word;
	found->slot = word >> 32;
	/* Last: were the row another's by now, this one would not be bound any longer (SlotTable.bind). */
	truth = slot_word(found->slot + after(found->address), STRATUM_SLOT_TRUTH);
	if (!truth)
		return 0;
	*bound = *(volatile __u64 *)truth;
	return ((*bound ^ mac) & MAC_BITS) == 0;
}

/* STAMP_ROUTED or 0 in `routed` when the slot may use the address. */
static __always_inline int owns(__u32 net, __u32 address, __u32 slot, __u32 *routed)
{
	struct address_key key = {net, address};

#pragma unroll
	for (int look = 0; look < 2; look++) {
		struct address *row = bpf_map_lookup_elem(&addresses, &key);

		if (row && row->slot == slot) {
			*routed = row->routed ? STRATUM_STAMP_ROUTED : 0;
			return 1;
		}
	}
	return 0;
}

static __always_inline int is_private(__u32 address)
{
	struct prefix key = {32, address};

	return bpf_map_lookup_elem(&private_ranges, &key) != 0;
}

static __always_inline int serves_dhcp(__u32 net)
{
	struct net *row = bpf_map_lookup_elem(&nets, &net);

	return row && row->flags & STRATUM_NET_DHCP;
}

/* 0 or the reason against the address that a bound MAC uses. */
static __always_inline __u32 judge_address(struct __sk_buff *skb, const struct frame *f, __u32 address,
					   struct sender *s)
{
	if (f->type == TYPE_IPV6)
		return judge_ipv6(skb, f->at, f->source, s->net, s->slot);
	if (is_arp(f)) {
		if (f->arp_mac != f->source)
			return STRATUM_DROP_ARP;
		/* 0: a probe (RFC 5227), or the announcement that a hypervisor sends by RARP. */
		if (f->sender == 0 || f->sender == address || owns(s->net, f->sender, s->slot, &s->routed))
			return 0;
		return STRATUM_DROP_ARP;
	}
	if (f->type != TYPE_IPV4)
		return 0;
	if (may_be_dhcp(f) && serves_dhcp(s->net)) {
		__u32 reason = judge_dhcp(skb, f->at, f->payload, f->fragment ? 0 : f->source);

		if (reason)
			return reason;
	}
	if (f->sender == address)
		return 0;
	if (f->sender == 0)
		return f->ports == UDP_FROM_TO(DHCP_CLIENT, DHCP_SERVER) && !f->fragment ? 0 : STRATUM_DROP_ZERO_ADDRESS;
	return owns(s->net, f->sender, s->slot, &s->routed) ? 0 : STRATUM_DROP_ADDRESS;
}

/*
 * 0 or the reason against port `ifindex` as the new home of an endpoint. Whoever is there is never driven out: its port must
 * be gone from br-work, and whether another may follow says the agent.
 */
static __always_inline __u32 judge_move(const struct endpoint *row, struct endpoint *found)
{
	__u32 net;

	/* Should the row have become another's meanwhile, `move` finds its slot changed. */
	found->claims = *(volatile __u32 *)&row->claims;
	if (found->claims == STRATUM_CLAIM_NONE || (found->home && found->claims == STRATUM_CLAIM_FIRST))
		return STRATUM_DROP_OTHER_PORT;
	return found->home && net_of_port(found->home, &net) ? STRATUM_DROP_HOME : 0;
}

/* Makes the port the home of the endpoint, and tells of it where somebody has to know. False when another was faster. */
static __always_inline int move(struct __sk_buff *skb, struct endpoint *row, const struct endpoint *found, __u32 net,
				__u64 mac)
{
	__u64 slot = (__u64)found->slot << 32, was = slot | found->home, seen;
	struct claim_event event = {0, mac, net, found->home, skb->ifindex, STRATUM_TALLY_CLAIMED};

	/* Of the slot that was judged, or of none. */
	seen = __sync_val_compare_and_swap((__u64 *)&row->home, was, slot | skb->ifindex);
	if (seen != was)
		return seen == (slot | skb->ifindex);
	if (!found->home && found->claims != STRATUM_CLAIM_FIRST)
		return 1;
	event.time = bpf_ktime_get_ns();
	tally(STRATUM_TALLY_CLAIMED);
	if (!tell_claim(&event))
		tally(STRATUM_TALLY_CLAIM_UNTOLD);
	return 1;
}

/*
 * The agent unbinds first, then closes the port unless somebody is there, then looks once more. So whoever has claimed the
 * port or become at home there says so, claims it once more, and then asks whether he is bound still: whichever of the two
 * comes last sees what the other did. 0 or the reason. Not static: the verifier of Linux 6.1 then proves it once and not for
 * each way that leads here, which would be too many for it.
 */
__noinline __u32 settle(__u32 ifindex, __u32 net, __u32 slot, __u64 mac, __u32 open)
{
	__u64 here, *home, *truth;
	struct endpoint *row;

	home = slot_word(slot, STRATUM_SLOT_HOME);
	truth = slot_word(slot, STRATUM_SLOT_TRUTH);
	if (!home || !truth)
		return STRATUM_DROP_STALE;
	__sync_lock_test_and_set(home, (__u64)net << 32 | ifindex);
	if (!claim(ifindex, net))
		return STRATUM_DROP_CLAIM;
	row = endpoint_of(net, mac);
	here = row ? *(volatile __u64 *)&row->home : 0;
	if (here == ((__u64)slot << 32 | ifindex) && ((*(volatile __u64 *)truth ^ mac) & MAC_BITS) == 0)
		return 0;
	/* The agent has placed it elsewhere, or has unbound it. */
	if (here >> 32 == slot)
		*(volatile __u64 *)home = (__u64)net << 32 | (__u32)here;
	if (open)
		unclaim(ifindex, net);
	return STRATUM_DROP_STALE;
}

/* 0 or the reason against a frame in net `s->net`, to which the port belongs or, while it is open, will belong. */
static __always_inline __u32 judge_bound(struct __sk_buff *skb, const struct frame *f, int open, struct sender *s)
{
	struct endpoint *row = endpoint_of(s->net, f->source), found;
	__u32 ifindex = skb->ifindex, reason;
	__u64 bound;

	if (!row) {
		reason = judge_macbind(skb, f);
		return reason ? reason : STRATUM_DROP_UNBOUND;
	}
	if (!is_bound(row, f->source, &found, &bound)) {
		/* The row may have become another's between the look-up and the reading. */
		row = endpoint_of(s->net, f->source);
		if (!row || !is_bound(row, f->source, &found, &bound))
			return STRATUM_DROP_STALE;
	}
	if (found.home != ifindex) {
		reason = judge_move(row, &found);
		if (reason)
			return reason;
	}
	reason = judge_named_macbind(skb, f, found.home == ifindex);
	if (reason)
		return reason;
	s->slot = found.slot;
	s->routed = bound & STRATUM_TRUTH_ROUTED ? STRATUM_STAMP_ROUTED : 0;
	reason = judge_address(skb, f, found.address, s);
	if (reason)
		return reason;
	if (open && !claim(ifindex, s->net))
		return STRATUM_DROP_CLAIM;
	if (found.home != ifindex && !move(skb, row, &found, s->net, f->source)) {
		if (open)
			unclaim(ifindex, s->net);
		return STRATUM_DROP_HOME;
	}
	return open || found.home != ifindex ? settle(ifindex, s->net, s->slot, f->source, open) : 0;
}

/* 0 or the reason against a frame that comes in by a port of net `s->net`, 0 for an open one. */
static __always_inline __u32 judge_sender(struct __sk_buff *skb, const struct frame *f, struct sender *s)
{
	int open = s->net == 0;
	__u32 reason;

	if (open) {
		__u32 *net = bpf_map_lookup_elem(&net_of_mac, &f->source);

		if (net)
			s->net = *net;
		if (s->net == STRATUM_MAC_AMBIGUOUS)
			return STRATUM_DROP_AMBIGUOUS;
	}
	if (s->net)
		return judge_bound(skb, f, open, s);
	if (f->sender && is_private(f->sender))
		return STRATUM_DROP_PRIVATE_ADDRESS;
	reason = judge_macbind(skb, f);
	return reason ? reason : judge_outside(skb, f);
}
