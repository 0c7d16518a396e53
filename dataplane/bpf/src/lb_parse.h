/* Reads a packet as far as the load balancer needs it. Whatever cannot be read is left to the node's own stack. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"

/* enum tcx_action_base of linux/bpf.h: go on with the next program, and then with the stack. */
#define PASS -1
/* A packet that was looked at in vain. No LB_* reason. */
#define LB_NOT_OURS -100

#define LB_IPV4 bpf_htons(0x0800)
#define LB_IPV6 bpf_htons(0x86dd)
#define LB_ETHERNET 14
#define LB_PROTOCOL_ICMP 1
#define LB_PROTOCOL_IPIP 4
#define LB_PROTOCOL_TCP 6
#define LB_PROTOCOL_UDP 17
#define LB_PROTOCOL_IPV6 41
#define LB_PROTOCOL_ICMPV6 58
#define LB_HOP_BY_HOP 0
#define LB_ROUTING 43
#define LB_FRAGMENT_HEADER 44
#define LB_DESTINATION_OPTIONS 60
/* Extension headers that are looked through. */
#define LB_EXTENSIONS 4

#define LB_FIN 0x01
#define LB_SYN 0x02
#define LB_RST 0x04
#define LB_ACK 0x10

/* linux/if_packet.h */
#define LB_PACKET_HOST 0
/* linux/pkt_cls.h */
#define LB_SHOT 2

struct lb_ethernet {
	__u8 dest[6];
	__u8 source[6];
	__u16 type;
};

struct lb_ip4 {
	__u8 version_length;
	__u8 tos;
	__u16 length;
	__u16 id;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__u32 source;
	__u32 dest;
};

struct lb_ip6 {
	__u32 flow;
	__u16 length;
	__u8 next;
	__u8 hops;
	__u32 source[4];
	__u32 dest[4];
};

struct lb_tcp {
	__u16 source;
	__u16 dest;
	__u32 seq;
	__u32 ack;
	__u8 offset;
	__u8 flags;
	__u16 window;
	__u16 check;
	__u16 urgent;
};

struct lb_udp {
	__u16 source;
	__u16 dest;
	__u16 length;
	__u16 check;
};

#define LB_TCP_CHECK 16
#define LB_UDP_CHECK 6

/* What is known of a packet besides its tuple. */
struct lb_packet {
	/* Where the header behind that of IP begins. */
	__u32 l4;
	__u32 flags; /* of TCP */
	__u32 now;
	__u32 fragment; /* LB_FRAGMENT_*, and the datagram that it is of */
	__u32 datagram;
	/* Opens a connection in a flood of openings: what is known of its tuple is not looked up. */
	__u32 flood;
};

#define LB_FRAGMENT_FIRST 1
#define LB_FRAGMENT_LATER 2

/* An ICMP error: where in the frame what stands, and who reports. */
struct lb_error {
	__u32 check;
	__u32 quoted;
	__u32 ports;
	__u32 reporter[4];
};

/* Types of ICMP errors (RFC 792, RFC 4443): from the first to the last. */
#define LB_ICMP_UNREACHABLE 3
#define LB_ICMP_TIME_EXCEEDED 11
#define LB_ICMP_PARAMETER 12
#define LB_ICMPV6_UNREACHABLE 1
#define LB_ICMPV6_PARAMETER 4
#define LB_ICMP_HEADER 8
#define LB_ICMP_CHECK 2
