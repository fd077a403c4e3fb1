/*
 * random_control.h - random calls that create, modify, query and destroy objects of a room.
 *
 * Only calls whose answer does not depend on when the kernel's workers run: no traffic, no events.
 */
#ifndef CTEST_RANDOM_CONTROL_H
#define CTEST_RANDOM_CONTROL_H

#include "random_rooms.h"

static void pd_calls(struct room *r)
{
	if (crowded(&r->pds)) {
		int i = any(&r->pds);

		drop(&r->pds, i, RESULT("dealloc_pd", ibv_dealloc_pd(r->pds.object[i])));
	} else {
		keep(&r->pds, MADE("alloc_pd", ibv_alloc_pd(r->context)));
	}
}

static void mr_calls(struct room *r)
{
	static const size_t lengths[] = {0, 1, 100, 4096, 5000, 65536, 1 << 20, SIZE_MAX, 1ULL << 40};
	void *p = chance(95) ? arena + rnd(1 << 19) : (void *)(uintptr_t)rnd(4096);
	size_t length = chance(90) ? rnd(1 << 19) : PICK(lengths);
	if (forks && ((uintptr_t)p < 4096 || length > 7 << 20))
		p = arena, length = 100;
	int access = chance(80) ? (int)rnd(32) : (int)(rnd(1 << 30) | rnd(1 << 30) << 1);
	struct ibv_pd *pd = live(&r->pds);

	if (crowded(&r->mrs)) {
		int i = any(&r->mrs);
		struct ibv_mr *mr = r->mrs.object[i];

		if (chance(25))
			RESULT("rereg_mr", ibv_rereg_mr(mr, (int)rnd(9), pd, p, length, chance(50) ? 0 : access));
		else
			drop(&r->mrs, i, RESULT("dereg_mr", ibv_dereg_mr(mr)));
		return;
	}
	if (!pd)
		return;
	struct ibv_mr *mr;
	if (chance(70))
		mr = MADE("reg_mr", ibv_reg_mr(pd, p, length, access));
	else if (chance(50))
		mr = MADE("reg_mr_iova", ibv_reg_mr_iova(pd, p, length, (uintptr_t)p + (chance(50) ? 0 : rnd(3) * 4096), access));
	else
		mr = MADE("reg_mr_iova2", ibv_reg_mr_iova2(pd, p, length, rnd(1 << 30), (unsigned)access));
	if (mr)
		PRINT_MR(mr, pd, p, length);
	keep(&r->mrs, mr);
}

static void mw_calls(struct room *r)
{
	struct ibv_pd *pd = live(&r->pds);

	if (crowded(&r->mws)) {
		int i = any(&r->mws);

		drop(&r->mws, i, RESULT("dealloc_mw", ibv_dealloc_mw(r->mws.object[i])));
	} else if (pd) {
		struct ibv_mw *mw = MADE("alloc_mw", ibv_alloc_mw(pd, rnd(4)));

		if (mw)
			note("    type %d pd %d", mw->type, mw->pd == pd);
		keep(&r->mws, mw);
	}
}

static void ah_calls(struct room *r)
{
	struct ibv_pd *pd = live(&r->pds);
	struct ibv_ah_attr attr = av();

	if (crowded(&r->ahs)) {
		int i = any(&r->ahs);

		drop(&r->ahs, i, RESULT("destroy_ah", ibv_destroy_ah(r->ahs.object[i])));
	} else if (pd) {
		keep(&r->ahs, MADE("create_ah", ibv_create_ah(pd, &attr)));
	}
}

static void channel_calls(struct room *r)
{
	if (crowded(&r->channels)) {
		int i = any(&r->channels);

		drop(&r->channels, i, RESULT("destroy_comp_channel", ibv_destroy_comp_channel(r->channels.object[i])));
	} else {
		keep(&r->channels, MADE("create_comp_channel", ibv_create_comp_channel(r->context)));
	}
}

