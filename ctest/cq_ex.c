/*
 * cq_ex.c - extended completion queues.
 *
 * Proves: which completion fields, flags and masks are accepted at creation; start, next and end of polling; every
 * read function that soft-RoCE has, on receives, sends and errors; and ordinary polling of an extended queue.
 *
 * rdma-core's soft-RoCE provider ends a poll by itself when ibv_next_poll finds nothing, and takes one completion too
 * many when the program then calls ibv_end_poll as the manual page asks. Here a poll is ended before that;
 * ours_only_cq_ex.c does it as the manual page says.
 */
#include "setup.h"

static struct ibv_cq_ex *create(struct ibv_context *c, uint64_t wc_flags, uint32_t comp_mask, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = wc_flags, .comp_mask = comp_mask, .flags = flags};
	struct ibv_cq_ex *cq;

	note("wc_flags 0x%llx comp_mask 0x%x flags 0x%x", (unsigned long long)wc_flags, comp_mask, flags);
	cq = CALL_PTR(ibv_create_cq_ex(c, &attr));
	if (cq) {
		FIELD(*cq, cqe);
		CHECK(ibv_cq_ex_to_cq(cq)->context == c);
		FIELD_X(*cq, comp_mask);
		CHECK(cq->start_poll && cq->next_poll && cq->end_poll);
		CHECK(cq->read_opcode && cq->read_vendor_err && cq->read_wc_flags);
		printf("    readers: byte_len %d imm %d qp_num %d src_qp %d slid %d sl %d path_bits %d\n",
		       !!cq->read_byte_len, !!cq->read_imm_data, !!cq->read_qp_num, !!cq->read_src_qp, !!cq->read_slid,
		       !!cq->read_sl, !!cq->read_dlid_path_bits);
	}
	return cq;
}

static void creation(struct ibv_context *c)
{
	struct ibv_cq_ex *cq;

	for (int bit = -1; bit < 7; bit++) {
		cq = create(c, bit < 0 ? 0 : 1ULL << bit, 0, 0);
		if (cq)
			CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	/* What soft-RoCE's completions do not hold (clocks, VLANs, tags), and bits that nobody defines. */
	static const uint64_t refused[] = {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
					   IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO,
					   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 1 << 12, 1ULL << 31,
					   1ULL << 32, 1ULL << 63, ~0ULL};
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		cq = create(c, refused[i], 0, 0);
		if (cq)
			CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	static const uint32_t masks[][2] = {{IBV_CQ_INIT_ATTR_MASK_FLAGS, 0},
					    {IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED},
					    {IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
					    {IBV_CQ_INIT_ATTR_MASK_FLAGS, 0xffffffff},
					    {0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
					    {IBV_CQ_INIT_ATTR_MASK_PD, 0},
					    {4, 0},
					    {0x80000000, 0}};
	for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
		cq = create(c, IBV_WC_STANDARD_FLAGS, masks[i][0], masks[i][1]);
		if (cq)
			CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	static const uint32_t sizes[] = {0, 1, 5, 32767, 32768, 0x7fffffff, 0xffffffff};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct ibv_cq_init_attr_ex attr = {.cqe = sizes[i], .cq_context = c};

		note("cqe %u", sizes[i]);
		cq = CALL_PTR(ibv_create_cq_ex(c, &attr));
		if (cq) {
			FIELD(*cq, cqe);
			CHECK(cq->cq_context == c);
			CALL_INT(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 99));
			FIELD(*cq, cqe);
			CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
		}
	}
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_vector = 2};
	CALL_PTR(ibv_create_cq_ex(c, &attr));
}

static struct endpoint e = {.cqe = 32};

static void print_current(struct ibv_cq_ex *cq)
{
	unsigned flags = ibv_wc_read_wc_flags(cq);

	printf("    wr_id %" PRIu64 " status %u opcode %u vendor_err %u byte_len %u imm 0x%x qp_num %s src_qp %s flags"
	       " 0x%x slid %u sl %u path_bits %u\n",
	       cq->wr_id, cq->status, ibv_wc_read_opcode(cq), ibv_wc_read_vendor_err(cq), ibv_wc_read_byte_len(cq),
	       flags & IBV_WC_WITH_IMM ? ntohl(ibv_wc_read_imm_data(cq)) : 0,
	       ibv_wc_read_qp_num(cq) == e.qp->qp_num ? "own" : "other", ibv_wc_read_src_qp(cq) ? "nonzero" : "0", flags,
	       ibv_wc_read_slid(cq), ibv_wc_read_sl(cq), ibv_wc_read_dlid_path_bits(cq));
}

