/*
 * random_data.h - random traffic between two queue pairs that are made for it and gone afterwards.
 *
 * A round is a list of requests that all succeed, a list of which posting refuses one, or a single request
 * that fails after it was accepted: what is in flight beside a failing request ends by the moment. A round is
 * over when the completion of its last request came, and what both queues gave by then is printed in the order
 * of request numbers.
 */
#ifndef CTEST_RANDOM_DATA_H
#define CTEST_RANDOM_DATA_H

#include <fcntl.h>
#include <sys/utsname.h>

#include "random_rooms.h"

/* Bytes of each side: what is sent or written, what is read, and where answers and receives go. */
#define SIDE 16384
#define SENT 0
#define READ 4096
#define ANSWERS 8192
#define RECEIVES 12288

struct side {
	struct endpoint e;
	struct ibv_cq_ex *ex; /* NULL for a plain completion queue */
	struct ibv_wc wc[64];
	uint64_t wc_flags;
	int n, receives; /* completions that are not printed yet, and receives that requests may count on */
	int waiting;	 /* receives whose completion is not printed yet */
};

static struct side sides[2];
static struct ibv_ah *to_other;
static uint64_t next_id;

/* From 6.4 on soft-RoCE flushes in a work queue: how much it flushes before the queue pair goes differs. */
static inline bool moment_decides(void)
{
	static int answer = -1;
	struct utsname name;
	int major = 0, minor = 0;

	if (answer < 0) {
		uname(&name);
		sscanf(name.release, "%d.%d", &major, &minor);
		answer = major > 6 || (major == 6 && minor > 1);
	}
	return answer;
}

static inline bool has_more(struct side *s, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};

	memset(wc, 0, sizeof(*wc));
	if (!s->ex)
		return ibv_poll_cq(s->e.send_cq, 1, wc) == 1;
	if (ibv_start_poll(s->ex, &attr))
		return false;
	wc->wr_id = s->ex->wr_id;
	wc->status = s->ex->status;
	wc->opcode = wc->status ? 0 : ibv_wc_read_opcode(s->ex);
	wc->vendor_err = ibv_wc_read_vendor_err(s->ex);
	if (!wc->status) {
		wc->wc_flags = ibv_wc_read_wc_flags(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
			wc->byte_len = ibv_wc_read_byte_len(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_IMM && wc->wc_flags & IBV_WC_WITH_IMM)
			wc->imm_data = ibv_wc_read_imm_data(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_SRC_QP)
			wc->src_qp = ibv_wc_read_src_qp(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_SLID)
			wc->slid = ibv_wc_read_slid(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_SL)
			wc->sl = ibv_wc_read_sl(s->ex);
		if (s->wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
			wc->dlid_path_bits = ibv_wc_read_dlid_path_bits(s->ex);
	}
	if (s->wc_flags & IBV_WC_EX_WITH_QP_NUM)
		wc->qp_num = ibv_wc_read_qp_num(s->ex);
	ibv_end_poll(s->ex);
	return true;
}

/*
 * Take completions until that of a request is there, or as many as are wanted; false when they did not come. A
 * request always completes; some receives are never flushed, with both libraries alike.
 */
static inline bool take(struct side *s, uint64_t wr_id, int wanted)
{
	uint64_t deadline = now_ms() + (wr_id ? 20000 : 2000);

	do {
		while (s->n < 64 && has_more(s, &s->wc[s->n]))
			s->n++;
		for (int i = 0; wr_id && i < s->n; i++)
			if (s->wc[i].wr_id == wr_id)
				return true;
		if (!wr_id && s->n >= wanted)
			return true;
		if (!wr_id)
			usleep(500);
	} while (now_ms() < deadline);
	return false;
}

static inline int by_number(const void *a, const void *b)
{
	const struct ibv_wc *x = a, *y = b;

	return x->wr_id < y->wr_id ? -1 : x->wr_id > y->wr_id;
}

static inline void print_taken(struct side *s, struct side *other)
{
	qsort(s->wc, (size_t)s->n, sizeof(*s->wc), by_number);
	for (int i = 0; i < s->n; i++) {
		struct ibv_wc *wc = &s->wc[i];

		if (wc->status == IBV_WC_WR_FLUSH_ERR && moment_decides())
			continue;
		/* The specification has three fields of a failed completion, and soft-RoCE leaves the others as they were. */
		if (wc->status)
			note("    wc: wr_id %" PRIu64 " status %u vendor_err %u", wc->wr_id, wc->status, wc->vendor_err);
		else
			print_wc(wc, s->e.qp, other->e.qp);
		transcript_calls++;
	}
	s->waiting -= s->n;
	s->n = 0;
}

static inline uint64_t sum_of(const void *p, size_t length)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i += 8)
		sum = (sum ^ *(const uint64_t *)((const char *)p + i)) * 0x100000001b3;
	return sum;
}

