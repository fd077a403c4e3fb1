/*
 * compat_1_0.c - the functions under version IBVERBS_1.0, as a program linked in 2006 calls them.
 *
 * Proves: its structs in, its structs out, wherever an object appears: in what is created, in events, in attributes;
 * traffic over RC with a shared receive queue, and over UD, through the inline functions of the time; the refusals.
 */
#include "old_verbs.h"
#include "served.h"

#define GID_INDEX 1
#define PORT 1
#define QKEY 0x22222222
#define SIZE 4096

static struct old_context *c;
static struct ibv_context *today; /* what c is around */
static struct old_pd *pd;
static struct old_mr *mr;
static struct ibv_comp_channel *channel;
static unsigned char *buffer;
static union ibv_gid gid;

static int tag_send, tag_recv, tag_qp, tag_srq; /* contexts of the program's own */

static void device(void)
{
	int n = -1;
	struct old_device **list = CALL_PTR(old_get_device_list(&n));

	if (!list)
		die("no device list");
	CHECK(n == 2);
	for (int i = 0; i < n; i++) {
		CHECK(!strncmp(old_get_device_name(list[i]), "rxe", 3));
		CHECK(old_get_device_guid(list[i]) != 0);
	}
	CHECK(list[n] == NULL);
	struct old_device *first = list[0];
	for (int i = 0; i < n; i++)
		if (!strcmp(old_get_device_name(list[i]), "rxe0"))
			first = list[i];
	c = CALL_PTR(old_open_device(first));
	if (!c)
		die("cannot open");
	CHECK(c->device == first);
	CALL_VOID(old_free_device_list(list));
	list = CALL_PTR(old_get_device_list(NULL));
	CALL_VOID(old_free_device_list(list));
}

static void queries(void)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	uint16_t pkey = 0;

	FILL(attr);
	CALL_INT(old_query_device(c, &attr));
	FIELD(attr, max_qp);
	FIELD(attr, max_cqe);
	FIELD(attr, phys_port_cnt);
	FILL(port);
	CALL_INT(old_query_port(c, PORT, &port));
	FIELD(port, state);
	FIELD(port, gid_tbl_len);
	FIELD(port, link_layer);
	FIELD(port, flags);
	CALL_INT(old_query_port(c, 9, &port));
	CALL_INT(old_query_gid(c, PORT, GID_INDEX, &gid));
	print_gid("gid", &gid);
	CALL_INT(old_query_gid(c, PORT, 4000, &gid));
	CALL_INT(old_query_gid(c, PORT, GID_INDEX, &gid));
	CALL_INT(old_query_pkey(c, PORT, 0, &pkey));
	note("    pkey %x", pkey);
	CALL_INT(old_query_pkey(c, PORT, 4000, &pkey));
}

