/*
 * The programs on br-work. What is attached is a stub (hook_*), which goes on to the program (port_*, uplink_*, host_*)
 * in its slot of `programs`: an upgrade replaces the program of all ports by one update, and no link is touched.
 *
 * The order in which areas meet a packet: parse, MAC and sender and VLAN, firewall verdict, load balancer, NAT,
 * shaping and accounting. An area adds a header of its own and one line in its place below.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "account.h"
#include "flow.h"
#include "former.h"
#include "forward.h"
#include "host.h"
#include "networks.h"
#include "shape.h"
#include "tenant.h"
#include "uplink.h"
#include "vlan.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, STRATUM_HOOK_ROWS);
	__type(key, __u32); /* HOOK_* */
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} programs SEC(".maps");

/* Runs the program in the slot. Behind it stands only what happens while there is none. */
#define HOOK(name, slot)                                                                                               \
	SEC("tc") int hook_##name(struct __sk_buff *skb)                                                               \
	{                                                                                                              \
		bpf_tail_call(skb, &programs, slot);                                                                   \
		return drop(STRATUM_DROP_NO_PROGRAM);                                                                  \
	}

HOOK(port_in, STRATUM_HOOK_PORT_IN)
HOOK(port_out, STRATUM_HOOK_PORT_OUT)
HOOK(uplink_in, STRATUM_HOOK_UPLINK_IN)
HOOK(uplink_out, STRATUM_HOOK_UPLINK_OUT)
HOOK(host_in, STRATUM_HOOK_HOST_IN)
HOOK(host_out, STRATUM_HOOK_HOST_OUT)
HOOK(shaped_up, STRATUM_HOOK_SHAPED_UP)
HOOK(shaped_down, STRATUM_HOOK_SHAPED_DOWN)

/* 0 or the reason against what every frame of a workload must be. */
static __always_inline __u32 judge_link(const struct frame *f)
{
	if (f->source == 0 || is_multicast(f->source))
		return STRATUM_DROP_SOURCE_MAC;
	return is_reserved(f->destination) ? STRATUM_DROP_RESERVED : 0;
}

/* A frame from a workload: proves the sender and stamps the net. */
SEC("tc") int port_in(struct __sk_buff *skb)
{
	struct sender sender = {};
	struct queue queue = {};
	struct frame f = {};
	__u32 reason, former;

	if (is_shaped(skb)) {
		skb->mark = STRATUM_STAMP | (skb->mark & ~STRATUM_STAMP_MASK);
		return PASS;
	}
	if (!net_of_port(skb->ifindex, &sender.net))
		return drop(STRATUM_DROP_NO_PORT);
	reason = parse(skb, &f);
	if (!reason)
		reason = judge_link(&f);
	if (!reason)
		reason = judge_vlans(&f);
	if (!reason)
		reason = judge_sender(skb, &f, &sender);
	if (reason == STRATUM_DROP_RESERVED)
		return drop(reason);
	former = refused_former(skb, &f, sender.net, reason);
	if (former) {
		reason = judge_tenant(skb, former, 1);
		return reason ? drop(reason) : bpf_redirect(to_node(skb, &f, former), BPF_F_INGRESS);
	}
	if (reason)
		return violation(skb, f.source, reason, f.sender, f.vids[0] | f.vids[1] << 16);

	/* Here: firewall verdict, load balancer, NAT. */

	reason = judge_tenant(skb, sender.net, 1);
	if (reason)
		return drop(reason);

	if (!sender.net && !f.sender) {
		/* It may ask others as well, to whom the frame goes as that of any open port does. */
		former = former_net(skb, &f);
		if (former)
			bpf_clone_redirect(skb, to_node(skb, &f, former), BPF_F_INGRESS);
	}
	skb->mark = STRATUM_STAMP | sender.routed | sender.net;

	reason = limit_up(skb, sender.net, f.source, &queue);
	if (reason)
		return drop(reason);

	if (sender.net)
		account_up(skb, sender.slot);
	meet(skb, &f, sender.net, MET_WORKLOAD);
	if (queue.device)
		return enqueue(skb, &queue);
	return forward(skb, &f, sender.net, skb->ifindex);
}

/* A frame to a workload: only of the port's own net. */
SEC("tc") int port_out(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct queue queue = {};
	struct endpoint *row;
	__u32 net, reason;

	if (is_shaped(skb)) {
		skb->mark = 0;
		return PASS;
	}
	if (!net_of_port(skb->ifindex, &net))
		return drop(STRATUM_DROP_NO_PORT);
	if ((skb->mark & STRATUM_STAMP_MASK) != STRATUM_STAMP)
		return drop(STRATUM_DROP_UNSTAMPED);
	if ((skb->mark & STRATUM_STAMP_NET) != net) {
		if (net || !answers_former(skb, skb->mark & STRATUM_STAMP_NET))
			return drop(STRATUM_DROP_OTHER_NET);
		skb->mark = 0;
		return PASS;
	}

	reason = judge_tenant(skb, net, 0);
	if (reason)
		return drop(reason);

	reason = limit_down(skb, net, &queue);
	if (reason)
		return drop(reason);

	if (net && data + ETHERNET_HEADER <= end) {
		row = is_multicast(mac_at(data)) ? 0 : endpoint_of(net, mac_at(data));
		/* What is flooded leaves by ports at which the MAC is not. */
		if (row && row->home == skb->ifindex)
			account_down(skb, row->slot);
	}
	usage_down(skb, net);
	if (queue.device && may_return(skb))
		return enqueue_down(skb, &queue);
	/* Marks survive a veth pair within one namespace. */
	skb->mark = 0;
	return PASS;
}

SEC("tc") int uplink_in(struct __sk_buff *skb)
{
	__u32 net, kind;

	return port_of(skb->ifindex, &net, &kind) ? uplink_ingress(skb, net, kind) : drop(STRATUM_DROP_NO_PORT);
}

SEC("tc") int uplink_out(struct __sk_buff *skb)
{
	__u32 net, kind;

	return port_of(skb->ifindex, &net, &kind) ? uplink_egress(skb, net, kind) : drop(STRATUM_DROP_NO_PORT);
}

SEC("tc") int host_in(struct __sk_buff *skb)
{
	return host_ingress(skb);
}

SEC("tc") int host_out(struct __sk_buff *skb)
{
	return host_egress(skb);
}

SEC("tc") int shaped_up(struct __sk_buff *skb)
{
	return shaped_ingress(skb);
}

SEC("tc") int shaped_down(struct __sk_buff *skb)
{
	return shaped_egress(skb);
}
