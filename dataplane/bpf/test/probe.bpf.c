/* Programs and maps that the tests of the BPF driver load: one small thing of each kind that the driver can do. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define PASS_ON -1 /* TCX_NEXT */

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u64 step = 1;
const volatile __u32 mark = 0;

struct flow {
	__u32 packets;
	__u32 port;
	__u64 bytes;
};

struct event {
	__u32 sequence;
	__u32 length;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10000);
	__type(key, __u32);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 100);
	__type(key, __u32);
	__type(value, __u32[3]);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} verdict SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 131072); /* 8192 records of 16 bytes, header included */
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_HASH);
		__uint(max_entries, 1000);
		__type(key, __u32);
		__type(value, __u32);
	});
} table SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &which);

	if (n)
		__sync_fetch_and_add(n, step);
}

SEC("tc")
int count_first(struct __sk_buff *skb)
{
	count(0);
	return PASS_ON;
}

SEC("tc")
int count_second(struct __sk_buff *skb)
{
	count(1);
	return PASS_ON;
}

SEC("xdp")
int count_xdp(struct xdp_md *ctx)
{
	count(2);
	return XDP_PASS;
}

SEC("xdp")
int count_xdp_second(struct xdp_md *ctx)
{
	count(3);
	return XDP_PASS;
}

/* Lets a packet pass when the first element of `verdict` is 1, drops it when it is 0. */
SEC("netfilter")
int judge(void *ctx)
{
	__u32 first = 0;
	__u64 *value = bpf_map_lookup_elem(&verdict, &first);

	return value ? *value & 1 : 1;
}

/* Answers what the table in force holds for key 7. */
SEC("tc")
int read_table(struct __sk_buff *skb)
{
	__u32 first = 0, seven = 7, *value;
	void *inner = bpf_map_lookup_elem(&table, &first);

	if (!inner)
		return 0;
	value = bpf_map_lookup_elem(inner, &seven);
	return value ? *value : 1;
}

/* Tells of each packet that it sees, by its mark and length; counts in `counts` what the ring could not hold. */
SEC("tc")
int tell(struct __sk_buff *skb)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count(0);
		return PASS_ON;
	}
	event->sequence = skb->mark++;
	event->length = skb->len;
	bpf_ringbuf_submit(event, 0);
	return PASS_ON;
}

/* Adds a per-CPU measurement under the packet's mark and rewrites the first byte and the mark. */
SEC("tc")
int rewrite(struct __sk_buff *skb)
{
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 key = skb->mark, value[3] = {1, skb->len, 3};

	if (data + 14 > end)
		return 2;
	bpf_map_update_elem(&stats, &key, value, BPF_ANY);
	data[0] = 0xfe;
	skb->mark = mark;
	return 5;
}
