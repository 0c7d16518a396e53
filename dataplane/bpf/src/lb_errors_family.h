/* ICMP errors about connections (RFC 792, RFC 4443), for one address family; included by lb_family.h. */

/* Writes an address and ports into what an ICMP error quotes; its checksum follows. */
static __always_inline int IN_FAMILY(lb_requote)(struct __sk_buff *skb, __u32 quoted, __u32 ports_at, __u32 check_at,
						 const struct IN_FAMILY(lb_tuple) *was,
						 const struct IN_FAMILY(lb_change) *to)
{
	__u32 addresses = lb_sum64(IN_FAMILY(lb_difference)(was->source, to->source) +
			  IN_FAMILY(lb_difference)(was->dest, to->dest));
	__u32 ports = (__u32)(__u16)~was->source_port + to->source_port + (__u16)~was->dest_port + to->dest_port;
	__u32 pair = (__u32)to->dest_port << 16 | to->source_port;

	if (QUOTE_RECHECK(skb, quoted, addresses))
		return -1;
	if (bpf_skb_store_bytes(skb, quoted + IP_SOURCE_AT, to->source, sizeof(to->source), 0) ||
	    bpf_skb_store_bytes(skb, quoted + IP_DEST_AT, to->dest, sizeof(to->dest), 0) ||
	    bpf_skb_store_bytes(skb, ports_at, &pair, sizeof(pair), 0))
		return -1;
	return bpf_l4_csum_replace(skb, check_at, 0, lb_sum16(QUOTE_SUM(addresses, ports)), 0);
}

/* Gives the packet itself other ends, `was` and `to` without ports. */
static __always_inline int IN_FAMILY(lb_readdress)(struct __sk_buff *skb, __u32 check_at, const __u32 *source,
						   const __u32 *dest)
{
	struct IN_FAMILY(lb_ip) *ip = (void *)(long)skb->data + LB_ETHERNET;
	__u32 addresses;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end || IP_HOPS(ip) <= 1)
		return -1;
	addresses = lb_sum64(IN_FAMILY(lb_difference)(IP_ADDRESS(ip->source), source) +
		    IN_FAMILY(lb_difference)(IP_ADDRESS(ip->dest), dest));
	IN_FAMILY(lb_copy)(IP_ADDRESS(ip->source), source);
	IN_FAMILY(lb_copy)(IP_ADDRESS(ip->dest), dest);
	IP_HOPS(ip)--;
	IP_RECHECK(ip, addresses);
	return ICMP_READDRESS(skb, check_at, lb_sum16(addresses));
}

/* An error about what went to a client by way of a virtual address: the backend is to hear of it. */
__noinline int IN_FAMILY(lb_tell_backend)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *quote,
						 struct lb_error *at)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_change) to;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_packet p = {};
	struct lb_backend *b;
	int fresh;

	if (!quote || !at || !scratch)
		return PASS;
	IN_FAMILY(lb_copy)(scratch->tuple.source, quote->dest);
	IN_FAMILY(lb_copy)(scratch->tuple.dest, quote->source);
	scratch->tuple.source_port = quote->dest_port;
	scratch->tuple.dest_port = quote->source_port;
	scratch->tuple.protocol = quote->protocol;
	f = IN_FAMILY(lb_known)(&scratch->tuple);
	if (!f)
		return PASS;
	b = bpf_map_lookup_elem(&lb_backends, &f->backend);
	if (!b || b->generation != f->generation)
		return PASS;
	p.now = LB_NOW;
	fresh = !lb_way_known(&b, p.now);
	if (fresh)
		IN_FAMILY(lb_find_way)(skb, b, p.now);
	if (b->next_hop >> 48 & LB_WAY_NONE)
		return lb_tally(STRATUM_LB_NO_ROUTE, LB_SHOT);
	if (f->state & LB_DIRECT)
		return IN_FAMILY(lb_deliver)(skb, &p, b, fresh);
	IN_FAMILY(lb_copy)(to.source, b->address);
	to.source_port = b->port ? b->port : quote->source_port;
	if (f->state & LB_TRANSLATED) {
		IN_FAMILY(lb_copy)(to.dest, f->own);
		to.dest_port = f->own_port;
	} else {
		IN_FAMILY(lb_copy)(to.dest, quote->dest);
		to.dest_port = quote->dest_port;
	}
	if (IN_FAMILY(lb_requote)(skb, at->quoted, at->ports, at->check, quote, &to) ||
	    IN_FAMILY(lb_readdress)(skb, at->check, at->reporter, b->address))
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	return IN_FAMILY(lb_send)(skb, b, fresh);
}

/* An error about what went to a backend: the client is to hear of it, as of the virtual address. */
__noinline int IN_FAMILY(lb_tell_client)(struct __sk_buff *skb, struct IN_FAMILY(lb_tuple) *quote,
						struct lb_error *at)
{
	struct IN_FAMILY(lb_scratch) *scratch = IN_FAMILY(lb_scratch_now)();
	struct IN_FAMILY(lb_sharers) *served;
	struct IN_FAMILY(lb_change) to;
	struct IN_FAMILY(lb_flow) *f;
	struct lb_ethernet *e;
	__u32 ifindex, swap[WORDS];
	__u8 macs[12];
	__u16 port;

	if (!quote || !at || !scratch)
		return PASS;
	served = IN_FAMILY(lb_served_by)(quote->dest, quote->dest_port, quote->protocol, 1);
	if (!served)
		return PASS;
	/* As the backend would have answered. */
	IN_FAMILY(lb_copy)(to.source, quote->source);
	IN_FAMILY(lb_copy)(to.dest, quote->dest);
	to.source_port = quote->source_port;
	to.dest_port = quote->dest_port;
	IN_FAMILY(lb_copy)(swap, quote->source);
	IN_FAMILY(lb_copy)(quote->source, quote->dest);
	IN_FAMILY(lb_copy)(quote->dest, swap);
	port = quote->source_port;
	quote->source_port = quote->dest_port;
	quote->dest_port = port;
	f = IN_FAMILY(lb_answered)(quote, served, &scratch->tuple);
	if (!f)
		return PASS;
	IN_FAMILY(lb_copy)(quote->source, to.source);
	IN_FAMILY(lb_copy)(quote->dest, to.dest);
	quote->source_port = to.source_port;
	quote->dest_port = to.dest_port;
	IN_FAMILY(lb_copy)(to.source, scratch->tuple.source);
	IN_FAMILY(lb_copy)(to.dest, scratch->tuple.dest);
	to.source_port = scratch->tuple.source_port;
	to.dest_port = scratch->tuple.dest_port;
	ifindex = f->ifindex;
	__builtin_memcpy(macs, f->client, 12);
	if (IN_FAMILY(lb_requote)(skb, at->quoted, at->ports, at->check, quote, &to))
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	/* What the backend itself reports comes from the virtual address, what a router does from the router. */
	if (IN_FAMILY(lb_readdress)(skb, at->check,
				    IN_FAMILY(lb_same)(at->reporter, quote->dest) ? to.dest : at->reporter, to.source))
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	e = (void *)(long)skb->data;
	if ((void *)(e + 1) > (void *)(long)skb->data_end)
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	__builtin_memcpy(e->dest, macs, 12);
	skb->mark = 0;
	return bpf_redirect(ifindex, 0);
}
