/* Counting what endpoints send and get, as it stands on the wire: a segmented frame counts as all that it becomes. */
#pragma once

#include "ipv6.h"
#include "networks.h"

struct wire {
	__u64 packets;
	__u64 bytes;
};

/* Bytes of headers that each segment repeats; 0 when they cannot be read. */
static __always_inline __u32 segment_headers(struct __sk_buff *skb)
{
	__u32 at = ETHERNET_HEADER - 2, protocol;
	__u16 type = 0;
	__u8 byte = 0;

#pragma unroll
	for (int i = 0; i < 3; i++, at += TAG) {
		if (bpf_skb_load_bytes(skb, at, &type, sizeof(type)))
			return 0;
		if (!is_tag(type))
			break;
	}
	at += 2;
	if (type == TYPE_IPV4) {
		if (bpf_skb_load_bytes(skb, at + 9, &byte, 1))
			return 0;
		protocol = byte;
		if (bpf_skb_load_bytes(skb, at, &byte, 1))
			return 0;
		at += (byte & 0xf) * 4;
	} else if (type == TYPE_IPV6) {
		if (bpf_skb_load_bytes(skb, at + 6, &byte, 1))
			return 0;
		protocol = byte;
		at += IPV6_HEADER;
		if (skip_extensions(skb, &at, &protocol))
			return 0;
	} else {
		return 0;
	}
	if (protocol != PROTOCOL_TCP)
		return at + 8;
	if (bpf_skb_load_bytes(skb, at + 12, &byte, 1))
		return 0;
	return at + (byte >> 4) * 4;
}

/* `gso_segs` is 0 for what a guest hands in by a tap, and `len` counts the headers once. */
static __noinline int measure_segments(struct __sk_buff *skb, struct wire *wire)
{
	__u32 headers = segment_headers(skb), size = skb->gso_size, payload;

	if (!wire || !size || !headers || skb->len <= headers)
		return 0;
	payload = skb->len - headers;
	wire->packets = (payload + size - 1) / size;
	wire->bytes += (wire->packets - 1) * headers;
	return 0;
}

static __always_inline void measure(struct __sk_buff *skb, struct wire *wire)
{
	wire->packets = 1;
	wire->bytes = skb->len;
	if (skb->gso_size)
		measure_segments(skb, wire);
	if (skb->vlan_present)
		wire->bytes += wire->packets * TAG;
}

static __always_inline void add(__u32 slot, __u32 which, __u64 amount)
{
	__u64 *count = slot_word(slot, which);

	if (count)
		__sync_fetch_and_add(count, amount);
}

static __always_inline void account_up(struct __sk_buff *skb, __u32 slot)
{
	struct wire wire;

	measure(skb, &wire);
	add(slot, STRATUM_SLOT_UP_PACKETS, wire.packets);
	add(slot, STRATUM_SLOT_UP_BYTES, wire.bytes);
}

static __always_inline void account_down(struct __sk_buff *skb, __u32 slot)
{
	struct wire wire;

	measure(skb, &wire);
	add(slot, STRATUM_SLOT_DOWN_PACKETS, wire.packets);
	add(slot, STRATUM_SLOT_DOWN_BYTES, wire.bytes);
}