static void cq_calls(struct room *r)
{
	static const int sizes[] = {-1, 0, 1, 32767, 32768, INT32_MAX, INT32_MIN};
	int size = chance(85) ? (int)rnd(300) : PICK(sizes);
	struct ibv_comp_channel *channel = chance(50) ? live(&r->channels) : NULL;
	int vector = chance(90) ? (int)rnd(2) : (int)rnd(9) - 3;

	if (crowded(&r->cqs)) {
		int i = any(&r->cqs);
		struct ibv_cq *cq = r->cqs.object[i];
		struct ibv_modify_cq_attr moderation = {.attr_mask = rnd(4)};

		switch (rnd(5)) {
		case 0:
			RESULT("resize_cq", ibv_resize_cq(cq, size));
			note("    cqe %d", cq->cqe);
			break;
		case 1:
			RESULT("req_notify_cq", ibv_req_notify_cq(cq, (int)rnd(3)));
			break;
		case 2:
			RESULT("modify_cq", ibv_modify_cq(cq, &moderation));
			break;
		default:
			drop(&r->cqs, i, RESULT("destroy_cq", ibv_destroy_cq(cq)));
		}
		return;
	}
	struct ibv_cq *cq;
	if (chance(70)) {
		cq = MADE("create_cq", ibv_create_cq(r->context, size, r, channel, vector));
	} else {
		struct ibv_cq_init_attr_ex init = {.cqe = (uint32_t)size,
						   .cq_context = r,
						   .channel = channel,
						   .comp_vector = (uint32_t)vector,
						   .wc_flags = chance(80) ? rnd(1 << 7) : 1u << (7 + rnd(2) * 4),
						   .comp_mask = chance(80) ? rnd(2) : rnd(9),
						   .flags = chance(80) ? rnd(2) : rnd(16)};
		/* With an unknown bit rdma-core leaves errno as it was, which cq_ex.c and chosen-differences.txt know. */
		struct ibv_cq_ex *ex = init.comp_mask & ~3u ? MADE_SILENTLY("create_cq_ex", ibv_create_cq_ex(r->context, &init))
							    : MADE("create_cq_ex", ibv_create_cq_ex(r->context, &init));

		cq = ex ? ibv_cq_ex_to_cq(ex) : NULL;
	}
	if (cq)
		note("    cqe %d channel %d context %d", cq->cqe, cq->channel == channel, cq->cq_context == r);
	keep(&r->cqs, cq);
}

static void srq_calls(struct room *r)
{
	static const uint32_t sizes[] = {0, 1, 1048577, UINT32_MAX};
	struct ibv_srq_attr attr = {.max_wr = chance(90) ? rnd(200) : PICK(sizes),
				    .max_sge = chance(90) ? rnd(6) : rnd(100),
				    .srq_limit = chance(80) ? 0 : rnd(200)};
	struct ibv_pd *pd = live(&r->pds);

	if (crowded(&r->srqs)) {
		int i = any(&r->srqs);
		struct ibv_srq *srq = r->srqs.object[i];
		struct ibv_sge sge[8] = {{0}};
		struct ibv_recv_wr wr[2] = {{.next = &wr[1], .sg_list = sge, .num_sge = (int)rnd(7)},
					    {.sg_list = sge, .num_sge = 1}};
		struct ibv_recv_wr *bad = NULL;
		int mask;

		switch (rnd(4)) {
		case 0:
			mask = chance(90) ? (int)rnd(4) : (int)rnd(64);
			RESULT("modify_srq", ibv_modify_srq(srq, &attr, played ? mask & ~IBV_SRQ_MAX_WR : mask));
			break;
		case 1:
			FILL(attr);
			RESULT("query_srq", ibv_query_srq(srq, &attr));
			break;
		case 2:
			RESULT("post_srq_recv", ibv_post_srq_recv(srq, wr, &bad));
			note("    bad %d", bad ? (int)(bad - wr) : -1);
			return;
		default:
			drop(&r->srqs, i, RESULT("destroy_srq", ibv_destroy_srq(srq)));
			return;
		}
		print_srq_attr(&attr);
		return;
	}
	if (!pd)
		return;
	struct ibv_srq_init_attr_ex init = {.srq_context = r,
					    .attr = attr,
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD | (chance(30) ? IBV_SRQ_INIT_ATTR_TYPE : 0) |
							 (chance(10) ? 1 << 5 : 0),
					    .srq_type = chance(80) || legacy() ? 0 : 1 + 2 * rnd(3),
					    .pd = pd};
	struct ibv_srq *srq;
	if (chance(50))
		srq = MADE("create_srq", ibv_create_srq(pd, (struct ibv_srq_init_attr *)&init));
	else
		srq = MADE("create_srq_ex", ibv_create_srq_ex(r->context, &init));
	print_srq_attr(&init.attr);
	keep(&r->srqs, srq);
}

