/* Connections that nobody uses any longer, for one address family; included by lb_family.h. */

static __always_inline int IN_FAMILY(lb_is_idle)(const struct IN_FAMILY(lb_flow) *f, const struct lb_sweep *sweep,
						 __u32 seconds)
{
	__s32 idle = sweep->now - f->last;

	return idle > 0 && idle > seconds * lb_hz >> STRATUM_LB_UNIT_BITS;
}

/* One connection in the sweep: is it still one, and does it count? */
static long IN_FAMILY(lb_visit)(void *map, struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f,
				struct lb_sweep *sweep)
{
	__u32 row = f->backend, state = f->state, most = STRATUM_LB_IDLE_OPEN;
	struct lb_backend *b = bpf_map_lookup_elem(&lb_backends, &row);
	struct lb_recount *recount;

	if (!b)
		return 0;
	if (t->protocol == LB_PROTOCOL_UDP)
		most = STRATUM_LB_IDLE_UDP;
	else if (state & LB_ENDED)
		most = STRATUM_LB_IDLE_ENDED;
	else if (state & (LB_CLOSED | LB_RESET | LB_FIN_CLIENT | LB_FIN_BACKEND))
		most = STRATUM_LB_IDLE_CLOSED;
	if (b->generation != f->generation || IN_FAMILY(lb_is_idle)(f, sweep, most)) {
		struct IN_FAMILY(lb_tuple) key = *t;

		IN_FAMILY(lb_forget)(&key, f);
		return 0;
	}
	recount = bpf_map_lookup_elem(&lb_recounts, &row);
	if (recount && LB_COUNTS(state))
		recount->found++;
	return 0;
}

/* What has begun, and has become a connection or nothing. */
static long IN_FAMILY(lb_visit_begun)(void *map, struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f,
				      struct lb_sweep *sweep)
{
	__u32 row = f->backend;
	struct lb_backend *b = bpf_map_lookup_elem(&lb_backends, &row);
	struct IN_FAMILY(lb_tuple) back = {};

	if (!b || (b->generation == f->generation && !IN_FAMILY(lb_is_idle)(f, sweep, STRATUM_LB_IDLE_HALF_OPEN)))
		return 0;
	if (f->state & LB_TRANSLATED) {
		IN_FAMILY(lb_back)(&back, t, b, f);
		bpf_map_delete_elem(&IN_FAMILY(lb_translating), &back);
	}
	bpf_map_delete_elem(&IN_FAMILY(lb_begun), t);
	return 0;
}
