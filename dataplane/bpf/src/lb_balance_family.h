/* What a packet is to the load balancer; fragments, for one address family; included by lb_family.h. */

static __always_inline void IN_FAMILY(lb_name_datagram)(struct IN_FAMILY(lb_datagram) *key,
							const struct IN_FAMILY(lb_tuple) *t,
							const struct lb_packet *p)
{
	IN_FAMILY(lb_copy)(key->source, t->source);
	IN_FAMILY(lb_copy)(key->dest, t->dest);
	key->id = p->datagram;
	key->protocol = t->protocol;
}

/* Keeps the ports of a first fragment for the later ones. */
__noinline int IN_FAMILY(lb_keep_ports)(struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p)
{
	struct IN_FAMILY(lb_datagram) key = {};
	__u32 ports;

	if (!t || !p)
		return -1;
	IN_FAMILY(lb_name_datagram)(&key, t, p);
	ports = (__u32)t->dest_port << 16 | t->source_port;
	return bpf_map_update_elem(&IN_FAMILY(lb_fragments), &key, &ports, BPF_ANY);
}

/* Finds those of a later fragment. Not 0: the first one has not come by. */
__noinline int IN_FAMILY(lb_find_ports)(struct IN_FAMILY(lb_tuple) *t, struct lb_packet *p)
{
	struct IN_FAMILY(lb_datagram) key = {};
	__u32 *ports;

	if (!t || !p)
		return -1;
	IN_FAMILY(lb_name_datagram)(&key, t, p);
	ports = bpf_map_lookup_elem(&IN_FAMILY(lb_fragments), &key);
	if (!ports)
		return -1;
	t->source_port = *ports;
	t->dest_port = *ports >> 16;
	return 0;
}

/* What `lb_hints` goes by. */
static __always_inline __u32 IN_FAMILY(lb_brief)(const __u32 *address)
{
	__u32 brief = address[0];

	for (int i = 1; i < WORDS; i++)
		brief ^= address[i];
	return brief;
}

static __always_inline int IN_FAMILY(lb_may_be)(const struct lb_hints *hints, const __u32 *address, __u16 port,
						__u16 protocol, int any)
{
	__u32 brief = IN_FAMILY(lb_brief)(address);

	return lb_hinted(hints, brief, port, protocol) || (any && lb_hinted(hints, brief, 0, protocol));
}

static __always_inline int IN_FAMILY(lb_balance)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *t,
						 struct lb_packet *p)
{
	struct IN_FAMILY(lb_sharers) *served;
	struct lb_settings *settings;
	struct lb_hints *hints;
	__u32 only = 0;
	int any, verdict;

	settings = bpf_map_lookup_elem(&lb_settings, &only);
	hints = bpf_map_lookup_elem(&lb_hints, &only);
	if (!settings || !hints)
		return PASS;
	any = settings->any_port;
	if (IN_FAMILY(lb_may_be)(hints, t->dest, t->dest_port, t->protocol, any)) {
		p->now = LB_NOW;
		if (p->fragment & LB_FRAGMENT_FIRST)
			IN_FAMILY(lb_keep_ports)(t, p);
		verdict = IN_FAMILY(lb_forward)(skb, t, p, any);
		if (verdict != LB_NOT_OURS)
			return verdict;
	}
	if (!IN_FAMILY(lb_may_be)(hints, t->source, t->source_port, t->protocol, any))
		return PASS;
	served = IN_FAMILY(lb_served_by)(t->source, t->source_port, t->protocol, any);
	if (!served)
		return PASS;
	p->now = LB_NOW;
	if (p->fragment & LB_FRAGMENT_FIRST)
		IN_FAMILY(lb_keep_ports)(t, p);
	return IN_FAMILY(lb_answer)(skb, t, p, served);
}
