/*
 * What each MAC behind a workload port has sent and got, bound or not, whatever becomes of its binding or of the agent.
 * Counters only grow; `born` tells the agent whether they are those that it has read before.
 */
#pragma once

#include "account.h"

struct usage {
	__u64 up_packets;
	__u64 up_bytes;
	__u64 down_packets;
	__u64 down_bytes;
	/* When the row was made: nanoseconds of CLOCK_MONOTONIC >> USAGE_BORN_BITS. */
	__u64 born;
	/* IPv4 address that it last sent from, 0 for none. */
	__u32 address;
	/* ifindex of the port that it last sent by. */
	__u32 home;
};

/* Of bound MACs, which cannot be made up: nobody pushes another's row out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct usage);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} usage_bound SEC(".maps");

/* Of all others on open ports. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_USAGE_OPEN_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct usage);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} usage_open SEC(".maps");

static __always_inline struct usage *usage_of(__u32 net, const __u64 *mac)
{
	return net ? bpf_map_lookup_elem(&usage_bound, mac) : bpf_map_lookup_elem(&usage_open, mac);
}

static __noinline int usage_begin(__u32 net, const __u64 *mac)
{
	struct usage fresh = {.born = bpf_ktime_get_ns() >> STRATUM_USAGE_BORN_BITS};

	if (!mac)
		return 0;
	/* Another CPU may have been first: then its row stands. */
	if (net)
		bpf_map_update_elem(&usage_bound, mac, &fresh, BPF_NOEXIST);
	else
		bpf_map_update_elem(&usage_open, mac, &fresh, BPF_NOEXIST);
	return 0;
}

/* `address` is the IPv4 sender, 0 for none. */
static __always_inline void usage_up(struct __sk_buff *skb, __u32 net, __u64 mac, __u32 address, const struct wire *wire)
{
	struct usage *row = usage_of(net, &mac);

	if (!row) {
		usage_begin(net, &mac);
		row = usage_of(net, &mac);
		if (!row)
			return;
	}
	__sync_fetch_and_add(&row->up_packets, wire->packets);
	__sync_fetch_and_add(&row->up_bytes, wire->bytes);
	if (row->home != skb->ifindex)
		row->home = skb->ifindex;
	if (address && row->address != address)
		row->address = address;
}

/* A frame to one station of net `net` that leaves by a workload port. */
static __always_inline void usage_down(struct __sk_buff *skb, __u32 net)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct endpoint *bound;
	struct usage *row;
	struct wire wire;
	__u64 mac;

	if (data + ETHERNET_HEADER > end)
		return;
	mac = mac_at(data);
	if (is_multicast(mac))
		return;
	/* What is flooded is got by the port that has the MAC; while none is known to have it, by none. */
	if (net) {
		bound = endpoint_of(net, mac);
		if (!bound || bound->home != skb->ifindex)
			return;
	}
	row = usage_of(net, &mac);
	if (!row && net) {
		usage_begin(net, &mac);
		row = usage_of(net, &mac);
	}
	if (!row || (!net && row->home != skb->ifindex))
		return;
	measure(skb, &wire);
	__sync_fetch_and_add(&row->down_packets, wire.packets);
	__sync_fetch_and_add(&row->down_bytes, wire.bytes);
}
