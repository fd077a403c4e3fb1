/*
 * ece.c - enhanced connection establishment, which soft-RoCE has not, and data order.
 */
#include "setup.h"

int main(void)
{
	struct endpoint e = {0};
	struct ibv_ece ece;

	begin();
	endpoint_open(&e, "rxe0");
	FILL(ece);
	CALL_INT(ibv_query_ece(e.qp, &ece));
	FIELD_X(ece, vendor_id);
	FIELD_X(ece, options);
	FIELD_X(ece, comp_mask);
	ece = (struct ibv_ece){.vendor_id = 0x15b3, .options = 1};
	CALL_INT(ibv_set_ece(e.qp, &ece));
	ece.vendor_id = 0;
	CALL_INT(ibv_set_ece(e.qp, &ece));
	ece.comp_mask = 1;
	CALL_INT(ibv_set_ece(e.qp, &ece));
	for (int op = 0; op < 16; op++)
		CALL_COUNT(ibv_query_qp_data_in_order(e.qp, op, 0));
	CALL_COUNT(ibv_query_qp_data_in_order(e.qp, IBV_WR_RDMA_READ, 1));
	CALL_COUNT(ibv_query_qp_data_in_order(e.qp, 1000, 0xffffffff));
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(ibv_query_ece(e.qp, &ece));
	CALL_INT(ibv_set_ece(e.qp, &ece));
	endpoint_close(&e);
	return end();
}
