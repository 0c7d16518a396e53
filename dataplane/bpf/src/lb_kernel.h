/* What is read of the kernel's own packet. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define KERNEL __attribute__((preserve_access_index))

struct net_device {
	char name[16];
} KERNEL;

struct sk_buff {
	struct net_device *dev;
	__u8 ip_summed : 2;
} KERNEL;

/* linux/skbuff.h */
#define CHECKSUM_COMPLETE 2
#define CHECKSUM_PARTIAL 3

extern void *bpf_cast_to_kern_ctx(void *object) __ksym;

/* How far the checksum of the packet is made, or known. */
static __always_inline __u32 lb_summed(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);

	return BPF_CORE_READ_BITFIELD(kernel, ip_summed);
}
