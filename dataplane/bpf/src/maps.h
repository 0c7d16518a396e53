/*
 * The maps of the ports of br-work. All are pinned, so that packets are judged by them while no agent runs. Numbers are
 * those of the host, addresses stand in network order, MACs as `mac_at` of parse.h reads them.
 *
 * Who writes: the agent, except where it says "program". Rows of a hash are reused by the kernel at once after a
 * deletion: a reader may hold a row that has become another's. Therefore what both sides change is one 64-bit word,
 * read and exchanged as a whole, which also says whose it is. Rows of a hash are published by the kernel after their content. A frame
 * that needs rows of two maps may meet one as before a change and one as after it, on any processor, since the agent writes them in turn;
 * which of them it must not meet too early, after() says where it is read.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"
#include "order.h"

/*
 * The ports of br-work that both programs guard; a frame goes past the bridge to such ports only. A word is
 * ifindex << 32 | net, 0 when it is free; the net is 0 while the port is open, and declared by the agent or claimed by
 * the program for the first bound MAC. Beside it stands PORT_* for a port that leads off the node. A table of sets (`port_word` of networks.h), because a look-up in a hash map
 * costs as much as all judging, and shared memory, because only so can both sides exchange a word.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << (STRATUM_PORT_SET_BITS + STRATUM_PORT_WAY_BITS));
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ports SEC(".maps");

struct endpoint_key {
	__u32 net;
	__u32 mac_low;
	__u32 mac_high;
};

/* A MAC that is bound, was bound or is about to be: its slot says whether it is. */
struct endpoint {
	/* The address that most of its packets bear. */
	__u32 address;
	/* CLAIM_*: which ports may become its home. */
	__u32 claims;
	/* ifindex of its port, 0 when there is none. Program, unless CLAIM_NONE: `slot` with it, as one word of 8 bytes. */
	__u32 home __attribute__((aligned(8)));
	__u32 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS);
	__type(key, struct endpoint_key);
	__type(value, struct endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} by_mac SEC(".maps");

/*
 * SLOT_TRUTH of a slot is the MAC bound in it, with TRUTH_ROUTED when its address is a routed one, and 0 when there is
 * none: one store moves a binding from MAC to MAC. Program: SLOT_UP_* and SLOT_DOWN_*, the frames that the endpoint has
 * sent and got, and their bytes on the wire without FCS. SLOT_HOME repeats `home` of the row, where the agent finds
 * without reading all rows whether anybody is at a port.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS << STRATUM_SLOT_WORD_BITS);
	__type(key, __u32); /* slot << SLOT_WORD_BITS | SLOT_* */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} slots SEC(".maps");

struct address_key {
	__u32 net;
	__u32 address;
};

/* An address that the endpoint of a slot may use besides its first. */
struct address {
	__u32 slot;
	/* 1 when it is a routed one. */
	__u32 routed;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_ADDRESS_ROWS);
	__type(key, struct address_key);
	__type(value, struct address);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} addresses SEC(".maps");

/* A MAC that is bound no more, and whose client may hold its lease still. */
struct former {
	__u32 net;
	/* The address of the lease. */
	__u32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct former);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} formers SEC(".maps");

/* Program: the port by which such a client has asked last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_FORMER_PORT_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, __u32); /* ifindex */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} former_ports SEC(".maps");

/* The net of a MAC that comes in by an open port, or MAC_AMBIGUOUS. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_ENDPOINT_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} net_of_mac SEC(".maps");

struct prefix {
	__u32 length;
	__u32 address;
};

/* The ranges of all nets and the routed addresses: no open port may send from them. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_PREFIX_ROWS);
	__type(key, struct prefix);
	__type(value, __u32); /* 1 */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} private_ranges SEC(".maps");

/* What the node itself reaches in a net: ranges with host gateway, and routed addresses with STAMP_ROUTED. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_PREFIX_ROWS);
	__type(key, struct prefix);
	__type(value, __u32); /* net | STAMP_ROUTED */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} host_ranges SEC(".maps");