static inline void open_side(struct side *s, struct room *r, enum ibv_qp_type type, uint64_t operations,
			     int index)
{
	struct endpoint *e = &s->e;

	*s = (struct side){.e = {.context = r->context, .type = type, .timeout = 18, .send_ops_flags = operations}};
	e->zero_rnr_retry = true;
	e->buffer = arena + (900 << 10) + index * SIDE;
	e->length = SIDE;
	pattern(e->buffer, SIDE, (unsigned)index);
	e->pd = MADE("alloc_pd", ibv_alloc_pd(e->context));
	e->channel = chance(50) ? MADE("create_comp_channel", ibv_create_comp_channel(e->context)) : NULL;
	if (chance(50)) {
		struct ibv_cq_init_attr_ex init = {.cqe = 64, .cq_context = e, .channel = e->channel};

		init.wc_flags = s->wc_flags = rnd(1 << 7);
		s->ex = MADE("create_cq_ex", ibv_create_cq_ex(e->context, &init));
		e->send_cq = s->ex ? ibv_cq_ex_to_cq(s->ex) : NULL;
	} else {
		e->send_cq = MADE("create_cq", ibv_create_cq(e->context, 64, e, e->channel, 0));
	}
	e->mr = MADE("reg_mr", ibv_reg_mr(e->pd, e->buffer, SIDE, 31));
	struct ibv_qp_init_attr_ex init = {.qp_context = e, .send_cq = e->send_cq, .recv_cq = e->send_cq};
	init.cap = (struct ibv_qp_cap){8 + rnd(8), 8, 1 + rnd(3), 2, rnd(100)};
	init.qp_type = type, init.sq_sig_all = (int)rnd(2), init.pd = e->pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | (operations ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
	init.send_ops_flags = operations;
	e->qp = operations ? MADE("create_qp_ex", ibv_create_qp_ex(e->context, &init))
			   : MADE("create_qp", ibv_create_qp(e->pd, (struct ibv_qp_init_attr *)&init));
	e->cap = init.cap;
	print_cap(&e->cap);
	if (!e->pd || !e->send_cq || !e->mr || !e->qp || ibv_query_gid(e->context, PORT, gid_index(), &e->gid))
		die("a side");
}

static inline void close_side(struct side *s)
{
	struct endpoint *e = &s->e;

	/* What is in use stays. */
	if (chance(20))
		RESULT("destroy_cq", ibv_destroy_cq(e->send_cq));
	if (chance(20))
		RESULT("dealloc_pd", ibv_dealloc_pd(e->pd));
	RESULT("destroy_qp", ibv_destroy_qp(e->qp));
	RESULT("dereg_mr", ibv_dereg_mr(e->mr));
	RESULT("destroy_cq", ibv_destroy_cq(e->send_cq));
	if (e->channel)
		RESULT("destroy_comp_channel", ibv_destroy_comp_channel(e->channel));
	RESULT("dealloc_pd", ibv_dealloc_pd(e->pd));
}

static inline void post_receives(struct side *s)
{
	struct ibv_recv_wr wr[4], *bad = NULL;
	struct ibv_sge sge[4][3];
	int n = 1 + (int)rnd(4);

	for (int i = 0; i < n; i++) {
		wr[i] = (struct ibv_recv_wr){.wr_id = ++next_id, .sg_list = sge[i], .num_sge = 1 + (int)rnd(2)};
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		for (int k = 0; k < 3; k++)
			sge[i][k] = (struct ibv_sge){(uintptr_t)s->e.buffer + RECEIVES, 4096, s->e.mr->lkey};
		sge[i][1].length = wr[i].num_sge == 2 ? rnd(100) : 0;
	}
	if (chance(15))
		wr[n - 1].num_sge = chance(50) ? 3 : 1000;
	RESULT("post_recv", ibv_post_recv(s->e.qp, wr, &bad));
	note("    bad %d", bad ? (int)(bad - wr) : -1);
	s->receives += bad ? (int)(bad - wr) : n;
	s->waiting += bad ? (int)(bad - wr) : n;
}

/* Soft-RoCE completes a datagram that is longer than its packets and does not send it. */
static inline bool arrives(const struct ibv_send_wr *wr)
{
	uint32_t total = 0;

	if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode >= IBV_WR_RDMA_READ)
		return false;
	for (int i = 0; i < wr->num_sge; i++)
		total += wr->sg_list[i].length;
	return sides[0].e.type != IBV_QPT_UD || total <= 1024;
}

