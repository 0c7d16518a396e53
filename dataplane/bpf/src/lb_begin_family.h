/* How a connection begins: the firewall, the backend, the way to it, its address as the backend sees it, for one address family; included by lb_family.h. */

/* The firewall's verdict on a packet as it came. `standing`: of a connection that it has admitted. */
__noinline int IN_FAMILY(lb_admitted)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, int standing)
{
	struct filter_settings *settings = filter_settings_now();
	struct IN_FAMILY(filter_search) search = {};

	if (!settings || !t)
		return 0;
	if (standing && !settings->fresh)
		return 1;
	search.generation = READ_ONCE(settings->generation);
	IN_FAMILY(lb_copy)(search.packet.source, t->source);
	IN_FAMILY(lb_copy)(search.packet.dest, t->dest);
	search.packet.source_port = bpf_ntohs(t->source_port);
	search.packet.dest_port = bpf_ntohs(t->dest_port);
	search.packet.protocol = t->protocol;
	if (settings->asked)
		lb_origin(skb, settings->asked, &search.packet.device, &search.packet.mac_low, &search.packet.mac_high,
			  &search.packet.has_mac);
	if (!IN_FAMILY(filter_classify)(&search, settings))
		return standing || settings->action == STRATUM_DEFAULT_ACCEPT;
	if (standing && !(search.flags & STRATUM_RULE_FRESH))
		return 1;
	IN_FAMILY(filter_count)(&search, skb->len);
	return !!(search.flags & STRATUM_RULE_ACCEPT);
}

/* Asks the routing table for the way to a backend. */
__noinline int IN_FAMILY(lb_find_way)(struct __sk_buff *skb, struct lb_backend *b, __u32 now)
{
	struct bpf_fib_lookup fib = {};
	__u64 flags = 0, hop = 0, device = 0;
	long found;

	if (!b)
		return -1;
	fib.family = AF;
	fib.ifindex = LB_LOOPBACK;
	IN_FAMILY(lb_copy)(FIB_DEST(fib), b->address);
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), BPF_FIB_LOOKUP_SRC);
	if (found < 0) { /* Linux before 6.7 knows no BPF_FIB_LOOKUP_SRC. */
		__builtin_memset(&fib, 0, sizeof(fib));
		fib.family = AF;
		fib.ifindex = LB_LOOPBACK;
		IN_FAMILY(lb_copy)(FIB_DEST(fib), b->address);
		found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	} else {
		IN_FAMILY(lb_copy)(b->own, FIB_SOURCE(fib));
	}
	/* That this packet is too long for the device says nothing of the way. */
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		found = BPF_FIB_LKUP_RET_SUCCESS;
	if (found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH) {
		if (fib.family == AF && IN_FAMILY(lb_same)(FIB_DEST(fib), b->address))
			flags |= LB_WAY_ON_LINK;
		if (found == BPF_FIB_LKUP_RET_NO_NEIGH)
			flags |= LB_WAY_UNRESOLVED;
	} else {
		flags = found == BPF_FIB_LKUP_RET_NOT_FWDED ? LB_WAY_LOCAL : LB_WAY_NONE;
		fib.ifindex = 0;
	}
	__builtin_memcpy(&hop, fib.dmac, 6);
	__builtin_memcpy(&device, fib.smac, 6);
	b->next_hop = hop | flags << 48;
	b->device = device | (__u64)fib.mtu_result << 48;
	/* What is unresolved is asked anew by the next packet. */
	b->way = (__u64)(flags & LB_WAY_UNRESOLVED ? now - 1 : now) << 32 | fib.ifindex;
	return 0;
}

/* Takes a port for a client that the backend is to see as `own`. 0: none is free. */
__noinline int IN_FAMILY(lb_take_port)(struct IN_FAMILY(lb_tuple) *t, struct lb_backend *b,
					      struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_tuple) *back;
	__u32 seed;

	if (!t || !b || !f || !scratch)
		return 0;
	back = &scratch->tuple;
	IN_FAMILY(lb_copy)(back->source, b->address);
	IN_FAMILY(lb_copy)(back->dest, f->own);
	back->source_port = b->port ? b->port : t->dest_port;
	back->protocol = t->protocol;
	seed = lb_hash(IN_FAMILY(lb_fold)(t->source), (__u32)t->source_port << 16 | t->dest_port, bpf_get_prandom_u32());
	for (int i = 0; i < 32; i++) {
		back->dest_port = bpf_htons(STRATUM_LB_PORT_FIRST + (seed + i * 977) % STRATUM_LB_PORT_COUNT);
		if (bpf_map_update_elem(&IN_FAMILY(lb_translated), back, t, BPF_NOEXIST) == 0) {
			f->own_port = back->dest_port;
			return 1;
		}
	}
	return 0;
}

