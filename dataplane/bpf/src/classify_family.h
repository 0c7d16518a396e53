/* The classifier for one address family; included by classify.h for each, with names that end in its number. */

/* A packet that opens a connection, or one without. Addresses in network order, ports in that of the host. */
struct IN_FAMILY(filter_packet) {
	__u32 source[WORDS];
	__u32 dest[WORDS];
	/* 0 for a protocol other than TCP and UDP. */
	__u16 source_port;
	__u16 dest_port;
	__u32 mac_low;
	__u16 mac_high;
	/* Whether there is a MAC address. */
	__u8 has_mac;
	__u8 protocol;
	/* 0 for one that no rule names. */
	__u16 device;
};

struct IN_FAMILY(filter_rule) {
	__u64 rank;
	__u32 from;
	__u32 until;
	/* Cells of its struct filter_hits, and of its struct filter_window or 0. */
	__u32 hits;
	__u32 window;
	__u32 id_low;
	__u16 id_high;
	/* From here on 0 means any. */
	__u16 device;
	__u16 source_port;
	__u16 dest_port_first;
	__u16 dest_port_last;
	__u8 protocol;
	__u8 flags; /* STRATUM_RULE_* */
	__u32 mac_low;
	__u16 mac_high;
	__u16 unused;
	__u32 source[WORDS];
	__u32 dest[WORDS];
	__u32 source_mask[WORDS];
	__u32 dest_mask[WORDS];
};

/* Slots are tag << 36 | rules << 24 | cell of the first; 0 is none. */
struct IN_FAMILY(filter_line) {
	__u64 slot[CELL / 8 - 1];
	__u64 next;
};

struct IN_FAMILY(filter_cell) {
	union {
		struct filter_head head;
		struct IN_FAMILY(filter_line) line;
		struct IN_FAMILY(filter_rule) rule;
		struct filter_hits hits;
		struct filter_window window;
		__u64 words[CELL / 8];
	};
};

/* What one look-up gives: the arena is an array of these. No run of up to so many rules lies in two. */
struct IN_FAMILY(filter_page) {
	struct IN_FAMILY(filter_cell) cell[STRATUM_FILTER_PAGE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
		__uint(max_entries, 1);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, STRATUM_FILTER_PAGE * CELL); /* struct filter_page */
	});
} IN_FAMILY(filter_arena) SEC(".maps");

struct IN_FAMILY(filter_search) {
	struct IN_FAMILY(filter_packet) packet;
	const struct filter_settings *settings;
	const struct filter_tables *tables;
	void *arena;
	__u32 generation;
	__u32 line_mask;
	/* The rule found: rank and flags as in its cell, and its hits. */
	__u64 rank;
	__u64 id;
	__u32 flags;
	__u32 hits;
	/* The page that was looked at last, and its place in the arena. */
	struct IN_FAMILY(filter_page) *page;
	__u32 place;
	/* First cell of the run that is looked through. */
	__u32 cell;
	/* Tables looked into. */
	__u32 probes;
};

static __always_inline struct IN_FAMILY(filter_cell) *IN_FAMILY(filter_cell_at)(void *arena, __u32 cell)
{
	__u32 at = cell / STRATUM_FILTER_PAGE;
	struct IN_FAMILY(filter_page) *page = bpf_map_lookup_elem(arena, &at);

	return page ? &page->cell[cell % STRATUM_FILTER_PAGE] : 0;
}

static __always_inline int IN_FAMILY(filter_matches)(const struct IN_FAMILY(filter_packet) *p,
						     const struct IN_FAMILY(filter_rule) *rule)
{
	__u32 differs = 0;

	for (int i = 0; i < WORDS; i++)
		differs |= ((p->source[i] ^ rule->source[i]) & rule->source_mask[i]) |
			   ((p->dest[i] ^ rule->dest[i]) & rule->dest_mask[i]);
	if (differs)
		return 0;
	if (rule->protocol && rule->protocol != p->protocol)
		return 0;
	if (p->dest_port < rule->dest_port_first || p->dest_port > rule->dest_port_last)
		return 0;
	if (rule->source_port && rule->source_port != p->source_port)
		return 0;
	if (rule->device && rule->device != p->device)
		return 0;
	return !(rule->flags & STRATUM_RULE_MAC) ||
	       (p->has_mac && rule->mac_low == p->mac_low && rule->mac_high == p->mac_high);
}

/* What else a rule that matches must be: in force, and within its window. */
static __always_inline int IN_FAMILY(filter_holds)(struct IN_FAMILY(filter_search) *search,
						   const struct IN_FAMILY(filter_rule) *rule)
{
	struct IN_FAMILY(filter_cell) *window;

	if (!filter_in_force(search->generation, READ_ONCE(rule->from), READ_ONCE(rule->until)))
		return 0;
	if (!rule->window)
		return 1;
	window = IN_FAMILY(filter_cell_at)(search->arena, rule->window);
	return window && filter_window_open(&window->window, search->settings);
}

