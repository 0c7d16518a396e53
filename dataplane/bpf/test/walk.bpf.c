/*
 * For a bench: gives a program the same frame again and again, each time as it was made and from another client, since a
 * kernel's test run does not put back what a program has rewritten.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define FRAME 64

struct walk {
	__u64 frame[FRAME / 8];
	__u32 slot;
	/* Clients less one, which is all ones in binary. */
	__u32 clients;
	/* Where the client's address and port stand in the frame. */
	__u32 address;
	__u32 port;
	__u32 turn;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} walked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u64);
	__type(value, __u64);
} empty SEC(".maps");

SEC("tc") int walk(struct __sk_buff *skb)
{
	void *data, *end;
	struct walk *w;
	__u32 only = 0, client;
	__u64 *to;

	w = bpf_map_lookup_elem(&walks, &only);
	if (!w)
		return -1;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + FRAME > end)
		return -3;
	to = data;
#pragma unroll
	for (int i = 0; i < FRAME / 8; i++)
		to[i] = w->frame[i];
	/* An odd factor puts the numbers in another order, so that no cache is warm by chance. */
	client = (w->turn++ * 2654435761u) & w->clients;
	if (w->clients) {
		__u32 address = w->address & 31, port = w->port & 63;

		if (data + address + 4 <= end)
			*(__u16 *)(data + address + 2) = bpf_htons(client >> 12);
		if (data + port + 2 <= end)
			*(__u16 *)(data + port) = bpf_htons(1024 + (client & 0xfff));
	}
	bpf_tail_call(skb, &walked, w->slot);
	return -4;
}

SEC("tc") int nothing(struct __sk_buff *skb)
{
	return 0;
}

/* Reads what every load balancer must read. */
static __always_inline int read(struct __sk_buff *skb, __u64 *key)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u8 *byte = data;

	if (data + 54 > end || *(__u16 *)(data + 12) != bpf_htons(0x0800) || byte[14] != 0x45 ||
	    *(__u16 *)(data + 20) & bpf_htons(0x3fff) || byte[23] != 6)
		return -1;
	*key = (__u64)*(__u32 *)(data + 30) << 32 | *(__u16 *)(data + 36);
	return 0;
}

SEC("tc") int floor_read(struct __sk_buff *skb)
{
	__u64 key;

	return read(skb, &key) || key == 99 ? -1 : 0;
}

SEC("tc") int floor_hash(struct __sk_buff *skb)
{
	__u64 key;

	if (read(skb, &key))
		return -1;
	return bpf_map_lookup_elem(&empty, &key) ? 1 : 0;
}
