/* Two programs that count what they meet. Nothing else is in here, so every kernel that the agent supports takes them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} counts SEC(".maps");

static __always_inline int count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
	return -1; /* on to the next program */
}

SEC("tc")
int count_first(struct __sk_buff *skb)
{
	return count(0);
}

SEC("tc")
int count_second(struct __sk_buff *skb)
{
	return count(1);
}
