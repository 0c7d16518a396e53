/* What a MAC without limit and quota pays: the same frames with and without the look-ups of both hooks. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#pragma clang diagnostic ignored "-Wunused-function"
#include "shape.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} turns SEC(".maps");

/* Frames of 65,536 stations in an order that no cache foresees. */
static __always_inline int next_frame(struct __sk_buff *skb, struct frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 zero = 0, *turn = bpf_map_lookup_elem(&turns, &zero);

	if (!turn || data + ETHERNET_HEADER > end)
		return 0;
	*(__u16 *)(data + 4) = *(__u16 *)(data + 10) = (*turn)++ * 40503u;
	return !parse(skb, f);
}

SEC("tc") int without(struct __sk_buff *skb)
{
	struct frame f = {};

	return next_frame(skb, &f) ? PASS : DROP;
}

SEC("tc") int unshaped(struct __sk_buff *skb)
{
	struct queue queue = {};
	struct frame f = {};

	if (!next_frame(skb, &f))
		return DROP;
	if (limit_up(skb, 0, f.source, &queue) || limit_down(skb, 0, &queue))
		return DROP;
	return queue.device ? DROP : PASS;
}
