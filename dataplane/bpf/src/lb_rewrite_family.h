/* Packets written anew and sent on, for one address family; included by lb_family.h. */

/* New addresses and ports of a packet, network order. */
struct IN_FAMILY(lb_change) {
	__u32 source[WORDS];
	__u32 dest[WORDS];
	__u16 source_port;
	__u16 dest_port;
};

/* Makes a change of addresses and ports, summed up to 16 bits, known to the checksum of TCP or UDP. */
static __always_inline int IN_FAMILY(lb_resum)(struct __sk_buff *skb, __u32 l4, __u32 protocol, __u32 addresses,
					       __u32 ports)
{
	__u32 check = l4 + (protocol == LB_PROTOCOL_UDP ? LB_UDP_CHECK : LB_TCP_CHECK), summed = lb_summed(skb);
	__u32 mangled = protocol == LB_PROTOCOL_UDP ? BPF_F_MARK_MANGLED_0 : 0, sum;
	__u16 *at = (void *)(long)skb->data + check;

	if (summed == CHECKSUM_COMPLETE) {
		bpf_l4_csum_replace(skb, check, 0, addresses, BPF_F_PSEUDO_HDR | mangled);
		return ports == 0xffff ? 0 : bpf_l4_csum_replace(skb, check, 0, ports, mangled);
	}
	if ((void *)(at + 1) > (void *)(long)skb->data_end)
		return -1;
	if (summed == CHECKSUM_PARTIAL) {
		/* So far there is only the sum over the pseudo header. */
		*at = lb_sum16(*at + addresses);
		return 0;
	}
	if (mangled && !*at)
		return 0;
	sum = (__u16)~lb_sum16((__u16)~*at + addresses + ports);
	*at = mangled && !sum ? 0xffff : sum;
	return 0;
}

/*
 * Writes them into the packet, with its checksums, and a hop less. 0, or -1: the packet is at the end of its way.
 * Pointers into the packet are to be read anew.
 */
static __always_inline int IN_FAMILY(lb_rewrite)(struct __sk_buff *skb, const struct lb_packet *p,
						 const struct IN_FAMILY(lb_tuple) *t,
						 const struct IN_FAMILY(lb_change) *to)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct IN_FAMILY(lb_ip) *ip = data + LB_ETHERNET;
	__u32 l4 = p->l4 & 255, addresses, ports;
	struct lb_udp *ends;

	if ((void *)(ip + 1) > end)
		return -1;
	if (IP_HOPS(ip) <= 1)
		return -1;
	addresses = lb_sum64(IN_FAMILY(lb_difference)(t->source, to->source) +
		    IN_FAMILY(lb_difference)(t->dest, to->dest));
	IN_FAMILY(lb_copy)(IP_ADDRESS(ip->source), to->source);
	IN_FAMILY(lb_copy)(IP_ADDRESS(ip->dest), to->dest);
	IP_HOPS(ip)--;
	IP_RECHECK(ip, addresses);
	if (p->fragment & LB_FRAGMENT_LATER)
		return 0;
	ends = data + l4;
	if ((void *)(ends + 1) > end)
		return -1;
	ports = lb_sum16((__u32)(__u16)~t->source_port + to->source_port + (__u16)~t->dest_port + to->dest_port);
	if (ports != 0xffff) {
		ends->source = to->source_port;
		ends->dest = to->dest_port;
	}
	return IN_FAMILY(lb_resum)(skb, l4, t->protocol, addresses, ports);
}

/* Sends a packet to a backend by way of the neighbour table. */
__noinline int IN_FAMILY(lb_send_by_table)(struct lb_backend *b)
{
	struct bpf_redir_neigh hop = {};

	if (!b)
		return LB_SHOT;
	if (!(b->next_hop >> 48 & LB_WAY_ON_LINK))
		return bpf_redirect_neigh((__u32)b->way, 0, 0, 0);
	hop.nh_family = AF;
	IN_FAMILY(lb_copy)(HOP_ADDRESS(hop), b->address);
	return bpf_redirect_neigh((__u32)b->way, &hop, sizeof(hop), 0);
}

/* Sends a packet that is written to a backend. */
static __always_inline int IN_FAMILY(lb_send)(struct __sk_buff *skb, struct lb_backend *b, int fresh)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 flags = b->next_hop >> 48;
	struct lb_ethernet *e = data;

	skb->mark = 0;
	if (flags & LB_WAY_LOCAL)
		return PASS;
	/* Once in a while by the neighbour table, which otherwise would not notice that a machine has moved. */
	if (flags & LB_WAY_UNRESOLVED || (fresh && flags & LB_WAY_ON_LINK))
		return IN_FAMILY(lb_send_by_table)(b);
	if ((void *)(e + 1) > end)
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	__builtin_memcpy(e->dest, &b->next_hop, 6);
	__builtin_memcpy(e->source, &b->device, 6);
	return bpf_redirect((__u32)b->way, 0);
}

/* Direct server return. */
static __always_inline int IN_FAMILY(lb_deliver)(struct __sk_buff *skb, const struct lb_packet *p, struct lb_backend *b,
						 int fresh)
{
	if (!(b->next_hop >> 48 & LB_WAY_ON_LINK) && IN_FAMILY(lb_wrap)(skb, b))
		return lb_tally(STRATUM_LB_KERNEL, LB_SHOT);
	return IN_FAMILY(lb_send)(skb, b, fresh);
}