/* Nets from ROUTED_NET_BASE on need no row: they are NET_ROUTED, without VLAN. */
struct net {
	__u32 gateway;
	/* Tag on uplinks, 0 for none. */
	__u16 vlan;
	/* NET_* */
	__u16 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STRATUM_NET_ROWS);
	__type(key, __u32);
	__type(value, struct net);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nets SEC(".maps");

/* VLAN_LOCKED, and the net whose tag it is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} vlans SEC(".maps");

/* Program: the uplink that a MAC of a net lies behind. The bridge never learns of frames forwarded past it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_FAR_ROWS);
	__type(key, struct endpoint_key);
	__type(value, __u32); /* ifindex */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} far SEC(".maps");

/* br-work as the node's own leg: its MAC and ifindex; 0 while it is not known. */
struct host {
	__u64 mac;
	__u32 ifindex;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct host);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} hosts SEC(".maps");

/*
 * Of no net: the overlay behind which a peer has the MAC. The bridge does not know of it before it has heard it, and would
 * flood frames for it to every overlay of open ports.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_PEER_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, __u32); /* ifindex; 0 where several overlays have it */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} peers SEC(".maps");

/* Where a MAC may be. */
struct macbind {
	/* 0: on every port; NO_DEVICE: on the named one, which is away. */
	__u32 ifindex;
	/* 0: with any tag or none. */
	__u16 vlan;
	/* LOCK_* of this binding. */
	__u16 lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_MACBIND_ROWS);
	__type(key, __u64); /* MAC */
	__type(value, struct macbind);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} macbinds SEC(".maps");

/* Ports that bindings name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STRATUM_PORT_ROWS);
	__type(key, __u32); /* ifindex */
	__type(value, __u32); /* LOCK_* */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STRATUM_SETTING_ROWS);
	__type(key, __u32); /* SETTING_* */
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} settings SEC(".maps");

/* What holds for a net because of its tenant. */
struct tenant_net {
	/* TENANT_BLOCKED */
	__u32 flags;
	/* Element of `buckets` that all nets of the tenant share. */
	__u32 bucket;
	/* Bits a second, each way; 0 for no limit. */
	__u64 rate;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STRATUM_TENANT_NET_ROWS);
	__type(key, __u32); /* net */
	__type(value, struct tenant_net);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tenant_nets SEC(".maps");

/* One element: 1 while `tenant_nets` has rows, so that nobody else pays for looking there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} any_tenant_net SEC(".maps");

/*
 * Program: when (nanoseconds of CLOCK_MONOTONIC) what a tenant's workloads have sent and got will be paid for. The agent
 * writes 0 when the rate changes or the tenant is another.
 */
struct bucket {
	__u64 up;
	__u64 down;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STRATUM_BUCKET_ROWS);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} buckets SEC(".maps");

struct violation_key {
	__u64 mac;
	__u32 ifindex;
	__u32 reason;
};

/* Program: when a violation was last told, and how often it has happened untold since. */
struct violation {
	__u64 last;
	__u64 suppressed;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_VIOLATION_ROWS);
	__type(key, struct violation_key);
	__type(value, struct violation);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} violations SEC(".maps");

/* Program: second << 32 | how many events of a port were told in it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_PORT_ROWS);
	__type(key, __u32); /* ifindex */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} told SEC(".maps");

struct violation_event {
	/* Nanoseconds of CLOCK_MONOTONIC. */
	__u64 time;
	__u64 mac;
	/* Violations of the same MAC, port and reason since the event before. */
	__u64 suppressed;
	__u32 ifindex;
	__u32 reason;
	/* The sender that IPv4 or ARP gave, 0 for none. */
	__u32 address;
	/* Ids of the tags from the outside in, 0 where there is none. */
	__u16 vlans[2];
};

/* An endpoint has become another port's. Its kind stands where the reason of a violation does. */
struct claim_event {
	/* Nanoseconds of CLOCK_MONOTONIC. */
	__u64 time;
	__u64 mac;
	__u32 net;
	/* ifindex of the port that it was at before, 0 for none. */
	__u32 from;
	__u32 ifindex;
	/* TALLY_CLAIMED */
	__u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STRATUM_EVENT_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} events SEC(".maps");

/* Program: how often each DROP_* and TALLY_* has happened. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STRATUM_TALLY_ROWS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tallies SEC(".maps");
