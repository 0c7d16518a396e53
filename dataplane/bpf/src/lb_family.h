/* The load balancer for one address family; included by lb.bpf.c for each, with names that end in its number. */

#include "lb_rows_family.h"
#include "lb_track_family.h"
#include "lb_begin_family.h"
#include "lb_rewrite_family.h"
#include "lb_forward_family.h"
#include "lb_balance_family.h"
#include "lb_errors_family.h"
#include "lb_sweep_family.h"
