/*
 * ours_only_wr_builders.c - builders as the manual page describes them, where rdma-core's soft-RoCE provider errs.
 *
 * Proves: a list of entries of different lengths is sent whole (there the first length is counted for each); inline
 * data is inline without a flag (there the device takes the bytes for addresses); a list of inline buffers is sent
 * (there its length stays zero).
 */
#include "setup.h"

static struct endpoint a = {.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE, .cap = {16, 16, 4, 4, 64}}, b;

int main(void)
{
	unsigned char data[64], want[64];
	struct ibv_qp_ex *q;

	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	q = ibv_qp_to_qp_ex(a.qp);
	pattern(a.buffer, 8192, 1);

	struct ibv_sge list[3] = {{(uintptr_t)a.buffer, 1000, a.mr->lkey},
				  {(uintptr_t)a.buffer + 1000, 10, a.mr->lkey},
				  {(uintptr_t)a.buffer + 1010, 2000, a.mr->lkey}};
	CALL_INT(post_recv(&b, 1, 0, 8192));
	ibv_wr_start(q);
	q->wr_id = 1, q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(q);
	CALL_VOID(ibv_wr_set_sge_list(q, 3, list));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, a.buffer, 3010);

	pattern(data, 64, 2);
	memcpy(want, data, 64);
	CALL_INT(post_recv(&b, 2, 0, 8192));
	ibv_wr_start(q);
	q->wr_id = 2, q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(q);
	CALL_VOID(ibv_wr_set_inline_data(q, data, 50));
	memset(data, 0, 64);
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, want, 50);

	memcpy(data, want, 64);
	struct ibv_data_buf bufs[3] = {{data, 20}, {data + 20, 0}, {data + 20, 30}};
	CALL_INT(post_recv(&b, 3, 0, 8192));
	ibv_wr_start(q);
	q->wr_id = 3, q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(q);
	CALL_VOID(ibv_wr_set_inline_data_list(q, 3, bufs));
	memset(data, 0, 64);
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, want, 50);
	endpoint_close(&a);
	endpoint_close(&b);
	return end();
}
