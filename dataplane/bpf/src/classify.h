/*
 * The classifier: which rule of the firewall decides a packet, at a cost that does not depend on how many there are.
 *
 * Tuple space search with merged tuples. A table stands for a mask; every rule is filed, under what the mask leaves of
 * it, in a table whose mask asks for no more than the rule does. A packet is looked up in each table once, and compared
 * with the few rules of the run that it finds there. `filter_tables` says of each table the best rank in it, so that
 * tables that cannot improve on what was found are passed over.
 *
 * All of a family lies in one arena, an array of cells that the agent has mapped into its memory. What both sides share
 * is changed by single 64-bit stores: a slot of the hash goes from one run to another at once. A rule is in force from
 * one generation to another; a packet reads the generation once, and so meets all of a change or nothing of it. What no
 * generation needs any longer is used anew only after an RCU grace period.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"
#include "order.h"

struct filter_settings {
	__u32 generation;
	/* STRATUM_DEFAULT_*: what happens to a packet that no rule decides. */
	__u32 action;
	/* Number of rules that hold for connections that stand, too. */
	__u32 fresh;
	/* STRATUM_KEY_*: fields that some rule asks for. */
	__u32 asked;
	/* International atomic time less UTC. */
	__u64 tai_ns;
	__u32 seed;
	/* Whether the agent has set the default. */
	__u32 decided;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_settings);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} filter_settings SEC(".maps");

struct filter_table {
	/* Best rank in the table or better; the highest number while there is no such table. */
	__u64 best;
	__u32 source_mask[4];
	__u32 dest_mask[4];
	__u16 source_port_mask;
	__u16 dest_port_mask;
	/* STRATUM_KEY_* */
	__u32 fields;
	__u64 unused[2];
};

struct filter_tables {
	__u64 count;
	__u64 unused[7];
	struct filter_table table[STRATUM_FILTER_TABLES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32); /* STRATUM_FILTER_IPV* */
	__type(value, struct filter_tables);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} filter_tables SEC(".maps");

/* Numbers of the devices that rules name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_FILTER_DEVICES);
	__type(key, char[16]);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} filter_devices SEC(".maps");

/* The first cell of an arena. */
struct filter_head {
	/* Lines of the hash less one, which is all ones in binary. */
	__u32 line_mask;
};

struct filter_hits {
	__u64 packets;
	__u64 bytes;
};

/* Seconds since 1970, or since midnight; both ends belong to it. */
struct filter_window {
	__u64 from;
	__u64 to;
	__u32 daily;
};

static __always_inline struct filter_settings *filter_settings_now(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&filter_settings, &only);
}

/*
 * The generation for a packet, and the settings as they are from it on: what comes into force with a generation stands in all
 * maps before it (Settings in dataplane/bpf/firewall/settings.ts), and must not be read earlier.
 */
static __always_inline __u32 filter_generation(const struct filter_settings **settings)
{
	__u32 generation = READ_ONCE((*settings)->generation);

	*settings = (const void *)*settings + after(generation);
	return generation;
}

/* The number of a device by its name, 0 when no rule names it. */
static __always_inline __u16 filter_device(const char *name)
{
	__u32 *number = bpf_map_lookup_elem(&filter_devices, name);

	return number ? *number : 0;
}

static __always_inline __u32 filter_mix(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * STRATUM_FILTER_MIX;
	return hash ^ hash >> 15;
}

static __always_inline __u32 filter_finish(__u32 hash)
{
	hash *= STRATUM_FILTER_FINISH;
	return hash ^ hash >> 13;
}

/* Whether a rule from one generation to another (0: for ever) is in force. */
static __always_inline int filter_in_force(__u32 generation, __u32 from, __u32 until)
{
	if (from && (__s32)(generation - from) < 0)
		return 0;
	return !until || (__s32)(generation - until) < 0;
}

static __always_inline int filter_window_open(const struct filter_window *window, const struct filter_settings *settings)
{
	__u64 now = (bpf_ktime_get_tai_ns() - settings->tai_ns) / 1000000000;

	if (!window->daily)
		return now >= window->from && now <= window->to;
	now %= 86400;
	return window->from < window->to ? now >= window->from && now <= window->to :
					   now >= window->from || now <= window->to;
}

#define WORDS 1
#define CELL STRATUM_FILTER_CELL4
#define IN_FAMILY(name) name##4
#define FAMILY STRATUM_FILTER_IPV4
#include "classify_family.h"
#undef WORDS
#undef CELL
#undef IN_FAMILY
#undef FAMILY

#define WORDS 4
#define CELL STRATUM_FILTER_CELL6
#define IN_FAMILY(name) name##6
#define FAMILY STRATUM_FILTER_IPV6
#include "classify_family.h"
#undef WORDS
#undef CELL
#undef IN_FAMILY
#undef FAMILY
