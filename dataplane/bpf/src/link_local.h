/*
 * Whose a link-local address is. The EUI-64 address of a MAC is that MAC's. Any other (RFC 7217 and the like) is the
 * endpoint's that uses it first, and each has one: that which it used last. So nobody speaks for a neighbour, and nobody
 * can keep addresses from others but the one that he uses.
 */
#pragma once

#include "drop.h"

struct link_key {
	__u32 net;
	__u32 id_low;
	__u32 id_high;
};

/*
 * Program: the slot that has claimed a link-local address. A row counts while SLOT_LINK of its slot agrees and somebody
 * is bound there, so that nobody has to take it away.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS);
	__type(key, struct link_key);
	__type(value, __u32); /* slot */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} links6 SEC(".maps");

static __always_inline __u64 *slot_word(__u32 slot, __u32 which)
{
	__u32 at = slot << STRATUM_SLOT_WORD_BITS | which;

	return bpf_map_lookup_elem(&slots, &at);
}

/* Interface id of the EUI-64 address of a MAC, as it stands in a packet (RFC 4291 appendix A). */
static __always_inline __u64 eui64(__u64 mac)
{
	return ((mac & 0xffffff) ^ 0x02) | 0xfeff000000ULL | (mac >> 24 & 0xffffff) << 40;
}

static __always_inline int is_eui64(__u64 id)
{
	return (id >> 24 & 0xffff) == 0xfeff;
}

static __always_inline int holds(__u32 slot, __u64 id)
{
	__u64 *link = slot_word(slot, STRATUM_SLOT_LINK), *bound = slot_word(slot, STRATUM_SLOT_TRUTH);

	return link && bound && *(volatile __u64 *)link == id && *(volatile __u64 *)bound;
}

/* True when the slot has the address with this interface id in its net, from now on if it was nobody's. */
static __noinline int claim_link(__u32 net, __u32 slot, __u64 id)
{
	__u64 before, *link = slot_word(slot, STRATUM_SLOT_LINK);
	struct link_key key = {net, id, id >> 32}, former = {net};
	__u32 *row = bpf_map_lookup_elem(&links6, &key);

	if (!link)
		return 0;
	before = *(volatile __u64 *)link;
	if (row && *row == slot && before == id)
		return 1;
	if (row && *row != slot) {
		if (holds(*row, id))
			return 0;
		bpf_map_delete_elem(&links6, &key);
		row = 0;
	}
	/* Of two that come at once one is told no. */
	if (!row && bpf_map_update_elem(&links6, &key, &slot, BPF_NOEXIST))
		return 0;
	if (__sync_val_compare_and_swap(link, before, id) != before)
		return 0;
	if (before && before != id) {
		former.id_low = before;
		former.id_high = before >> 32;
		row = bpf_map_lookup_elem(&links6, &former);
		if (row && *row == slot)
			bpf_map_delete_elem(&links6, &former);
	}
	return 1;
}

/* True when the MAC bound in the slot may speak by and for this address of 16 bytes, of fe80::/10. */
static __always_inline int owns_link(const __u8 *address, __u32 net, __u32 slot, __u64 mac)
{
	__u64 prefix = 0, id;

	__builtin_memcpy(&prefix, address, 8);
	__builtin_memcpy(&id, address + 8, 8);
	if (prefix != 0x80fe)
		return 0;
	if (id == eui64(mac))
		return 1;
	return id && !is_eui64(id) && claim_link(net, slot, id);
}
