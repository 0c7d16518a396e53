/* How a connection goes on and ends, for one address family; included by lb_family.h. */

/* Follows a TCP connection by one packet; `fin` is the side's bit. */
static __always_inline void IN_FAMILY(lb_track)(struct IN_FAMILY(lb_flow) *f, const struct lb_packet *p, __u32 fin)
{
	__u32 before = f->state, add = 0;

	if (f->last != p->now)
		f->last = p->now;
	/* Established with the first packet of the client that opens nothing. */
	if (fin == LB_FIN_CLIENT && !(before & LB_OPEN) && !(p->flags & (LB_SYN | LB_RST)))
		add |= LB_OPEN;
	if (p->flags & LB_RST)
		add |= LB_RESET;
	if (p->flags & LB_FIN)
		add |= before & LB_DIRECT ? LB_FIN_CLIENT | LB_FIN_BACKEND : fin;
	if (!(add & ~before))
		return;
	before = __sync_fetch_and_or(&f->state, add);
	if (add & LB_OPEN && !(before & LB_OPEN))
		lb_count(f->backend, 1);
	before |= add;
	if (!(before & LB_OPEN) || before & LB_CLOSED)
		return;
	if (!(before & LB_RESET) && (before & (LB_FIN_CLIENT | LB_FIN_BACKEND)) != (LB_FIN_CLIENT | LB_FIN_BACKEND))
		return;
	if (!(__sync_fetch_and_or(&f->state, LB_CLOSED) & LB_CLOSED))
		lb_count(f->backend, -1);
}
