/*
 * What a program loads in which order. The agent publishes by one store after all that belongs to it (Atomics, or a system
 * call), and amd64 loads in the order of the program; arm64 need not. BPF has no barrier between loads before Linux 6.15, but
 * every processor waits for what an address is made of: whoever adds after(x) to an address loads from there after x.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

/* Always 0, but known only once `value` is; the compiler knows nothing of it, and the verifier that it is 0. */
static __always_inline __u64 after(__u64 value)
{
	asm volatile("%0 &= 0" : "+r"(value));
	return value;
}