static void create_qp(struct room *r)
{
	static const int types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, 0, 5, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, 255};
	struct ibv_qp_init_attr_ex init = {
		.qp_context = r,
		.send_cq = live(&r->cqs),
		.recv_cq = live(&r->cqs),
		.srq = chance(30) ? live(&r->srqs) : NULL,
		.cap = {rnd(100), rnd(100), chance(95) ? rnd(8) : rnd(64), chance(95) ? rnd(8) : rnd(64),
			chance(90) ? rnd(200) : rnd(1000)},
		.qp_type = chance(90) ? types[rnd(3)] : PICK(types),
		.sq_sig_all = (int)rnd(2),
		.comp_mask = IBV_QP_INIT_ATTR_PD | (chance(50) ? 1 << 6 : 0) | (chance(20) ? 1 << 2 : 0) |
			     (chance(5) ? 1 << rnd(32) : 0),
		.pd = live(&r->pds),
		.create_flags = chance(80) ? 0 : 1 << rnd(13),
		.send_ops_flags = chance(70) ? rnd(16) : rnd(1 << 13) & ~(1u << 11),
	};
	struct ibv_qp *qp;

	init.comp_mask &= ~(uint32_t)(IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_RX_HASH);
	init.comp_mask |= IBV_QP_INIT_ATTR_PD;
	if (!init.pd || !init.send_cq)
		return;
	if (chance(50))
		qp = MADE("create_qp", ibv_create_qp(init.pd, (struct ibv_qp_init_attr *)&init));
	else
		qp = MADE("create_qp_ex", ibv_create_qp_ex(r->context, &init));
	print_cap(&init.cap);
	if (qp)
		note("    type %d state %d context %d extended %d", qp->qp_type, qp->state, qp->qp_context == r,
		     ibv_qp_to_qp_ex(qp) != NULL);
	keep(&r->qps, qp);
}

/* The kernel refuses every move out of SQD before the send queue has drained, which it does in its own time. */
static void wait_until_drained(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	for (uint64_t hang = now_ms() + HANG_MS; now_ms() < hang;) {
		/* With this mask the library leaves the state in the struct alone. */
		if (ibv_query_qp(qp, &attr, IBV_QP_CUR_STATE, &init) || attr.qp_state != IBV_QPS_SQD || !attr.sq_draining)
			return;
		usleep(1000);
	}
}

static void modify_qp(struct ibv_qp *qp)
{
	static const enum ibv_qp_state next[] = {1, 2, 3, 3, 3, 0, 0};
	enum ibv_qp_state to = chance(75) ? next[qp->state % 7] : rnd(9);
	struct ibv_qp_attr attr = qp_attributes(to, qp->qp_num);
	int mask = qp_mask(qp->qp_type, to);

	if (chance(30))
		mask ^= 1 << rnd(26);
	if (chance(5))
		mask = (int)rnd(1 << 26);
	note("    type %d %d to %d mask 0x%x", qp->qp_type, qp->state, to, (unsigned)mask);
	RESULT("modify_qp", ibv_modify_qp(qp, &attr, mask));
	wait_until_drained(qp);
	note("    state %d", qp->state);
}

static void qp_calls(struct room *r)
{
	if (!r->qps.n || (!crowded(&r->qps) && chance(50))) {
		create_qp(r);
		return;
	}
	int i = any(&r->qps);
	struct ibv_qp *qp = r->qps.object[i];
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = 1};
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 0, 0}};
	struct ibv_ece ece = {.vendor_id = rnd(2)};

	switch (rnd(10)) {
	case 0:
		FILL(attr);
		FILL(init);
		if (!RESULT("query_qp", ibv_query_qp(qp, &attr, chance(90) ? (int)rnd(1 << 21) : (int)rnd(1 << 27), &init))) {
			print_qp_attr(&attr);
			print_init_attr(&init, qp);
		}
		break;
	case 1:
		RESULT("post_send", ibv_post_send(qp, NULL, &bad_send));
		if (qp->srq || qp->state == IBV_QPS_RESET)
			RESULT("post_recv", ibv_post_recv(qp, &recv, &bad_recv));
		break;
	case 2:
		group.raw[15] = (uint8_t)rnd(4);
		if (chance(10))
			group.raw[0] = 0x20;
		if (chance(50))
			RESULT("attach_mcast", ibv_attach_mcast(qp, &group, 0));
		else
			RESULT("detach_mcast", ibv_detach_mcast(qp, &group, 0));
		break;
	case 3:
		RESULT("set_ece", ibv_set_ece(qp, &ece));
		RESULT("query_ece", ibv_query_ece(qp, &ece));
		break;
	case 4:
	case 5:
		drop(&r->qps, i, RESULT("destroy_qp", ibv_destroy_qp(qp)));
		break;
	default:
		modify_qp(qp);
	}
}

#endif
