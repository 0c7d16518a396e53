/* A program that the verifier must refuse: it reads a map value without asking whether there is one. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} careless SEC(".maps");

SEC("tc")
int trust_blindly(struct __sk_buff *skb)
{
	__u32 key = 0, *value = bpf_map_lookup_elem(&careless, &key);

	return *value;
}
