/* Connections that nobody uses any longer, for one address family; included by lb_family.h. */

/* One connection in the sweep: is it still one, and does it count? */
static long IN_FAMILY(lb_visit)(void *map, struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f,
				struct lb_sweep *sweep)
{
	__u32 row = f->backend, state = f->state, idle = sweep->now - f->last, most;
	struct lb_backend *b = bpf_map_lookup_elem(&lb_backends, &row);
	struct lb_recount *recount;
	int counts = (state & (LB_OPEN | LB_CLOSED)) == LB_OPEN;

	if (!b)
		return 0;
	if (t->protocol == LB_PROTOCOL_UDP)
		most = STRATUM_LB_IDLE_UDP;
	else if (state & (LB_CLOSED | LB_RESET | LB_FIN_CLIENT | LB_FIN_BACKEND))
		most = STRATUM_LB_IDLE_CLOSED;
	else
		most = state & LB_OPEN ? STRATUM_LB_IDLE_OPEN : STRATUM_LB_IDLE_HALF_OPEN;
	most = most * lb_hz >> STRATUM_LB_UNIT_BITS;
	if (b->generation != f->generation || ((__s32)idle > 0 && idle > most)) {
		if (counts && b->generation == f->generation)
			lb_count(row, -1);
		if (state & LB_TRANSLATED) {
			struct IN_FAMILY(lb_tuple) back = {};

			IN_FAMILY(lb_copy)(back.source, b->address);
			IN_FAMILY(lb_copy)(back.dest, f->own);
			back.source_port = b->port ? b->port : t->dest_port;
			back.dest_port = f->own_port;
			back.protocol = t->protocol;
			bpf_map_delete_elem(&IN_FAMILY(lb_translated), &back);
		}
		bpf_map_delete_elem(&IN_FAMILY(lb_flows), t);
		return 0;
	}
	if (!counts)
		return 0;
	recount = bpf_map_lookup_elem(&lb_recounts, &row);
	if (recount)
		recount->found++;
	return 0;
}
