/*
 * ece.c - options of connections: what one side offers reaches the other one, in requests, answers and
 * refusals.
 */
#include "cm.h"

static void offer(uint32_t vendor, uint32_t options, bool refuse)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct sides s = {make_channel(), make_channel(), 0, 0, 0};
	struct ibv_ece mine = {.vendor_id = vendor, .options = options}, got;

	note("--- vendor 0x%x options 0x%x, %s", vendor, options, refuse ? "refused" : "accepted");
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, HERE, 7471, 4);
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	make_route(s.client, NULL, HERE, 7471);
	CALL_INT(rdma_set_local_ece(s.client, &mine));
	FILL(got);
	CALL_INT(rdma_get_remote_ece(s.client, &got));
	FIELD_X(got, vendor_id);
	param.qp_num = unused_qp();
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	FILL(got);
	CALL_INT(rdma_get_remote_ece(s.server, &got));
	FIELD_X(got, vendor_id);
	FIELD_X(got, options);
	FIELD_X(got, comp_mask);
	if (refuse) {
		CALL_INT(rdma_reject_ece(s.server, "no", 2));
		EVENT(s.client_channel);
	} else {
		mine.options = options ^ 0xff;
		CALL_INT(rdma_set_local_ece(s.server, &mine));
		param.qp_num = unused_qp();
		CALL_INT(rdma_accept(s.server, &param));
		EVENT(s.client_channel);
		FILL(got);
		CALL_INT(rdma_get_remote_ece(s.client, &got));
		FIELD_X(got, vendor_id);
		FIELD_X(got, options);
		CALL_INT(rdma_establish(s.client));
		EVENT(s.server_channel);
	}
	sides_close(&s);
}

int main(void)
{
	begin();
	offer(0, 0, false);
	offer(0x15b3, 0x1234, false);
	offer(0xffffff, 0xffffffff, false);
	offer(0x1ffffff, 0x80000000, false);
	offer(0x15b3, 0x1234, true);
	return end();
}
