/*
 * bad_handles.c - objects whose number the kernel does not know, as after a mistake of the program.
 *
 * Proves: which verbs return the errno value itself and which -1 or NULL; that nothing is freed or changed by a verb that
 * failed, so that every object works on when its number is right again.
 *
 * Fact: ibv_modify_srq, ibv_query_srq and ibv_destroy_srq return the errno value when the kernel refuses, never -1.
 * Fact: A destruction that the kernel refuses frees nothing; the object works on and can be destroyed later.
 */
#include "setup.h"

static struct endpoint e;
static struct ibv_srq *srq;

#define NOBODY 0x7ffffff0

/* Each call with a number that is nobody's, and the number put back. */
#define LOST(object, call)                                                                                     \
	do {                                                                                                   \
		uint32_t right_ = (object)->handle;                                                            \
		(object)->handle = NOBODY;                                                                     \
		errno = 0;                                                                                     \
		int result_ = (call);                                                                          \
		say_int(#call, result_, errno, result_ != 0);                                                  \
		(object)->handle = right_;                                                                     \
	} while (0)
#define LOST_PTR(object, call)                                                                                 \
	do {                                                                                                   \
		uint32_t right_ = (object)->handle;                                                            \
		(object)->handle = NOBODY;                                                                     \
		errno = 0;                                                                                     \
		void *result_ = (call);                                                                        \
		say_pointer(#call, result_ != NULL, errno);                                                    \
		(object)->handle = right_;                                                                     \
	} while (0)

static void shared_receive_queue(void)
{
	struct ibv_srq_init_attr init = {.attr = {16, 2, 0}};
	struct ibv_srq_attr attr = {.max_wr = 32, .srq_limit = 5};

	srq = CALL_PTR(ibv_create_srq(e.pd, &init));
	LOST(srq, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	LOST(srq, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	LOST(srq, ibv_modify_srq(srq, &attr, 1 << 9));
	LOST(srq, ibv_modify_srq(srq, &attr, 0));
	FILL(attr);
	LOST(srq, ibv_query_srq(srq, &attr));
	print_srq_attr(&attr); /* what a failing query leaves there */
	LOST(srq, ibv_destroy_srq(srq));
	CALL_INT(ibv_query_srq(srq, &attr));
	print_srq_attr(&attr);
	attr.srq_limit = 1000; /* above the size; then a mask with an unknown bit */
	CALL_INT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CALL_INT(ibv_modify_srq(srq, &attr, 1 << 9));
	CALL_INT(ibv_query_srq(srq, &attr));
	print_srq_attr(&attr);
	CALL_INT(ibv_destroy_srq(srq));
}

static void queues(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 224, 1, 2, 3}};

	LOST(e.send_cq, ibv_resize_cq(e.send_cq, 100));
	FIELD(*e.send_cq, cqe);
	LOST(e.send_cq, ibv_destroy_cq(e.send_cq));
	LOST(e.qp, ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
	FIELD(*e.qp, state);
	LOST(e.qp, ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init));
	FIELD(*e.qp, state);
	LOST(e.qp, ibv_attach_mcast(e.qp, &group, 0));
	LOST(e.qp, ibv_detach_mcast(e.qp, &group, 0));
	LOST(e.qp, ibv_destroy_qp(e.qp));
}

static void others(void)
{
	struct ibv_ah_attr to = {.grh = {.dgid = e.gid, .sgid_index = GID_INDEX, .hop_limit = 1}, .is_global = 1, .port_num = PORT};
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah(e.pd, &to));
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2));
	struct ibv_srq_init_attr srq_init = {.attr = {16, 2, 0}};
	struct ibv_qp_init_attr qp_init = {.send_cq = e.send_cq, .recv_cq = e.recv_cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	LOST(ah, ibv_destroy_ah(ah));
	LOST(mw, ibv_dealloc_mw(mw));
	LOST(e.mr, ibv_dereg_mr(e.mr));
	LOST(e.pd, ibv_dealloc_pd(e.pd));
	LOST_PTR(e.pd, ibv_reg_mr(e.pd, e.buffer, 4096, IBV_ACCESS_LOCAL_WRITE));
	LOST_PTR(e.pd, ibv_alloc_mw(e.pd, IBV_MW_TYPE_1));
	LOST_PTR(e.pd, ibv_create_ah(e.pd, &to));
	LOST_PTR(e.pd, ibv_create_srq(e.pd, &srq_init));
	LOST_PTR(e.pd, ibv_create_qp(e.pd, &qp_init));
	LOST_PTR(e.send_cq, ibv_create_qp(e.pd, &qp_init));
	CALL_INT(ibv_destroy_ah(ah));
	CALL_INT(ibv_dealloc_mw(mw));
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	ready(&e, &e.gid, e.qp->qp_num);
	shared_receive_queue();
	queues();
	others();

	/* All is as before. */
	pattern(e.buffer, 64, 1);
	CALL_INT(post_recv(&e, 1, 4096, 64));
	CALL_INT(post_send(&e, 2, 0, 64));
	expect_wc("sent", e.send_cq, e.qp, e.qp);
	if (expect_wc("received", e.recv_cq, e.qp, e.qp))
		check_data(e.buffer + 4096, e.buffer, 64);
	endpoint_close(&e);
	return end();
}
