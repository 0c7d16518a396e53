/* The map `flows` of probe.bpf.c as a later version could lay it out: it must not take over the pinned one. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10000);
	__type(key, __u32);
	__type(value, __u64[3]);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");
