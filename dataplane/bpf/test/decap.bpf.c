/* A backend's end of direct server return by IP in IP, which needs no tunnel device: takes the outer header off. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define ETHERNET 14

SEC("tc") int decap(struct __sk_buff *skb)
{
	__u8 next = 0;

	if (skb->protocol == bpf_htons(0x0800)) {
		if (!bpf_skb_load_bytes(skb, ETHERNET + 9, &next, 1) && next == 4)
			bpf_skb_adjust_room(skb, -20, BPF_ADJ_ROOM_MAC, 0);
	} else if (skb->protocol == bpf_htons(0x86dd)) {
		if (!bpf_skb_load_bytes(skb, ETHERNET + 6, &next, 1) && next == 41)
			bpf_skb_adjust_room(skb, -40, BPF_ADJ_ROOM_MAC, 0);
	}
	return 0;
}
