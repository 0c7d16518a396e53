/* How a connection goes on and ends, for one address family; included by lb_family.h. */

/* Follows a TCP connection by one packet; `fin` is the side's bit. */
static __always_inline void IN_FAMILY(lb_track)(struct IN_FAMILY(lb_flow) *f, const struct lb_packet *p, __u32 fin)
{
	__u32 before = f->state, add = 0;

	if (f->last != p->now)
		f->last = p->now;
	if (fin == LB_FIN_BACKEND && !(p->flags & LB_RST))
		add |= LB_PLAUSIBLE;
	if (p->flags & LB_RST)
		add |= LB_RESET;
	if (p->flags & LB_FIN)
		add |= before & LB_DIRECT ? LB_FIN_CLIENT | LB_FIN_BACKEND : fin;
	if (!(add & ~before))
		return;
	before = __sync_fetch_and_or(&f->state, add) | add;
	if (!(before & LB_OPEN) || before & LB_CLOSED)
		return;
	if (!(before & LB_RESET) && (before & (LB_FIN_CLIENT | LB_FIN_BACKEND)) != (LB_FIN_CLIENT | LB_FIN_BACKEND))
		return;
	if (!(__sync_fetch_and_or(&f->state, LB_CLOSED) & LB_CLOSED))
		lb_count(f->backend, -1);
}

/* Whether a packet has nothing to do with what is known of its tuple: a new connection, or one that must move. */
static __always_inline int IN_FAMILY(lb_is_over)(const struct IN_FAMILY(lb_flow) *f, const struct lb_backend *b,
						 __u32 protocol, const struct lb_packet *p)
{
	if (b->generation != f->generation)
		return 1;
	if (b->state == STRATUM_LB_UP && !(f->state & (LB_RESET | LB_FIN_CLIENT | LB_FIN_BACKEND | LB_ENDED)))
		return 0;
	return (p->flags & (LB_SYN | LB_ACK)) == LB_SYN ||
	       (protocol == LB_PROTOCOL_UDP && (b->state == STRATUM_LB_DOWN || f->state & LB_ENDED));
}

/* Forgets a connection, how it began, and by which port its backend knew it. */
__noinline int IN_FAMILY(lb_forget)(struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_tuple) back = {};
	struct lb_backend *b;
	__u32 row;

	if (!t || !f)
		return -1;
	row = f->backend;
	b = bpf_map_lookup_elem(&lb_backends, &row);
	if (b && b->generation == f->generation && LB_COUNTS(f->state))
		lb_count(row, -1);
	if (b && f->state & LB_TRANSLATED) {
		IN_FAMILY(lb_back)(&back, t, b, f);
		/* In this order: whom the port is free for looks at the second one first. */
		bpf_map_delete_elem(&IN_FAMILY(lb_translating), &back);
		bpf_map_delete_elem(&IN_FAMILY(lb_translated), &back);
	}
	/* Else the next opening from there would go on with it, past the firewall. */
	bpf_map_delete_elem(&IN_FAMILY(lb_begun), t);
	return bpf_map_delete_elem(&IN_FAMILY(lb_flows), t);
}

/* Whether what has begun still has its port; `back` is room for the tuple. */
static __always_inline int IN_FAMILY(lb_holds_port)(struct IN_FAMILY(lb_tuple) *back, const struct IN_FAMILY(lb_tuple) *t,
						    const struct lb_backend *b, const struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_tuple) *holder;

	IN_FAMILY(lb_back)(back, t, b, f);
	holder = bpf_map_lookup_elem(&IN_FAMILY(lb_translating), back);
	return holder && IN_FAMILY(lb_same)(holder->source, t->source) && holder->source_port == t->source_port &&
	       IN_FAMILY(lb_same)(holder->dest, t->dest) && holder->dest_port == t->dest_port;
}

/* Makes a connection of what has begun. Not 0: somebody else has its port by now. */
__noinline int IN_FAMILY(lb_establish)(struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_tuple) back = {};
	struct lb_backend *b;
	__u32 row;

	if (!t || !f)
		return -1;
	row = f->backend;
	b = bpf_map_lookup_elem(&lb_backends, &row);
	if (!b)
		return -1;
	if (f->state & LB_TRANSLATED) {
		if (!IN_FAMILY(lb_holds_port)(&back, t, b, f))
			return -1;
		bpf_map_update_elem(&IN_FAMILY(lb_translated), &back, t, BPF_ANY);
	}
	f->state |= LB_OPEN;
	/* Another processor may have been first. */
	if (!bpf_map_update_elem(&IN_FAMILY(lb_flows), t, f, BPF_NOEXIST))
		lb_count(row, 1);
	return 0;
}
