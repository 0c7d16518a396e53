/* How a connection begins: the firewall, the backend, the way to it, its address as the backend sees it, for one address family; included by lb_family.h. */

/* The firewall's verdict on a packet as it came. `standing`: of a connection that it has admitted. */
__noinline int IN_FAMILY(lb_admitted)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, int standing)
{
	const struct filter_settings *settings = filter_settings_now();
	struct IN_FAMILY(filter_search) search = {};

	if (!settings || !t)
		return 0;
	if (standing && !settings->fresh)
		return 1;
	search.generation = filter_generation(&settings);
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
	/* An exchange, which orders: whoever meets the new way meets the rest of it (lb_way_known). */
	__sync_lock_test_and_set(&b->way, (__u64)(flags & LB_WAY_UNRESOLVED ? now - 1 : now) << 32 | fib.ifindex);
	return 0;
}

/* Takes a port for a client that the backend is to see as `own`. 0: none is to be had. */
__noinline int IN_FAMILY(lb_take_port)(struct IN_FAMILY(lb_tuple) *t, struct lb_backend *b,
				       struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_tuple) *back;
	__u32 seed;

	if (!t || !b || !f || !scratch)
		return 0;
	back = &scratch->tuple;
	IN_FAMILY(lb_back)(back, t, b, f);
	seed = lb_hash(IN_FAMILY(lb_fold)(t->source), (__u32)t->source_port << 16 | t->dest_port, bpf_get_prandom_u32());
	for (int i = 0; i < 32; i++) {
		back->dest_port = bpf_htons(STRATUM_LB_PORT_FIRST + (seed + i * 977) % STRATUM_LB_PORT_COUNT);
		if (bpf_map_lookup_elem(&IN_FAMILY(lb_translated), back))
			continue;
		/* Who floods the node with openings loses them, rather than that nobody else gets in. */
		if (bpf_map_update_elem(&IN_FAMILY(lb_translating), back, t, i < 3 ? BPF_NOEXIST : BPF_ANY) == 0) {
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
		f = IN_FAMILY(lb_known)(other);
		if (f && !(f->state & (LB_TRANSLATED | LB_CLOSED)))
			return 1;
	}
	return 0;
}

/* Gives a client a backend. Its row, or a negative LB_* reason. */
__noinline long IN_FAMILY(lb_begin)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p,
					   struct lb_vip *vip, struct IN_FAMILY(lb_flow) *f)
{
	__u32 by_source, by_all, ifindex, *role;
	struct lb_backend *b;
	int keeps_client;
	long row;