/* One rule of a run. Rules stand by rank: 1 ends the looking. */
static long IN_FAMILY(filter_rule_step)(__u32 at, void *context)
{
	struct IN_FAMILY(filter_search) *search = context;
	__u32 cell = search->cell + at, place = cell / STRATUM_FILTER_PAGE;
	struct IN_FAMILY(filter_rule) *rule;

	if (place != search->place) {
		search->page = bpf_map_lookup_elem(search->arena, &place);
		search->place = place;
	}
	if (!search->page)
		return 1;
	rule = &search->page->cell[cell % STRATUM_FILTER_PAGE].rule;
	if (rule->rank >= search->rank)
		return 1;
	if (!IN_FAMILY(filter_matches)(&search->packet, rule) || !IN_FAMILY(filter_holds)(search, rule))
		return 0;
	search->rank = rule->rank;
	search->flags = rule->flags;
	search->hits = rule->hits;
	search->id = (__u64)rule->id_high << 32 | rule->id_low;
	return 1;
}

static __always_inline __u32 IN_FAMILY(filter_hash)(const struct IN_FAMILY(filter_search) *search,
						    const struct filter_table *table, __u32 number)
{
	const struct IN_FAMILY(filter_packet) *p = &search->packet;
	__u32 hash = filter_mix(search->settings->seed, number);

	for (int i = 0; i < WORDS; i++) {
		hash = filter_mix(hash, p->source[i] & table->source_mask[i]);
		hash = filter_mix(hash, p->dest[i] & table->dest_mask[i]);
	}
	hash = filter_mix(hash, (__u32)(p->dest_port & table->dest_port_mask) << 16 |
					(p->source_port & table->source_port_mask));
	if (table->fields & STRATUM_KEY_MAC)
		hash = filter_mix(filter_mix(hash, p->mac_low), p->mac_high);
	if (table->fields & STRATUM_KEY_DEVICE)
		hash = filter_mix(hash, p->device);
	return filter_finish(hash);
}

/* The slot of the run under this hash, 0 when there is none. */
static __always_inline __u64 IN_FAMILY(filter_slot)(struct IN_FAMILY(filter_search) *search, __u32 hash)
{
	__u32 cell = 1 + (hash & search->line_mask);
	__u64 tag = hash >> 4;

	if (!tag)
		tag = 1;
	for (int i = 0; i < STRATUM_FILTER_LINES; i++) {
		struct IN_FAMILY(filter_cell) *line = IN_FAMILY(filter_cell_at)(search->arena, cell);

		if (!line)
			return 0;
#pragma unroll
		for (int j = 0; j < CELL / 8 - 1; j++) {
			__u64 slot = READ_ONCE(line->line.slot[j]);

			if (slot >> 36 == tag)
				return slot;
		}
		cell = READ_ONCE(line->line.next);
		if (!cell)
			return 0;
	}
	return 0;
}

static long IN_FAMILY(filter_table_step)(__u32 at, void *context)
{
	struct IN_FAMILY(filter_search) *search = context;
	const struct filter_table *table;
	__u64 slot;

	if (at >= STRATUM_FILTER_TABLES)
		return 1;
	table = &search->tables->table[at];
	if (READ_ONCE(table->best) >= search->rank)
		return 0;
	search->probes++;
	slot = IN_FAMILY(filter_slot)(search, IN_FAMILY(filter_hash)(search, table, at));
	if (!slot)
		return 0;
	search->cell = slot & 0xffffff;
	bpf_loop(slot >> 24 & 0xfff, IN_FAMILY(filter_rule_step), search, 0);
	return 0;
}

/*
 * Looks for the rule that decides `search->packet` in `search->generation`, and leaves it in `search`. 0 when there is
 * none: then the default action of `settings` holds. The caller has read the generation first (filter_generation) and then
 * filled the packet: what rules of a generation ask for, and the numbers of their devices, are there before it.
 */
static __always_inline int IN_FAMILY(filter_classify)(struct IN_FAMILY(filter_search) *search,
						      const struct filter_settings *settings)
{
	/* Tables and arena are looked up, and so read, after the generation. */
	__u32 only = after(search->generation), family = FAMILY + only;
	struct IN_FAMILY(filter_page) *first;
	__u64 count;

	search->settings = settings;
	search->rank = ~0ULL;
	search->tables = bpf_map_lookup_elem(&filter_tables, &family);
	search->arena = bpf_map_lookup_elem(&IN_FAMILY(filter_arena), &only);
	if (!search->tables || !search->arena)
		return 0;
	first = bpf_map_lookup_elem(search->arena, &only);
	if (!first)
		return 0;
	search->line_mask = first->cell[0].head.line_mask;
	search->page = first;
	search->place = 0;
	count = search->tables->count;
	if (count > STRATUM_FILTER_TABLES)
		count = STRATUM_FILTER_TABLES;
	bpf_loop(count, IN_FAMILY(filter_table_step), search, 0);
	return search->rank != ~0ULL;
}

/* Counts a packet of `bytes` for the rule found. */
static __always_inline void IN_FAMILY(filter_count)(struct IN_FAMILY(filter_search) *search, __u64 bytes)
{
	struct IN_FAMILY(filter_cell) *hits = IN_FAMILY(filter_cell_at)(search->arena, search->hits);

	if (!hits)
		return;
	__sync_fetch_and_add(&hits->hits.packets, 1);
	__sync_fetch_and_add(&hits->hits.bytes, bytes);
}