/* A request that succeeds where a receive is there for what needs one. */
static inline struct ibv_send_wr good(struct ibv_sge *sge)
{
	static const enum ibv_wr_opcode all[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct endpoint *a = &sides[0].e, *b = &sides[1].e;
	int type = a->type, op = (int)rnd(type == IBV_QPT_RC ? 7 : type == IBV_QPT_UC ? 4 : 2);
	struct ibv_send_wr wr = {.wr_id = ++next_id, .sg_list = sge, .opcode = all[op], .imm_data = htobe32(rnd(1000))};

	if (!sides[1].receives && op < 4 && type != IBV_QPT_UD)
		wr.opcode = IBV_WR_RDMA_WRITE;
	bool receives = wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM ||
			wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool atomic = op > 4, fetches = op > 3;
	if (receives && sides[1].receives)
		sides[1].receives--;
	/* Nothing tells when an unreliable write has arrived, so that it has no bytes. */
	wr.num_sge = atomic ? 1 : type == IBV_QPT_UC && !receives ? 0 : (int)rnd(a->cap.max_send_sge + 1) & 3;
	for (int i = 0; i < wr.num_sge; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)a->buffer + (fetches ? ANSWERS + 1024 * i : (int)rnd(1000)),
					  atomic ? 8 : rnd(500), a->mr->lkey};
	wr.send_flags = (chance(50) ? IBV_SEND_SIGNALED : 0) | (chance(20) ? IBV_SEND_SOLICITED : 0);
	if (!fetches && chance(30)) {
		uint32_t total = 0;

		for (int i = 0; i < wr.num_sge; i++)
			total += sge[i].length;
		if (total <= a->cap.max_inline_data)
			wr.send_flags |= IBV_SEND_INLINE;
	}
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = to_other, wr.wr.ud.remote_qpn = b->qp->qp_num, wr.wr.ud.remote_qkey = QKEY;
	} else if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->buffer + ANSWERS + 8 * rnd(8), wr.wr.atomic.rkey = b->mr->rkey;
		wr.wr.atomic.compare_add = rnd(1000), wr.wr.atomic.swap = rnd(1000);
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b->buffer + (fetches ? READ : SENT) + rnd(1000);
		wr.wr.rdma.rkey = b->mr->rkey;
	}
	return wr;
}

/* The same by the builders, as rdma-core's provider can: docs/differences.md has what it cannot. */
static inline void build(struct ibv_qp_ex *x, const struct ibv_send_wr *wr)
{
	x->wr_id = wr->wr_id, x->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
	}
	if (wr->opcode <= IBV_WR_SEND_WITH_IMM && sides[0].e.type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(x, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (wr->num_sge && wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(x, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
	else if (wr->num_sge && chance(50))
		ibv_wr_set_sge(x, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		ibv_wr_set_sge_list(x, wr->num_sge ? 1 : 0, wr->sg_list);
	transcript_calls += 2;
}

/* Make a request one that posting accepts, and the device or the peer does not. */
static inline void spoil(struct ibv_send_wr *wr)
{
	bool connected = sides[0].e.type == IBV_QPT_RC;

	wr->send_flags = IBV_SEND_SIGNALED;
	wr->num_sge = 1, *wr->sg_list = (struct ibv_sge){(uintptr_t)sides[0].e.buffer + ANSWERS, 8, sides[0].e.mr->lkey};
	switch (rnd(connected ? 10 : 3)) {
	case 0:
		wr->sg_list->lkey = chance(50) ? 0 : 0xfffffff0;
		break;
	case 1:
		wr->sg_list->addr = (uintptr_t)sides[0].e.buffer + SIDE - 7;
		break;
	case 2:
		wr->opcode = IBV_WR_LOCAL_INV, wr->num_sge = 0, wr->invalidate_rkey = chance(50) ? 0 : 0xfffffff0;
		break;
	case 3:
		wr->opcode = IBV_WR_RDMA_WRITE, wr->wr.rdma.rkey = 0xfffffff0;
		break;
	case 4:
		wr->opcode = IBV_WR_RDMA_READ, wr->wr.rdma.rkey = sides[1].e.mr->rkey;
		wr->wr.rdma.remote_addr = (uintptr_t)sides[1].e.buffer + SIDE - 7;
		break;
	case 5:
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, wr->wr.atomic.rkey = sides[1].e.mr->rkey;
		wr->wr.atomic.remote_addr = (uintptr_t)sides[1].e.buffer + ANSWERS + 4;
		break;
	case 6: /* longer than any receive, or none is there */
		wr->opcode = IBV_WR_SEND;
		*wr->sg_list = (struct ibv_sge){(uintptr_t)sides[0].e.buffer, 8000, sides[0].e.mr->lkey};
		break;
	case 7:
		wr->opcode = IBV_WR_SEND_WITH_INV, wr->num_sge = 0, wr->invalidate_rkey = 0xfffffff0;
		break;
	default:
		wr->opcode = chance(50) ? IBV_WR_TSO : IBV_WR_BIND_MW, wr->num_sge = 0;
		/* Refused for its immediate data, before rdma-core reads the window, which is NULL. */
		memset(&wr->bind_mw, 0, sizeof(wr->bind_mw)), wr->imm_data = wr->opcode == IBV_WR_BIND_MW;
	}
}

#endif
