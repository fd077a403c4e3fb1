/*
 * ours_only_cq_ex.c - extended polling as the manual page describes it, which rdma-core's soft-RoCE provider cannot do.
 *
 * Proves: a poll ends with ibv_end_poll, also after ibv_next_poll found nothing (rdma-core's provider consumes one
 * entry too many then); ibv_next_poll may be repeated until a completion comes; nothing is lost or seen twice, around
 * the ring's end as well; a program of one thread may say so.
 */
#include "setup.h"

static struct endpoint e;

static void polling(uint32_t comp_mask, uint32_t flags)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = comp_mask, .flags = flags};
	struct ibv_cq_ex *cq = CALL_PTR(ibv_create_cq_ex(e.context, &init));
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_qp *plain = e.qp;

	if (!cq)
		return;
	struct ibv_qp_init_attr ask = {.send_cq = e.send_cq,
				       .recv_cq = ibv_cq_ex_to_cq(cq),
				       .cap = {16, 16, 1, 1, 0},
				       .qp_type = IBV_QPT_RC};
	e.qp = CALL_PTR(ibv_create_qp(e.pd, &ask));
	ready(&e, &e.gid, e.qp->qp_num);
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 3; i++) {
			CALL_INT(post_recv(&e, 10 * round + i, 0, 64));
			CALL_INT(post_send(&e, i, 1024, 10 + i));
			expect_wc("sent", e.send_cq, e.qp, NULL);
		}
		wait_for_receives(&e, &e);
		if (CALL_INT(ibv_start_poll(cq, &poll)))
			continue;
		do {
			note("    wr_id %" PRIu64 " status %u byte_len %u", cq->wr_id, cq->status, ibv_wc_read_byte_len(cq));
		} while (!CALL_INT(ibv_next_poll(cq)));
		if (round % 2) { /* one more comes while the poll goes on */
			uint64_t hang = now_ms() + HANG_MS;
			int ret;

			CALL_INT(post_recv(&e, 10 * round + 5, 0, 64));
			CALL_INT(post_send(&e, 5, 1024, 20));
			do
				ret = ibv_next_poll(cq);
			while (ret == ENOENT && now_ms() < hang);
			note("    then %d wr_id %" PRIu64, ret, cq->wr_id);
			CALL_INT(ibv_next_poll(cq));
			expect_wc("sent", e.send_cq, e.qp, NULL);
		}
		CALL_VOID(ibv_end_poll(cq));
		CALL_INT(ibv_start_poll(cq, &poll)); /* empty: nothing too many was taken, nothing is seen twice */
	}
	CALL_INT(ibv_destroy_qp(e.qp));
	CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	e.qp = plain;
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	polling(0, 0);
	polling(IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	endpoint_close(&e);
	return end();
}
