/*
 * What the node itself asks of a virtual address never comes in by a device: its sockets are given a backend when they
 * connect or send, and are told the virtual address where they ask whom they talk to.
 */
#pragma once

#include "lb_maps.h"
#include "lb_parse.h"
#include "lb_pick.h"

/* Cookie of the agent's network namespace: the hooks see the sockets of all of them. */
const volatile __u64 lb_namespace = 0;

/* asm-generic/errno.h */
#define LB_ECONNREFUSED 111

struct lb_own_key {
	__u64 socket;
	__u32 address[4];
	__u16 port;
	__u16 protocol;
	__u32 unused;
};

struct lb_own_end {
	__u32 address[4];
	__u32 port;
};

/* By socket and backend: the virtual address that was asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_LB_TRANSLATED);
	__type(key, struct lb_own_key);
	__type(value, struct lb_own_end);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_own_asked SEC(".maps");

/* By socket and virtual address: the backend that it talks to, row and generation. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STRATUM_LB_TRANSLATED);
	__type(key, struct lb_own_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lb_own_given SEC(".maps");

static __always_inline int lb_is_own(struct bpf_sock_addr *ctx)
{
	return bpf_get_netns_cookie(ctx) == lb_namespace;
}

static __always_inline struct lb_vip *lb_own_vip(const struct lb_own_key *key, int is4)
{
	return is4 ? lb_vip_of4(key->address, key->port, key->protocol, 1) :
		     lb_vip_of6(key->address, key->port, key->protocol, 1);
}

/* The backend for a socket and a virtual address: the one that it has, if that still serves. */
static __always_inline struct lb_backend *lb_own_backend(struct lb_own_key *key, struct lb_vip *vip)
{
	__u64 *given = bpf_map_lookup_elem(&lb_own_given, key), now;
	struct lb_backend *b;
	__u32 row;
	long picked;

	if (given) {
		row = *given;
		b = bpf_map_lookup_elem(&lb_backends, &row);
		if (b && b->generation == *given >> 32 && b->state != STRATUM_LB_DOWN)
			return b;
	}
	picked = lb_pick(vip, lb_hash(0, 0, 0), lb_hash(key->socket, key->socket >> 32, key->port), 0);
	if (picked < 0)
		return 0;
	row = picked;
	b = bpf_map_lookup_elem(&lb_backends, &row);
	if (!b)
		return 0;
	now = (__u64)b->generation << 32 | row;
	/* A row that is being emptied. */
	if (!(now >> 32))
		return 0;
	bpf_map_update_elem(&lb_own_given, key, &now, BPF_ANY);
	return b;
}

/* 1: `end` is where the socket is to go. 0: to no virtual address. -1: to one that nobody serves. */
static __always_inline int lb_own_go(struct lb_own_key *key, int is4, struct lb_own_end *end)
{
	struct lb_own_end asked = {};
	struct lb_vip *vip = lb_own_vip(key, is4);
	struct lb_backend *b;

	if (!vip)
		return 0;
	b = lb_own_backend(key, vip);
	if (!b)
		return -1;
	__builtin_memcpy(asked.address, key->address, 16);
	asked.port = key->port;
	__builtin_memcpy(end->address, b->address, 16);
	end->port = b->port ? b->port : key->port;
	__builtin_memcpy(key->address, end->address, 16);
	key->port = end->port;
	bpf_map_update_elem(&lb_own_asked, key, &asked, BPF_ANY);
	return 1;
}

static __always_inline void lb_own_key4(struct bpf_sock_addr *ctx, struct lb_own_key *key)
{
	key->socket = bpf_get_socket_cookie(ctx);
	key->address[0] = ctx->user_ip4;
	key->port = ctx->user_port;
	key->protocol = ctx->protocol;
}

/* Whether the address is one of IPv4 (RFC 4291, section 2.5.5.2), which then stands as such. */
static __always_inline int lb_own_key6(struct bpf_sock_addr *ctx, struct lb_own_key *key)
{
	__u32 a = ctx->user_ip6[0], b = ctx->user_ip6[1], c = ctx->user_ip6[2], d = ctx->user_ip6[3];
	int is4 = !a && !b && c == bpf_htonl(0xffff);

	key->socket = bpf_get_socket_cookie(ctx);
	key->port = ctx->user_port;
	key->protocol = ctx->protocol;
	key->address[0] = is4 ? d : a;
	if (is4)
		return 1;
	key->address[1] = b;
	key->address[2] = c;
	key->address[3] = d;
	return 0;
}

static __always_inline void lb_own_set6(struct bpf_sock_addr *ctx, const struct lb_own_end *end, int is4)
{
	if (is4) {
		ctx->user_ip6[3] = end->address[0];
	} else {
		ctx->user_ip6[0] = end->address[0];
		ctx->user_ip6[1] = end->address[1];
		ctx->user_ip6[2] = end->address[2];
		ctx->user_ip6[3] = end->address[3];
	}
	ctx->user_port = end->port;
}

static __always_inline int lb_own_out4(struct bpf_sock_addr *ctx)
{
	struct lb_own_key key = {};
	struct lb_own_end end = {};
	int found;

	if (!lb_is_own(ctx))
		return 1;
	lb_own_key4(ctx, &key);
	found = lb_own_go(&key, 1, &end);
	if (found < 0) {
		bpf_set_retval(-LB_ECONNREFUSED);
		return 0;
	}
	if (found) {
		ctx->user_ip4 = end.address[0];
		ctx->user_port = end.port;
	}
	return 1;
}

static __always_inline int lb_own_out6(struct bpf_sock_addr *ctx)
{
	struct lb_own_key key = {};
	struct lb_own_end end = {};
	int found, is4;

	if (!lb_is_own(ctx))
		return 1;
	is4 = lb_own_key6(ctx, &key);
	found = lb_own_go(&key, is4, &end);
	if (found < 0) {
		bpf_set_retval(-LB_ECONNREFUSED);
		return 0;
	}
	if (found)
		lb_own_set6(ctx, &end, is4);
	return 1;
}

static __always_inline int lb_own_in4(struct bpf_sock_addr *ctx)
{
	struct lb_own_key key = {};
	struct lb_own_end *asked;

	if (!lb_is_own(ctx))
		return 1;
	lb_own_key4(ctx, &key);
	asked = bpf_map_lookup_elem(&lb_own_asked, &key);
	if (asked) {
		ctx->user_ip4 = asked->address[0];
		ctx->user_port = asked->port;
	}
	return 1;
}

static __always_inline int lb_own_in6(struct bpf_sock_addr *ctx)
{
	struct lb_own_key key = {};
	struct lb_own_end *asked;
	int is4;

	if (!lb_is_own(ctx))
		return 1;
	is4 = lb_own_key6(ctx, &key);
	asked = bpf_map_lookup_elem(&lb_own_asked, &key);
	if (asked)
		lb_own_set6(ctx, asked, is4);
	return 1;
}

#define LB_OWN(section, name, what)                                                                                    \
	SEC("cgroup/" section) int lb_##name(struct bpf_sock_addr *ctx)                                                \
	{                                                                                                              \
		return lb_own_##what(ctx);                                                                             \
	}

LB_OWN("connect4", connect4, out4)
LB_OWN("connect6", connect6, out6)
LB_OWN("sendmsg4", sendmsg4, out4)
LB_OWN("sendmsg6", sendmsg6, out6)
LB_OWN("recvmsg4", recvmsg4, in4)
LB_OWN("recvmsg6", recvmsg6, in6)
LB_OWN("getpeername4", getpeername4, in4)
LB_OWN("getpeername6", getpeername6, in6)
