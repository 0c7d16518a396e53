/*
 * Sets the scene for the programs on br-work when they are run on a packet of a test's own, shows what the kernel would
 * not tell of it, and measures. The control block of the packet (`cb` of the context) carries order and answer.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "parse.h"

#define PASS -1
#define DROP 2
#define NOBODY 99

char LICENSE[] SEC("license") = "GPL";

/* include/linux/filter.h: where bpf_redirect notes its target. */
struct bpf_redirect_info {
	__u64 tgt_index;
} __attribute__((preserve_access_index));

struct bpf_net_context {
	struct bpf_redirect_info ri;
} __attribute__((preserve_access_index));

struct task_struct {
	struct bpf_net_context *bpf_net_context;
} __attribute__((preserve_access_index));

/* The programs under test. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} staged SEC(".maps");

static __noinline int play(struct __sk_buff *skb, __u32 slot)
{
	int verdict = NOBODY;

	bpf_tail_call(skb, &staged, slot);
	/* The compiler must not take this for the only answer. */
	asm volatile("" : "+r"(verdict));
	return verdict;
}

/*
 * cb[0]: slot in `staged`. cb[1]: tag to put in front, which then stands beside the frame as a network card leaves it:
 * EtherType << 16 | id, 0 for none. cb[4]: length to cut the frame to, 0 for its own; the kernel takes none from outside
 * whose network header is not whole. Answers in cb[2] where the frame was redirected to, in cb[3] the tag beside it.
 */
SEC("tc") int stage(struct __sk_buff *skb)
{
	__u32 tag = skb->cb[1];
	int verdict;

	if (skb->cb[4] && bpf_skb_change_tail(skb, skb->cb[4], 0))
		return NOBODY;
	if (tag && bpf_skb_vlan_push(skb, bpf_htons(tag >> 16), tag & 0xffff))
		return NOBODY;
	verdict = play(skb, skb->cb[0]);
	skb->cb[2] = verdict == 7 ? bpf_get_current_task_btf()->bpf_net_context->ri.tgt_index : 0;
	skb->cb[3] = skb->vlan_present ? (__u32)bpf_ntohs(skb->vlan_proto) << 16 | skb->vlan_tci : 0;
	return verdict;
}

/* What any program must do at least: the floor under the figures. */
SEC("tc") int parse_only(struct __sk_buff *skb)
{
	struct frame f = {};

	if (parse(skb, &f))
		return DROP;
	skb->mark = f.sender ^ (__u32)f.source ^ (__u32)f.destination;
	return PASS;
}

struct walker {
	__u32 slot;
	__u32 mark;
	__u32 pairs;
	__u32 turn;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walker);
} walkers SEC(".maps");

/* Destination and source MAC and source address, as they stand in a frame. */
struct pair {
	__u8 macs[12];
	__u32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct pair);
} pairs SEC(".maps");

/* Runs a program on an IPv4 frame of another pair of stations each time, in an order that no cache foresees. */
SEC("tc") int walk(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 zero = 0, which;
	struct walker *walker = bpf_map_lookup_elem(&walkers, &zero);
	struct pair *pair;

	if (!walker || data + ETHERNET_HEADER + IPV4_HEADER > end)
		return NOBODY;
	which = walker->turn++ * 40503u % (walker->pairs ? walker->pairs : 1);
	pair = bpf_map_lookup_elem(&pairs, &which);
	if (!pair)
		return NOBODY;
	__builtin_memcpy(data, pair->macs, sizeof(pair->macs));
	*(__u32 *)(data + ETHERNET_HEADER + 12) = pair->address;
	skb->mark = walker->mark;
	bpf_tail_call(skb, &staged, walker->slot);
	return NOBODY;
}

/* Bit n says that frame n of a numbered stream came by. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, __u64);
} passed SEC(".maps");

/* Frames that came by twice. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} doubled SEC(".maps");

/* "strt", and the number of the frame, behind the UDP header of an untagged frame. */
#define STREAM_MAGIC bpf_htonl(0x73747274)

SEC("tc") int record(struct __sk_buff *skb)
{
	struct {
		__u32 magic, number;
	} head;
	__u32 word, zero = 0;
	__u64 bit, *bits, *twice = bpf_map_lookup_elem(&doubled, &zero);

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER + IPV4_HEADER + 8, &head, sizeof(head)) ||
	    head.magic != STREAM_MAGIC)
		return PASS;
	word = head.number / 64;
	bit = 1ULL << (head.number % 64);
	bits = bpf_map_lookup_elem(&passed, &word);
	if (bits && __sync_fetch_and_or(bits, bit) & bit && twice)
		__sync_fetch_and_add(twice, 1);
	return PASS;
}