static void post_with_imm(uint64_t wr_id, uint32_t imm)
{
	struct ibv_sge sge = {(uintptr_t)e.buffer, 100, e.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(imm)},
			   *bad;

	CALL_INT(post_recv(&e, wr_id, 1024, 128));
	CALL_INT(ibv_post_send(e.qp, &wr, &bad));
}

static void polling(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq *plain_send = e.send_cq, *plain_recv = e.recv_cq;
	struct ibv_cq_ex *send, *recv;
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_wc wc;

	/* The same endpoint with extended queues in place of its plain ones. */
	send = CALL_PTR(ibv_create_cq_ex(e.context, &attr));
	recv = CALL_PTR(ibv_create_cq_ex(e.context, &attr));
	CALL_INT(ibv_destroy_qp(e.qp));
	struct ibv_qp_init_attr init = {.send_cq = ibv_cq_ex_to_cq(send),
					.recv_cq = ibv_cq_ex_to_cq(recv),
					.cap = {16, 16, 2, 2, 0},
					.qp_type = IBV_QPT_RC};
	e.qp = CALL_PTR(ibv_create_qp(e.pd, &init));
	e.send_cq = ibv_cq_ex_to_cq(send);
	e.recv_cq = ibv_cq_ex_to_cq(recv);
	ready(&e, &e.gid, e.qp->qp_num);

	CALL_INT(ibv_start_poll(send, &poll)); /* empty */
	poll.comp_mask = 1;
	CALL_INT(ibv_start_poll(send, &poll)); /* a mask that nobody defines */
	poll.comp_mask = 0;

	for (int round = 0; round < 5; round++) { /* around the ring's end */
		for (int i = 0; i < 3; i++)
			post_with_imm(10 * round + i, 0x1000 + i);
		wait_for_receives(&e, &e);
		note("receives");
		if (!CALL_INT(ibv_start_poll(recv, &poll))) {
			print_current(recv);
			for (int i = 0; i < (round % 2 ? 1 : 2) && !CALL_INT(ibv_next_poll(recv)); i++)
				print_current(recv);
			CALL_VOID(ibv_end_poll(recv));
		}
		if (round % 2 && !CALL_INT(ibv_start_poll(recv, &poll))) { /* the one that was left */
			print_current(recv);
			CALL_VOID(ibv_end_poll(recv));
		}
		CALL_INT(ibv_start_poll(recv, &poll));
		note("sends, one by one");
		for (int i = 0; i < 3; i++)
			if (!FOUND_INT(ibv_start_poll(send, &poll))) {
				print_current(send);
				CALL_VOID(ibv_end_poll(send));
			}
		CALL_INT(ibv_start_poll(send, &poll));
	}
	/* An extended queue polled the ordinary way, and the two mixed. */
	post_with_imm(70, 7);
	post_with_imm(71, 8);
	expect_wc("ordinary poll", e.recv_cq, e.qp, e.qp);
	if (!FOUND_INT(ibv_start_poll(recv, &poll))) {
		print_current(recv);
		CALL_VOID(ibv_end_poll(recv));
	}
	CALL_COUNT(ibv_poll_cq(e.recv_cq, 1, &wc));
	while (ibv_poll_cq(e.send_cq, 1, &wc) > 0)
		;
	/* Flushed receives. */
	CALL_INT(post_recv(&e, 80, 0, 64));
	CALL_INT(post_recv(&e, 81, 0, 64));
	CALL_INT(modify_to_error(e.qp));
	for (int i = 0; i < 2; i++)
		if (!FOUND_INT(ibv_start_poll(recv, &poll))) {
			note("    wr_id %" PRIu64 " status %u vendor_err %u qp_num %s", recv->wr_id, recv->status,
			     ibv_wc_read_vendor_err(recv), ibv_wc_read_qp_num(recv) == e.qp->qp_num ? "own" : "other");
			CALL_VOID(ibv_end_poll(recv));
		}
	CALL_INT(ibv_start_poll(recv, &poll));
	CALL_INT(ibv_destroy_cq(plain_send));
	CALL_INT(ibv_destroy_cq(plain_recv));
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	creation(e.context);
	polling();
	endpoint_close(&e);
	return end();
}