static void memory(void)
{
	pd = CALL_PTR(old_alloc_pd(c));
	CHECK(pd->context == c);
	if (posix_memalign((void **)&buffer, 4096, SIZE))
		die("memory");
	memset(buffer, 0, SIZE);
	CALL_PTR(old_reg_mr(pd, buffer, SIZE, IBV_ACCESS_REMOTE_WRITE)); /* remote without local writing */
	mr = CALL_PTR(old_reg_mr(pd, buffer, SIZE,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
	CHECK(mr->context == c && mr->pd == pd);
	CHECK(mr->lkey == mr->rkey && mr->lkey != 0);
	CALL_INT(old_dealloc_pd(pd)); /* busy */
}

static int to_init(struct old_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = PORT,
				   .qkey = QKEY,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};

	return old_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int to_rtr(struct old_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.grh = {.dgid = gid, .sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1, .port_num = PORT}};

	if (qp->qp_type == IBV_QPT_UD)
		return old_modify_qp(qp, &attr, IBV_QP_STATE);
	return old_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct old_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 100, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return old_modify_qp(qp, &attr, mask);
}

static void poll_one(const char *what, struct old_cq *cq)
{
	struct ibv_wc wc;
	uint64_t hang = now_ms() + HANG_MS;
	int n;

	FILL(wc);
	do
		n = c->ops.poll_cq(cq, 1, &wc);
	while (n == 0 && now_ms() < hang);
	transcript_calls++;
	note("%s: poll = %d", what, n);
	if (n == 1) {
		FIELD(wc, wr_id);
		FIELD(wc, status);
		if (wc.status == IBV_WC_SUCCESS) {
			FIELD(wc, opcode);
			FIELD_X(wc, wc_flags);
			if (wc.opcode & IBV_WC_RECV)
				FIELD(wc, byte_len);
			if (wc.wc_flags & IBV_WC_WITH_IMM)
				FIELD_X(wc, imm_data);
		}
	}
}

/* A queue pair connected to itself, with a shared receive queue. */
static void connected(void)
{
	struct old_cq *send_cq = CALL_PTR(old_create_cq(c, 32, &tag_send, NULL, 0));
	struct old_cq *recv_cq = CALL_PTR(old_create_cq(c, 32, &tag_recv, channel, 0));
	struct ibv_srq_init_attr srq_init = {.srq_context = &tag_srq, .attr = {.max_wr = 40, .max_sge = 2}};
	struct ibv_srq_attr srq_attr = {.srq_limit = 3};
	struct old_srq *srq = CALL_PTR(old_create_srq(pd, &srq_init));
	struct old_qp_init_attr init = {.qp_context = &tag_qp,
					.send_cq = send_cq,
					.recv_cq = recv_cq,
					.srq = srq,
					.cap = {32, 0, 2, 0, 64},
					.qp_type = IBV_QPT_RC};
	struct old_qp *qp;
	struct ibv_qp_attr attr;
	struct old_qp_init_attr got;

	CHECK(send_cq->context == c && send_cq->cq_context == &tag_send);
	FIELD(*send_cq, cqe);
	CHECK(srq->context == c && srq->srq_context == &tag_srq && srq->pd == pd);
	CALL_PTR(old_create_cq(c, 0x7fffffff, NULL, NULL, 0));
	CALL_PTR(old_create_cq(c, 4, NULL, NULL, 77)); /* no such vector */
	CALL_INT(old_resize_cq(send_cq, 64));
	FIELD(*send_cq, cqe); /* as it was made */
	CALL_INT(old_resize_cq(send_cq, 0x7fffffff));
	CALL_INT(old_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
	FILL(srq_attr);
	CALL_INT(old_query_srq(srq, &srq_attr));
	FIELD(srq_attr, max_wr);
	FIELD(srq_attr, max_sge);
	FIELD(srq_attr, srq_limit);
	CALL_INT(old_modify_srq(srq, &srq_attr, 64));

	qp = CALL_PTR(old_create_qp(pd, &init));
	CHECK(qp->context == c && qp->qp_context == &tag_qp && qp->pd == pd);
	CHECK(qp->send_cq == send_cq && qp->recv_cq == recv_cq && qp->srq == srq);
	CHECK(qp->qp_num != 0 && qp->qp_type == IBV_QPT_RC);
	FIELD(init.cap, max_send_wr);
	FIELD(init.cap, max_send_sge);
	FIELD(init.cap, max_inline_data);
	init.cap.max_send_wr = 1 << 30;
	CALL_PTR(old_create_qp(pd, &init));
	CALL_INT(to_rts(qp)); /* not from RESET */
	CALL_INT(to_init(qp));
	CALL_INT(to_rtr(qp, qp->qp_num));
	CALL_INT(to_rts(qp));
	FILL(got);
	CALL_INT(old_query_qp(qp, &attr, IBV_QP_STATE, &got));
	FIELD(attr, qp_state);
	CHECK(got.qp_context == &tag_qp && got.send_cq == send_cq && got.recv_cq == recv_cq && got.srq == srq);
	FIELD(got, qp_type);
	FIELD(got.cap, max_send_wr);

	/* Twenty receives in one list, more than are written on the stack; then a list of sends of several kinds. */
	struct ibv_sge in = {(uintptr_t)buffer, 256, mr->lkey}, out = {(uintptr_t)buffer + 1024, 32, mr->lkey};
	struct old_recv_wr recv[20], *bad_recv = NULL;
	for (int i = 0; i < 20; i++)
		recv[i] = (struct old_recv_wr){i < 19 ? &recv[i + 1] : NULL, 200 + i, &in, 1};
	CALL_INT(c->ops.post_srq_recv(srq, recv, &bad_recv));
	CHECK(bad_recv == NULL);
	recv[1].num_sge = 9;
	CALL_INT(c->ops.post_srq_recv(srq, recv, &bad_recv)); /* the second has too many entries */
	CHECK(bad_recv == &recv[1]);
	CALL_INT(c->ops.post_recv(qp, recv, &bad_recv)); /* a shared queue receives */

	for (int i = 0; i < 32; i++)
		buffer[1024 + i] = i + 1;
	struct old_send_wr send[5] = {
		{.next = &send[1], .wr_id = 1, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
		{.next = &send[2], .wr_id = 2, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED, .imm_data = htobe32(0x1234)},
		{.next = &send[3], .wr_id = 3, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)buffer + 2048, mr->rkey}},
		{.next = NULL, .wr_id = 4, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		 .send_flags = IBV_SEND_SIGNALED, .wr.atomic = {(uintptr_t)buffer + 2048, 5, 0, mr->rkey}}};
	struct ibv_sge word = {(uintptr_t)buffer + 3072, 8, mr->lkey};
	send[3].sg_list = &word;
	struct old_send_wr *bad_send = NULL;
	CALL_INT(c->ops.req_notify_cq(recv_cq, 0));
	CALL_INT(c->ops.post_send(qp, send, &bad_send));
	CHECK(bad_send == NULL);
	for (int i = 0; i < 4; i++)
		poll_one("sent", send_cq);
	CHECK(buffer[2048] == 6 && buffer[2049] == 2 && buffer[3072] == 1 && buffer[3079] == 8);

	struct old_cq *event_cq = NULL;
	void *event_context = NULL;
	CHECK(comes(channel->fd));
	CALL_INT(old_get_cq_event(channel, &event_cq, &event_context));
	CHECK(event_cq == recv_cq && event_context == &tag_recv);
	poll_one("received", recv_cq);
	poll_one("received", recv_cq);
	CHECK(buffer[0] == 1 && buffer[31] == 32);
	CALL_VOID(old_ack_cq_events(recv_cq, 1));

	send[2].opcode = IBV_WR_SEND;
	send[2].num_sge = 99; /* the third of the list is refused */
	CALL_INT(c->ops.post_send(qp, send, &bad_send));
	CHECK(bad_send == &send[2]);
	poll_one("sent", send_cq);
	poll_one("sent", send_cq);
	poll_one("received", recv_cq);
	poll_one("received", recv_cq);

	/* Fewer than the limit are left after this: an event about the shared queue. */
	send[0].next = NULL;
	for (int i = 0; i < 17 && !readable(today->async_fd, 0); i++) {
		if (c->ops.post_send(qp, send, &bad_send))
			die("post");
		usleep(5000);
	}
	CHECK(comes(today->async_fd));
	struct ibv_async_event event;
	FILL(event);
	CALL_INT(old_get_async_event(c, &event));
	FIELD(event, event_type);
	CHECK((void *)event.element.srq == (void *)srq);
	CALL_VOID(old_ack_async_event(&event));

	CALL_INT(old_destroy_srq(srq)); /* busy */
	CALL_INT(old_destroy_cq(recv_cq)); /* busy */
	CALL_INT(old_destroy_qp(qp));
	CALL_INT(old_destroy_srq(srq));
	CALL_INT(old_destroy_cq(recv_cq));
	CALL_INT(old_destroy_cq(send_cq));
}

static void datagrams(void)
{
	struct old_cq *cq = CALL_PTR(old_create_cq(c, 32, &tag_send, NULL, 0));
	struct old_qp_init_attr init = {
		.qp_context = &tag_qp, .send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct old_qp *qp = CALL_PTR(old_create_qp(pd, &init));
	struct ibv_ah_attr to = {.grh = {.dgid = gid, .sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1, .port_num = PORT};
	struct old_ah *ah = CALL_PTR(old_create_ah(pd, &to));
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 224, 1, 2, 3}};
	struct ibv_sge in = {(uintptr_t)buffer, 512, mr->lkey}, out = {(uintptr_t)buffer + 1024, 32, mr->lkey};
	struct old_recv_wr recv[2] = {{&recv[1], 7, &in, 1}, {NULL, 8, &in, 1}}, *bad_recv = NULL;
	struct old_send_wr send = {.wr_id = 9,
				   .sg_list = &out,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .send_flags = IBV_SEND_SIGNALED,
				   .imm_data = htobe32(0x5678)},
			   *bad_send = NULL;

	CHECK(ah->context == c && ah->pd == pd);
	to.port_num = 7;
	CALL_PTR(old_create_ah(pd, &to));
	CALL_INT(c->ops.post_recv(qp, recv, &bad_recv)); /* not in RESET, whatever the struct of 1.0 says */
	CALL_INT(to_init(qp));
	CALL_INT(c->ops.post_recv(qp, recv, &bad_recv));
	recv[1].num_sge = 5;
	CALL_INT(c->ops.post_recv(qp, recv, &bad_recv));
	CHECK(bad_recv == &recv[1]);
	CALL_INT(to_rtr(qp, 0));
	CALL_INT(to_rts(qp));
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = qp->qp_num;
	send.wr.ud.remote_qkey = QKEY;
	memset(buffer, 0, 512);
	CALL_INT(c->ops.post_send(qp, &send, &bad_send));
	poll_one("first", cq);
	poll_one("second", cq);
	CHECK(buffer[40] == buffer[1024] && buffer[71] == buffer[1055]);
	CALL_INT(old_attach_mcast(qp, &group, 0));
	CALL_INT(old_detach_mcast(qp, &group, 0));
	CALL_INT(old_detach_mcast(qp, &group, 0));
	CALL_INT(old_destroy_ah(ah));
	CALL_INT(old_destroy_qp(qp));
	CALL_INT(old_destroy_cq(cq));
}

int main(void)
{
	begin();
	device();
	queries();
	memory();
	/* A channel has not changed since, but that it names its context: today's, which is behind the struct of 1.0. */
	today = *(struct ibv_context **)((char *)c + sizeof(*c) - sizeof(void *));
	note_server(today);
	channel = CALL_PTR(ibv_create_comp_channel(today));
	connected();
	datagrams();
	CALL_INT(ibv_destroy_comp_channel(channel));
	CALL_INT(old_dereg_mr(mr));
	CALL_INT(old_dealloc_pd(pd));
	CALL_INT(old_close_device(c));
	free(buffer);
	return end();
}
