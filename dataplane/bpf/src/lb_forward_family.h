/* Packets of clients, and what backends answer them, for one address family; included by lb_family.h. */

/* A packet for a virtual address. */
static __always_inline int IN_FAMILY(lb_forward)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t,
						 struct lb_packet *p, struct lb_vip *vip)
{
	struct IN_FAMILY(lb_change) to;
	struct IN_FAMILY(lb_scratch) *scratch;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_backend *b = 0;
	__u32 outer;
	int fresh;
	long row;

	f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), t);
	if (f) {
		b = bpf_map_lookup_elem(&lb_backends, &f->backend);
		if (!b)
			return LB_SHOT;
		if (b->generation != f->generation) {
			f = 0;
		} else if (b->state != STRATUM_LB_UP || f->state & (LB_RESET | LB_FIN_CLIENT | LB_FIN_BACKEND)) {
			/* A tuple that is used anew is a new connection. */
			if ((p->flags & (LB_SYN | LB_ACK)) == LB_SYN ||
			    (t->protocol == LB_PROTOCOL_UDP && b->state == STRATUM_LB_DOWN)) {
				IN_FAMILY(lb_end)(f, b);
				f = 0;
			}
		}
	}
	if (!f) {
		if (!IN_FAMILY(lb_admitted)(skb, t, 0))
			return lb_tally(STRATUM_LB_DENIED, LB_SHOT);
		scratch = IN_FAMILY(lb_scratch_now)();
		if (!scratch)
			return LB_SHOT;
		f = &scratch->flow;
		__builtin_memset(f, 0, sizeof(*f));
		lb_sender(skb, f->client, f->node);
		row = IN_FAMILY(lb_begin)(skb, t, p, vip, f);
		if (row < 0) {
			if (row == -1 - STRATUM_LB_NO_BACKEND_TCP)
				return lb_tally(STRATUM_LB_NO_BACKEND_TCP, IN_FAMILY(lb_refuse)(skb, p));
			return lb_tally(-1 - row, LB_SHOT);
		}
		b = bpf_map_lookup_elem(&lb_backends, &f->backend);
		if (!b)
			return LB_SHOT;
		if (t->protocol == LB_PROTOCOL_TCP && !(p->flags & LB_SYN)) {
			f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), t);
			if (!f)
				return LB_SHOT;
			IN_FAMILY(lb_track)(f, p, LB_FIN_CLIENT);
		}
	} else {
		struct filter_settings *settings = filter_settings_now();

		if (settings && settings->fresh && !IN_FAMILY(lb_admitted)(skb, t, 1))
			return lb_tally(STRATUM_LB_DENIED, LB_SHOT);
		IN_FAMILY(lb_track)(f, p, LB_FIN_CLIENT);
	}
	fresh = (__u32)(b->way >> 32) != p->now;
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
		f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), asked);
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
		return 0;
	*asked = *translated;
	f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), asked);
	/* The port may have been somebody else's before. */
	return f && f->state & LB_TRANSLATED && f->own_port == t->dest_port ? f : 0;
}

/* A packet from the address and port of a backend. */
static __always_inline int IN_FAMILY(lb_answer)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t,
						struct lb_packet *p, struct IN_FAMILY(lb_sharers) *served)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_tuple) *asked;
	struct IN_FAMILY(lb_change) to;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_ethernet *e;
	__u8 macs[12];
	__u32 ifindex;

	if (!scratch)
		return PASS;
	asked = &scratch->tuple;
	f = IN_FAMILY(lb_answered)(t, served, asked);
	if (!f)
		return PASS;
	IN_FAMILY(lb_track)(f, p, LB_FIN_BACKEND);
	ifindex = f->ifindex;
	__builtin_memcpy(macs, f->client, 12);
	IN_FAMILY(lb_copy)(to.source, asked->dest);
	IN_FAMILY(lb_copy)(to.dest, asked->source);
	to.source_port = asked->dest_port;
	to.dest_port = asked->source_port;
	if (IN_FAMILY(lb_rewrite)(skb, p, t, &to))
		return lb_tally(STRATUM_LB_HOPS, LB_SHOT);
	e = (void *)(long)skb->data;
	if ((void *)(e + 1) > (void *)(long)skb->data_end)
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	__builtin_memcpy(e->dest, macs, 12);
	skb->mark = 0;
	return bpf_redirect(ifindex, 0);
}
