/*
 * Bandwidth limits. A frame of a limited MAC is queued in a class of HTB on one end of a veth pair, the near end for what
 * the MAC sends and the far end for what it gets, and goes on from the other end (shaped_up, shaped_down). Pairs are shared
 * by all ports, so members of a pool are classes below one.
 *
 * What goes on and meets a port once more bears STAMP_SHAPED in place of the stamp: it has been judged and counted.
 */
#pragma once

#include "forward.h"
#include "quota.h"
#include "tenant.h"

struct shape {
	/* Program: ifindex of the port without a net that the MAC sends by; 0 when not known. In a net, see endpoint_of(). */
	__u32 home;
	/* Only what passes this port is limited; 0 for any. */
	__u32 interface;
	/* Ends of the pair; 0 when there is no class. */
	__u32 near;
	__u32 far;
	/* skb->priority: minor numbers of classes, 0 for none; while its quota throttles the MAC, the slow ones. */
	__u16 up;
	__u16 down;
	__u16 slow;
	__u16 unused;
	/* Slot of its quota and 1; 0 for none. */
	__u32 quota;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STRATUM_SHAPE_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct shape);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} shapes SEC(".maps");

/* What all workloads together may send, and get. Program: `debts`, as of a tenant. */
struct ceiling {
	/* Bits a second; 0 for none. */
	__u64 rate;
	struct bucket debts;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ceiling);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ceilings SEC(".maps");

/* Where a frame shall queue. */
struct queue {
	__u32 device;
	__u32 class;
};

/* 0 or the reason against a frame that is more than the node may carry. */
static __always_inline __u32 judge_ceiling(struct __sk_buff *skb, int up)
{
	__u32 only = 0;
	struct ceiling *row = bpf_map_lookup_elem(&ceilings, &only);
	struct wire wire;
	__u64 rate;

	if (!row)
		return 0;
	rate = row->rate;
	if (!rate)
		return 0;
	measure(skb, &wire);
	return pay(up ? &row->debts.up : &row->debts.down, rate, wire.bytes) ? 0 : STRATUM_DROP_CEILING;
}

static __always_inline struct shape *shape_of(__u64 mac)
{
	return bpf_map_lookup_elem(&shapes, &mac);
}

/* ifindex of the port that the MAC is at in its net; 0 when not known. Two nets may have the same MAC. */
static __always_inline __u32 home_of(__u32 net, __u64 mac, const struct shape *row)
{
	struct endpoint *bound;

	if (!net)
		return row ? row->home : 0;
	bound = endpoint_of(net, mac);
	return bound ? bound->home : 0;
}

/*
 * 0 or the reason against a frame of a MAC that has a row; fills in its queue, device 0 for none. `counts`: the MAC is known
 * to be at this port, so the frame is of its quota.
 */
static __noinline int judge_shape(struct __sk_buff *skb, struct shape *row, struct queue *queue, int up, int counts)
{
	__u32 class, slow = 0, ifindex = skb->ifindex;
	int verdict;

	if (!row || !queue)
		return 0;
	if (counts && row->quota) {
		verdict = spend(skb, row->quota - 1);
		if (verdict == STRATUM_QUOTA_BLOCK)
			return STRATUM_DROP_QUOTA;
		if (verdict == STRATUM_QUOTA_THROTTLE)
			slow = row->slow;
	}
	class = slow ? slow : up ? row->up : row->down;
	if (!class || (!slow && row->interface && row->interface != ifindex))
		return 0;
	queue->device = up ? row->near : row->far;
	queue->class = STRATUM_SHAPE_MAJOR << 16 | class;
	return 0;
}

/* 0 or the reason against a frame from a workload. */
static __always_inline __u32 limit_up(struct __sk_buff *skb, __u32 net, __u64 source, struct queue *queue)
{
	struct shape *row;
	__u32 reason = judge_ceiling(skb, 1);

	if (reason)
		return reason;
	row = shape_of(source);
	if (!row)
		return 0;
	if (!net && row->home != skb->ifindex)
		row->home = skb->ifindex;
	return judge_shape(skb, row, queue, 1, 1);
}

/* 0 or the reason against a frame to a workload. */
static __always_inline __u32 limit_down(struct __sk_buff *skb, __u32 net, struct queue *queue)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct shape *row = 0;
	__u64 mac = 0;
	__u32 reason, home;

	if (data + ETHERNET_HEADER <= end) {
		mac = mac_at(data);
		row = shape_of(mac);
	}
	reason = judge_ceiling(skb, 0);
	if (reason)
		return reason;
	/* A frame that is flooded leaves by ports at which the MAC is not. While nobody knows where it is, each is limited and none spent. */
	home = home_of(net, mac, row);
	if (!row || (home && home != skb->ifindex))
		return 0;
	return judge_shape(skb, row, queue, 0, home != 0);
}

static __always_inline int enqueue(struct __sk_buff *skb, const struct queue *queue)
{
	skb->priority = queue->class;
	return bpf_redirect(queue->device, 0);
}

/* What goes to a port waits with the number of that in place of its net, which has been compared. */
static __always_inline int enqueue_down(struct __sk_buff *skb, const struct queue *queue)
{
	skb->mark = STRATUM_STAMP_SHAPED | skb->ifindex;
	return enqueue(skb, queue);
}

/* The mark has room for no higher number. */
static __always_inline int may_return(struct __sk_buff *skb)
{
	return skb->ifindex <= (__u32)~STRATUM_STAMP_MASK;
}

static __always_inline int is_shaped(struct __sk_buff *skb)
{
	return (skb->mark & STRATUM_STAMP_MASK) == STRATUM_STAMP_SHAPED;
}

/* Verdict for what a workload has sent and its class let go: on past the bridge, or in by its port once more. */
static __always_inline int shaped_ingress(struct __sk_buff *skb)
{
	__u32 mark = skb->mark, net = mark & STRATUM_STAMP_NET, home, there, reason;
	struct frame f = {};
	int verdict;

	if ((mark & STRATUM_STAMP_MASK) != STRATUM_STAMP)
		return drop(STRATUM_DROP_UNSTAMPED);
	reason = parse_link(skb, &f);
	if (reason)
		return drop(reason);
	home = home_of(net, f.source, shape_of(f.source));
	verdict = forward(skb, &f, net, home);
	if (verdict != PASS)
		return verdict;
	if (!net_of_port(home, &there))
		return drop(STRATUM_DROP_NO_PORT);
	if (there != net)
		return drop(STRATUM_DROP_OTHER_NET);
	skb->mark = STRATUM_STAMP_SHAPED | (mark & ~STRATUM_STAMP_MASK);
	return bpf_redirect(home, BPF_F_INGRESS);
}

/* Verdict for what a class let go to a workload: to the port, unless that became another net's while it waited. */
static __always_inline int shaped_egress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 net, ifindex = skb->mark & ~STRATUM_STAMP_MASK;

	if (!is_shaped(skb))
		return drop(STRATUM_DROP_UNSTAMPED);
	if (!net_of_port(ifindex, &net))
		return drop(STRATUM_DROP_NO_PORT);
	if (data + ETHERNET_HEADER > end)
		return drop(STRATUM_DROP_SHORT);
	if (net && !endpoint_of(net, mac_at(data)))
		return drop(STRATUM_DROP_OTHER_NET);
	return bpf_redirect(ifindex, 0);
}
