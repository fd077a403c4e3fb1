/*
 * A program that looks after its link.
 *
 *   link down|back
 *
 * down  waits for the link to go down, and writes then
 * back  waits until it has come back, too, before it writes
 *
 * Says the events, the port's state, and how the write ended. Exit status 0: as it should be; 1: not.
 */
#include <string.h>

#include "pair.h"

static char from[64], to[64];

static void wait_for(enum ibv_event_type wanted)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(context, &event))
		fail("ibv_get_async_event");
	printf("%s of port %d\n", ibv_event_type_str(event.event_type), event.element.port_num);
	if (event.event_type != wanted)
		exit(1);
	ibv_ack_async_event(&event);
}

int main(int argc, char **argv)
{
	bool comes_back = argc > 1 && !strcmp(argv[1], "back");
	struct ibv_port_attr port;
	struct ibv_qp *a, *b;
	struct ibv_mr *source, *target;
	struct ibv_sge piece;
	struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;

	open_device();
	source = registered(from, sizeof from, true);
	target = registered(to, sizeof to, true);
	a = make(IBV_QPT_RC);
	b = make(IBV_QPT_RC);
	bring_up(a, b->qp_num, false);
	bring_up(b, a->qp_num, false);
	wait_for(IBV_EVENT_PORT_ERR);
	if (comes_back)
		wait_for(IBV_EVENT_PORT_ACTIVE);
	if (ibv_query_port(context, 1, &port))
		fail("ibv_query_port");
	printf("%s, %d\n", ibv_port_state_str(port.state), port.phys_state);
	memset(from, 1, sizeof from);
	piece = (struct ibv_sge){(uintptr_t)from, sizeof from, source->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = target->rkey;
	if (ibv_post_send(a, &wr, &bad))
		fail("ibv_post_send");
	while (ibv_poll_cq(cq, 1, &wc) < 1)
		;
	printf("%s\n", ibv_wc_status_str(wc.status));
	return memcmp(from, to, sizeof to) == 0 ? !comes_back : comes_back;
}
