/*
 * From a packet to its connection: the headers of each family, what an ICMP error is about, and fragments, whose ports
 * the first of them has told. Included behind lb_family.h, whose functions it goes on to.
 */
#pragma once

static __always_inline int read_ports(struct lb_packet *p, const void *l4, const void *end, __u16 *source, __u16 *dest,
				      __u32 protocol)
{
	const struct lb_tcp *tcp = l4;
	const struct lb_udp *udp = l4;

	if (protocol == LB_PROTOCOL_TCP) {
		if ((void *)(tcp + 1) > end)
			return -1;
		p->flags = tcp->flags;
	} else if ((void *)(udp + 1) > end) {
		return -1;
	}
	*source = udp->source;
	*dest = udp->dest;
	return 0;
}

/* How much of a packet is looked at. */
#define LB_HEADERS 192

/* What an ICMP error of IPv4 is about; `at` is where its own header begins. */
__noinline int errors4(struct __sk_buff *skb, __u32 at)
{
	struct lb_error error = {};
	struct lb_tuple4 quote = {};
	struct lb_ip4 ip = {};
	__u32 ports = 0;
	__u8 type = 0;

	if (bpf_skb_load_bytes(skb, at, &type, 1))
		return PASS;
	if (type != LB_ICMP_UNREACHABLE && type != LB_ICMP_TIME_EXCEEDED && type != LB_ICMP_PARAMETER)
		return PASS;
	error.check = at + LB_ICMP_CHECK;
	error.quoted = at + LB_ICMP_HEADER;
	if (bpf_skb_load_bytes(skb, error.quoted, &ip, sizeof(ip)))
		return PASS;
	error.ports = error.quoted + (ip.version_length & 15) * 4;
	if (bpf_skb_load_bytes(skb, error.ports, &ports, sizeof(ports)) || ip.fragment & bpf_htons(0x1fff) ||
	    bpf_skb_load_bytes(skb, LB_ETHERNET + 12, error.reporter, 4))
		return PASS;
	if (ip.protocol != LB_PROTOCOL_TCP && ip.protocol != LB_PROTOCOL_UDP)
		return PASS;
	quote.source[0] = ip.source;
	quote.dest[0] = ip.dest;
	quote.protocol = ip.protocol;
	quote.source_port = ports;
	quote.dest_port = ports >> 16;
	if (lb_vip_of4(quote.source, quote.source_port, quote.protocol, 1))
		return lb_tell_backend4(skb, &quote, &error);
	return lb_tell_client4(skb, &quote, &error);
}

__noinline int errors6(struct __sk_buff *skb, __u32 at)
{
	struct lb_error error = {};
	struct lb_tuple6 quote = {};
	struct lb_ip6 ip = {};
	__u32 ports = 0;
	__u8 type = 0;

	if (bpf_skb_load_bytes(skb, at, &type, 1) || type < LB_ICMPV6_UNREACHABLE || type > LB_ICMPV6_PARAMETER)
		return PASS;
	error.check = at + LB_ICMP_CHECK;
	error.quoted = at + LB_ICMP_HEADER;
	error.ports = error.quoted + sizeof(ip);
	if (bpf_skb_load_bytes(skb, error.quoted, &ip, sizeof(ip)) ||
	    bpf_skb_load_bytes(skb, error.ports, &ports, sizeof(ports)) ||
	    bpf_skb_load_bytes(skb, LB_ETHERNET + 8, error.reporter, 16))
		return PASS;
	if (ip.next != LB_PROTOCOL_TCP && ip.next != LB_PROTOCOL_UDP)
		return PASS;
	lb_copy6(quote.source, ip.source);
	lb_copy6(quote.dest, ip.dest);
	quote.protocol = ip.next;
	quote.source_port = ports;
	quote.dest_port = ports >> 16;
	if (lb_vip_of6(quote.source, quote.source_port, quote.protocol, 1))
		return lb_tell_backend6(skb, &quote, &error);
	return lb_tell_client6(skb, &quote, &error);
}

static __noinline int balance4(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct lb_packet p = {};
	struct lb_tuple4 t = {};
	struct lb_ip4 *ip = data + LB_ETHERNET;
	__u32 fragment;

	if ((void *)(ip + 1) > end)
		return PASS;
	if (ip->protocol != LB_PROTOCOL_TCP && ip->protocol != LB_PROTOCOL_UDP)
		return PASS;
	p.l4 = LB_ETHERNET + (ip->version_length & 15) * 4;
	t.source[0] = ip->source;
	t.dest[0] = ip->dest;
	t.protocol = ip->protocol;
	fragment = ip->fragment & bpf_htons(0x3fff);
	if (fragment) {
		p.fragment = ip->fragment & bpf_htons(0x1fff) ? LB_FRAGMENT_LATER : LB_FRAGMENT_FIRST;
		p.datagram = ip->id;
	}
	if (p.fragment == LB_FRAGMENT_LATER ?
		    lb_find_ports4(&t, &p) :
		    read_ports(&p, data + p.l4, end, &t.source_port, &t.dest_port, t.protocol))
		return PASS;
	return lb_balance4(skb, &t, &p);
}

/* Moves `p->l4` behind the extension headers (RFC 8200, section 4). The upper layer, or 0: none is to be seen. */
__noinline __u32 skip_extensions(struct __sk_buff *skb, struct lb_packet *p, __u32 next)
{
	if (!p)
		return 0;
	for (int i = 0; i < LB_EXTENSIONS; i++) {
		__u8 head[8] = {};

		if (next != LB_HOP_BY_HOP && next != LB_ROUTING && next != LB_FRAGMENT_HEADER &&
		    next != LB_DESTINATION_OPTIONS)
			return next;
		if (p->l4 > LB_HEADERS || bpf_skb_load_bytes(skb, p->l4, head, sizeof(head)))
			return 0;
		if (next == LB_FRAGMENT_HEADER) {
			p->fragment = head[2] || head[3] & 0xf8 ? LB_FRAGMENT_LATER : LB_FRAGMENT_FIRST;
			__builtin_memcpy(&p->datagram, head + 4, 4);
			p->l4 += 8;
		} else {
			p->l4 += (head[1] + 1) * 8;
		}
		next = head[0];
		if (p->fragment == LB_FRAGMENT_LATER)
			return next;
	}
	return 0;
}

static __noinline int balance6(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct lb_packet p = {};
	struct lb_tuple6 t = {};
	struct lb_ip6 *ip = data + LB_ETHERNET;

	if ((void *)(ip + 1) > end)
		return PASS;
	p.l4 = LB_ETHERNET + sizeof(*ip);
	lb_copy6(t.source, ip->source);
	lb_copy6(t.dest, ip->dest);
	t.protocol = ip->next;
	if (t.protocol != LB_PROTOCOL_TCP && t.protocol != LB_PROTOCOL_UDP) {
		t.protocol = skip_extensions(skb, &p, t.protocol);
		if (t.protocol != LB_PROTOCOL_TCP && t.protocol != LB_PROTOCOL_UDP)
			return PASS;
	}
	if (p.l4 > LB_HEADERS)
		return PASS;
	if (p.fragment == LB_FRAGMENT_LATER ?
		    lb_find_ports6(&t, &p) :
		    read_ports(&p, data + p.l4, end, &t.source_port, &t.dest_port, t.protocol))
		return PASS;
	return lb_balance6(skb, &t, &p);
}