/* Whether another virtual address has given the same client to the same backend: then replies could not be told apart. */
static __always_inline int IN_FAMILY(lb_taken)(struct IN_FAMILY(lb_tuple) *t, struct lb_backend *b, int any)
{
	struct IN_FAMILY(lb_sharers) *served = IN_FAMILY(lb_served_by)(b->address, b->port, t->protocol, any);
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_tuple) *other;

	if (!served || served->count < 2 || !scratch)
		return 0;
	other = &scratch->tuple;
	*other = *t;
	for (int i = 0; i < STRATUM_LB_SHARERS; i++) {
		struct IN_FAMILY(lb_flow) *f;

		if (i >= served->count)
			break;
		if (IN_FAMILY(lb_same)(served->by[i].address, t->dest) && served->by[i].port == t->dest_port)
			continue;
		IN_FAMILY(lb_copy)(other->dest, served->by[i].address);
		other->dest_port = served->by[i].port ? served->by[i].port : t->dest_port;
		f = bpf_map_lookup_elem(&IN_FAMILY(lb_flows), other);
		if (f && !(f->state & (LB_TRANSLATED | LB_CLOSED)))
			return 1;
	}
	return 0;
}

/* Ends what was remembered of a connection that begins anew or elsewhere. */
static __always_inline void IN_FAMILY(lb_end)(struct IN_FAMILY(lb_flow) *f, struct lb_backend *b)
{
	if ((f->state & (LB_OPEN | LB_CLOSED)) == LB_OPEN && b && b->generation == f->generation)
		lb_count(f->backend, -1);
}

/* Makes a connection with a backend. Its row, or a negative LB_* reason. */
__noinline long IN_FAMILY(lb_begin)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p,
					   struct lb_vip *vip, struct IN_FAMILY(lb_flow) *f)
{
	__u32 by_source, by_all, ifindex, *role;
	struct lb_backend *b;
	int keeps_client;
	long row;

	if (!t || !p || !vip || !f)
		return -1;
	by_source = IN_FAMILY(lb_fold)(t->source);
	by_all = lb_hash(by_source, (__u32)t->source_port << 16 | t->dest_port, t->protocol);
	by_source = lb_hash(by_source, 0, 0);
	row = lb_pick(vip, by_source, by_all);
	if (row < 0)
		return -1 - (t->protocol == LB_PROTOCOL_TCP ? STRATUM_LB_NO_BACKEND_TCP : STRATUM_LB_NO_BACKEND_UDP);
	f->backend = row;
	b = bpf_map_lookup_elem(&lb_backends, &f->backend);
	if (!b)
		return -1 - STRATUM_LB_KERNEL;
	if ((__u32)(b->way >> 32) != p->now)
		IN_FAMILY(lb_find_way)(skb, b, p->now);
	if (b->next_hop >> 48 & LB_WAY_NONE)
		return -1 - STRATUM_LB_NO_ROUTE;
	f->generation = b->generation;
	f->last = p->now;
	f->ifindex = skb->ifindex;
	f->state = t->protocol == LB_PROTOCOL_UDP ? LB_OPEN : 0;
	if (vip->flags & STRATUM_LB_DSR) {
		f->state |= LB_DIRECT;
	} else {
		/* The backend's answer comes back by itself from those only that have this node for their gateway. */
		ifindex = (__u32)b->way;
		role = bpf_map_lookup_elem(&lb_devices, &ifindex);
		keeps_client = (role && *role & STRATUM_LB_INSIDE && ifindex != skb->ifindex) ||
			       b->next_hop >> 48 & LB_WAY_LOCAL;
		if (!keeps_client || IN_FAMILY(lb_taken)(t, b, b->port == 0)) {
			IN_FAMILY(lb_copy)(f->own, b->own);
			/* Without an address of the node's own towards the backend its virtual one will do. */
			if (!IN_FAMILY(lb_fold)(f->own))
				IN_FAMILY(lb_copy)(f->own, t->dest);
			if (!IN_FAMILY(lb_take_port)(t, b, f))
				return -1 - STRATUM_LB_NO_PORT;
			f->state |= LB_TRANSLATED;
		}
	}
	if (bpf_map_update_elem(&IN_FAMILY(lb_flows), t, f, BPF_ANY))
		return -1 - STRATUM_LB_KERNEL;
	if (f->state & LB_OPEN)
		lb_count(f->backend, 1);
	return row;
}