	if (!t || !p || !vip || !f)
		return -1;
	__builtin_memset(f, 0, sizeof(*f));
	lb_sender(skb, f->client, f->node);
	by_source = IN_FAMILY(lb_fold)(t->source);
	by_all = lb_hash(by_source, (__u32)t->source_port << 16 | t->dest_port, t->protocol);
	by_source = lb_hash(by_source, 0, 0);
	/* Of what opens nothing no turn can be known. */
	row = lb_pick(vip, by_source, by_all,
		      t->protocol == LB_PROTOCOL_TCP && (p->flood || (p->flags & (LB_SYN | LB_ACK)) != LB_SYN));
	if (row < 0)
		return -1 - (t->protocol == LB_PROTOCOL_TCP ? STRATUM_LB_NO_BACKEND_TCP : STRATUM_LB_NO_BACKEND_UDP);
	f->backend = row;
	b = bpf_map_lookup_elem(&lb_backends, &f->backend);
	if (!b)
		return -1 - STRATUM_LB_KERNEL;
	/* A row that is being emptied; its connections would pass for those of the next empty one. */
	f->generation = READ_ONCE(b->generation);
	if (!f->generation)
		return -1 - STRATUM_LB_KERNEL;
	if (!lb_way_known(&b, p->now))
		IN_FAMILY(lb_find_way)(skb, b, p->now);
	if (b->next_hop >> 48 & LB_WAY_NONE)
		return -1 - STRATUM_LB_NO_ROUTE;
	f->last = p->now;
	f->ifindex = skb->ifindex;
	/* Where no answer is seen, or none may come, whoever goes on has a connection. */
	f->state = t->protocol == LB_PROTOCOL_UDP || b->next_hop >> 48 & LB_WAY_LOCAL ? LB_PLAUSIBLE : 0;
	if (vip->flags & STRATUM_LB_DSR) {
		f->state |= LB_DIRECT | LB_PLAUSIBLE;
		if (p->flood)
			return row;
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
	if (bpf_map_update_elem(&IN_FAMILY(lb_begun), t, f, BPF_ANY))
		return -1 - STRATUM_LB_KERNEL;
	return row;
}

/* Whether a client opens again what somebody else has taken the port of: it needs another one. */
static __always_inline int IN_FAMILY(lb_lost_port)(struct IN_FAMILY(lb_tuple) *back, const struct IN_FAMILY(lb_tuple) *t,
						   const struct lb_backend *b, const struct IN_FAMILY(lb_flow) *f,
						   const struct lb_packet *p)
{
	return f->state & LB_TRANSLATED && (p->flags & (LB_SYN | LB_ACK)) == LB_SYN &&
	       !IN_FAMILY(lb_holds_port)(back, t, b, f);
}

/*
 * What is known of a packet of no connection: 1: its flow has begun and is not over. 0: it is for a virtual address. Either
 * is in the scratch then. LB_NOT_OURS: nothing. `any`: some virtual address stands for every port.
 */
__noinline int IN_FAMILY(lb_recall)(struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p, int any)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_flow) *known;
	struct lb_backend *b;
	struct lb_vip *vip;

	if (!t || !p || !scratch)
		return LB_NOT_OURS;
	known = p->flood ? 0 : bpf_map_lookup_elem(&IN_FAMILY(lb_begun), t);
	if (known) {
		b = bpf_map_lookup_elem(&lb_backends, &known->backend);
		scratch->flow = *known;
		if (b && !IN_FAMILY(lb_is_over)(known, b, t->protocol, p) &&
		    !IN_FAMILY(lb_lost_port)(&scratch->tuple, t, b, &scratch->flow, p))
			return 1;
	}
	vip = IN_FAMILY(lb_vip_of)(t->dest, t->dest_port, t->protocol, any);
	if (!vip)
		return LB_NOT_OURS;
	scratch->vip = *vip;
	return 0;
}

/* The client goes on with what it has begun, which may make a connection of it. The backend's row, or a negative LB_* reason. */
__noinline long IN_FAMILY(lb_go_on)(struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p, struct IN_FAMILY(lb_flow) *f)
{
	struct IN_FAMILY(lb_flow) *known;

	if (!t || !p || !f)
		return -1;
	f->state &= ~LB_ENDED;
	if (f->state & LB_PLAUSIBLE && !(p->flags & (LB_SYN | LB_RST)) && IN_FAMILY(lb_establish)(t, f))
		return -1 - STRATUM_LB_NO_PORT;
	known = IN_FAMILY(lb_known)(t);
	if (!known)
		return f->backend;
	if (known->state & LB_ENDED)
		__sync_fetch_and_and(&known->state, ~LB_ENDED);
	IN_FAMILY(lb_track)(known, p, LB_FIN_CLIENT);
	return f->backend;
}

/*
 * A packet of no connection: it opens one, goes on with what has begun, or belongs to one that the kernel has given up or
 * another node has had. The row of its backend, its flow in the scratch; LB_NOT_OURS, or a negative LB_* reason.
 */
__noinline long IN_FAMILY(lb_meet)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p, int any)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	int begun = IN_FAMILY(lb_recall)(t, p, any);

	if (begun == LB_NOT_OURS || !scratch || !t || !p)
		return LB_NOT_OURS;
	if (!IN_FAMILY(lb_admitted)(skb, t, begun && !(scratch->flow.state & LB_ENDED)))
		return -1 - STRATUM_LB_DENIED;
	return begun ? IN_FAMILY(lb_go_on)(t, p, &scratch->flow) :
		       IN_FAMILY(lb_begin)(skb, t, p, &scratch->vip, &scratch->flow);
}

/* The client of a connection that the firewall has ended goes on. Not 0: it is still not to. */
__noinline int IN_FAMILY(lb_resume)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t, struct IN_FAMILY(lb_flow) *f)
{
	__u32 before;

	if (!t || !f || !IN_FAMILY(lb_admitted)(skb, t, 0))
		return -1;
	before = __sync_fetch_and_and(&f->state, ~LB_ENDED);
	if (before & LB_ENDED && LB_COUNTS(before & ~LB_ENDED))
		lb_count(f->backend, 1);
	return 0;
}
