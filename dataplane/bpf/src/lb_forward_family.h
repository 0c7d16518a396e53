/* Packets of clients, and what backends answer them, for one address family; included by lb_family.h. */

/* Sends a packet of a client on to its backend. */
static IN_ITS_FRAME int IN_FAMILY(lb_pass_on)(struct __sk_buff *skb, const struct IN_FAMILY(lb_tuple) *t,
					       const struct lb_packet *p, const struct IN_FAMILY(lb_flow) *f,
					       struct lb_backend *b)
{
	int fresh = !lb_way_known(&b, p->now);
	struct IN_FAMILY(lb_change) to;
	__u32 outer;

	if (fresh)
		IN_FAMILY(lb_find_way)(skb, b, p->now);
	if (b->next_hop >> 48 & LB_WAY_NONE)
		return lb_tally(STRATUM_LB_NO_ROUTE, LB_SHOT);
	outer = f->state & LB_DIRECT && !(b->next_hop >> 48 & LB_WAY_ON_LINK) ? sizeof(struct IN_FAMILY(lb_ip)) : 0;
	if (skb->len - LB_ETHERNET + outer > (b->device >> 48) && b->device >> 48 && !skb->gso_size)
		return lb_tally(STRATUM_LB_TOO_LONG, IN_FAMILY(lb_too_long)(skb, (b->device >> 48) - outer));
	if (f->state & LB_DIRECT)
		return IN_FAMILY(lb_deliver)(skb, p, b, fresh);
	to.dest_port = b->port ? b->port : t->dest_port;
	IN_FAMILY(lb_copy)(to.dest, b->address);
	if (f->state & LB_TRANSLATED) {
		IN_FAMILY(lb_copy)(to.source, f->own);
		to.source_port = f->own_port;
	} else {
		IN_FAMILY(lb_copy)(to.source, t->source);
		to.source_port = t->source_port;
	}
	if (IN_FAMILY(lb_rewrite)(skb, p, t, &to))
		return lb_tally(STRATUM_LB_HOPS, LB_SHOT);
	return IN_FAMILY(lb_send)(skb, b, fresh);
}

/* A packet that may be for a virtual address; LB_NOT_OURS when it is not. */
static __always_inline int IN_FAMILY(lb_forward)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t,
						 struct lb_packet *p, int any)
{
	struct filter_settings *settings = filter_settings_now();
	struct IN_FAMILY(lb_scratch) *scratch;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_backend *b = 0;
	long row;

	/* Before the virtual address, which a packet of a connection does not need. */
	p->flood = (p->flags & (LB_SYN | LB_ACK)) == LB_SYN && lb_flooded(p->now);
	f = p->flood ? 0 : bpf_map_lookup_elem(&IN_FAMILY(lb_flows), t);
	if (f) {
		b = bpf_map_lookup_elem(&lb_backends, &f->backend);
		if (!b)
			return LB_SHOT;
		if (IN_FAMILY(lb_is_over)(f, b, t->protocol, p)) {
			IN_FAMILY(lb_forget)(t, f);
			f = 0;
		}
	}
	if (f) {
		if (settings && settings->fresh && !IN_FAMILY(lb_admitted)(skb, t, 1))
			return lb_tally(STRATUM_LB_DENIED, LB_SHOT);
		if (f->state & LB_ENDED && IN_FAMILY(lb_resume)(skb, t, f))
			return lb_tally(STRATUM_LB_DENIED, LB_SHOT);
		if (f->ifindex == skb->ifindex)
			lb_sender_now(skb, f->client, f->node);
		IN_FAMILY(lb_track)(f, p, LB_FIN_CLIENT);
	} else {
		scratch = IN_FAMILY(lb_scratch_now)();
		if (!scratch)
			return LB_SHOT;
		f = &scratch->flow;
		row = IN_FAMILY(lb_meet)(skb, t, p, any);
		if (row == LB_NOT_OURS)
			return LB_NOT_OURS;
		if (row == -1 - STRATUM_LB_NO_BACKEND_TCP)
			return lb_tally(STRATUM_LB_NO_BACKEND_TCP, IN_FAMILY(lb_refuse)(skb, p));
		if (row < 0)
			return lb_tally(-1 - row, LB_SHOT);
		b = bpf_map_lookup_elem(&lb_backends, &f->backend);
		if (!b)
			return LB_SHOT;
	}
	return IN_FAMILY(lb_pass_on)(skb, t, p, f, b);
}

/* The flow that a packet from a backend answers; its client's tuple in `asked`. */
static __always_inline struct IN_FAMILY(lb_flow) *
	IN_FAMILY(lb_answered)(const struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_sharers) *served,
			       struct IN_FAMILY(lb_tuple) *asked)
{
	struct IN_FAMILY(lb_tuple) *translated;
	struct IN_FAMILY(lb_flow) *f;

	IN_FAMILY(lb_copy)(asked->source, t->dest);
	asked->source_port = t->dest_port;
	asked->protocol = t->protocol;
	for (int i = 0; i < STRATUM_LB_SHARERS; i++) {
		struct lb_backend *b;

		if (i >= served->count)
			break;
		IN_FAMILY(lb_copy)(asked->dest, served->by[i].address);
		asked->dest_port = served->by[i].port ? served->by[i].port : t->source_port;
		f = IN_FAMILY(lb_known)(asked);
		if (!f || f->state & LB_TRANSLATED)
			continue;
		/* Direct server return, and the backend's way to the client leads by this node. */
		if (f->state & LB_DIRECT) {
			if (IN_FAMILY(lb_same)(asked->dest, t->source))
				return f;
			continue;
		}
		b = bpf_map_lookup_elem(&lb_backends, &f->backend);
		if (b && b->generation == f->generation && IN_FAMILY(lb_same)(b->address, t->source))
			return f;
	}
	translated = bpf_map_lookup_elem(&IN_FAMILY(lb_translated), t);
	if (!translated)
		translated = bpf_map_lookup_elem(&IN_FAMILY(lb_translating), t);
	if (!translated)
		return 0;
	*asked = *translated;
	f = IN_FAMILY(lb_known)(asked);
	/* The port may have been somebody else's before. */
	return f && f->state & LB_TRANSLATED && f->own_port == t->dest_port ? f : 0;
}

/* A packet from the address and port of a backend. */
static IN_ITS_FRAME int IN_FAMILY(lb_answer)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t,
						struct lb_packet *p, struct IN_FAMILY(lb_sharers) *served)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_tuple) *asked;
	struct IN_FAMILY(lb_change) to;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_ethernet *e;

	if (!scratch)
		return PASS;
	asked = &scratch->tuple;
	f = IN_FAMILY(lb_answered)(t, served, asked);
	if (!f)
		return PASS;
	if (f->state & LB_ENDED)
		return lb_tally(STRATUM_LB_DENIED, LB_SHOT);
	IN_FAMILY(lb_track)(f, p, LB_FIN_BACKEND);
	IN_FAMILY(lb_copy)(to.source, asked->dest);
	IN_FAMILY(lb_copy)(to.dest, asked->source);
	to.source_port = asked->dest_port;
	to.dest_port = asked->source_port;
	if (IN_FAMILY(lb_rewrite)(skb, p, t, &to))
		return lb_tally(STRATUM_LB_HOPS, LB_SHOT);
	e = (void *)(long)skb->data;
	if ((void *)(e + 1) > (void *)(long)skb->data_end)
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	__builtin_memcpy(e->dest, f->client, 12);
	skb->mark = 0;
	return bpf_redirect(f->ifindex, 0);
}
