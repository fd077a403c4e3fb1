/*
 * random_wrong.h - random calls with wrong objects, whose numbers are nobody's or somebody else's; ranges for
 * fork; and events that are not there.
 */
#ifndef CTEST_RANDOM_WRONG_H
#define CTEST_RANDOM_WRONG_H

#include <fcntl.h>

#include "random_rooms.h"

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Make a call while the object has another number. */
#define LOST(object, number, call)                                                                             \
	do {                                                                                                   \
		uint32_t right_ = (object)->handle;                                                            \
		(object)->handle = (number);                                                                   \
		call;                                                                                          \
		(object)->handle = right_;                                                                     \
	} while (0)

/* A destruction; the software device's objects have no numbers, so that it goes. */
#define LOST_END(pool_, name, verb, object_)                                                                   \
	do {                                                                                                   \
		uint32_t right_ = (object_)->handle;                                                           \
		(object_)->handle = foreign(r, pool_);                                                         \
		if (!RESULT(name ", lost", verb(object_)))                                                     \
			forget(pool_, object_);                                                                \
		else                                                                                           \
			(object_)->handle = right_;                                                            \
	} while (0)

static inline void forget(struct pool *p, const void *object)
{
	for (int i = 0; i < p->n; i++)
		if (p->object[i] == object)
			p->object[i] = p->object[--p->n];
}

#define NOBODY (0x7ffffff0u + rnd(8))

/* The number of an object of any kind but the one that is asked for; nobody's where there is none. */
static inline uint32_t foreign(const struct room *r, const struct pool *but)
{
	if (chance(50) && but != &r->pds && r->pds.n)
		return ((struct ibv_pd *)live(&r->pds))->handle;
	if (chance(50) && but != &r->mrs && r->mrs.n)
		return ((struct ibv_mr *)live(&r->mrs))->handle;
	if (chance(50) && but != &r->cqs && r->cqs.n)
		return ((struct ibv_cq *)live(&r->cqs))->handle;
	if (but != &r->ahs && r->ahs.n)
		return ((struct ibv_ah *)live(&r->ahs))->handle;
	return NOBODY;
}

static inline void lost_pd(struct room *r, struct ibv_pd *pd)
{
	struct ibv_srq_init_attr srq_init = {.attr = {16, 2, 0}};
	uint32_t number = foreign(r, &r->pds);
	struct ibv_ah_attr to = av();

	switch (rnd(5)) {
	case 0: LOST_END(&r->pds, "dealloc_pd", ibv_dealloc_pd, pd); break;
	case 1: LOST(pd, number, MADE("reg_mr, lost", ibv_reg_mr(pd, arena, 4096, 1))); break;
	case 2: LOST(pd, number, MADE("alloc_mw, lost", ibv_alloc_mw(pd, IBV_MW_TYPE_1))); break;
	case 3: LOST(pd, number, MADE("create_ah, lost", ibv_create_ah(pd, &to))); break;
	default: LOST(pd, number, MADE("create_srq, lost", ibv_create_srq(pd, &srq_init)));
	}
}

static inline void lost_qp(struct room *r, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init = {0};
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 0, 0, 1}};
	uint32_t number = foreign(r, &r->qps);

	switch (rnd(5)) {
	case 0: LOST(qp, number, RESULT("modify_qp, lost", ibv_modify_qp(qp, &attr, IBV_QP_STATE))); break;
	case 1: LOST(qp, number, RESULT("query_qp, lost", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))); break;
	case 2: LOST(qp, number, RESULT("attach_mcast, lost", ibv_attach_mcast(qp, &group, 0))); break;
	case 3: LOST(qp, number, RESULT("detach_mcast, lost", ibv_detach_mcast(qp, &group, 0))); break;
	default: LOST_END(&r->qps, "destroy_qp", ibv_destroy_qp, qp);
	}
}

static inline void lost_others(struct room *r)
{
	struct ibv_mr *mr = live(&r->mrs);
	struct ibv_mw *mw = live(&r->mws);
	struct ibv_ah *ah = live(&r->ahs);
	struct ibv_cq *cq = live(&r->cqs);
	struct ibv_srq *srq = live(&r->srqs);
	struct ibv_pd *pd = live(&r->pds);
	struct ibv_srq_attr attr = {.max_wr = 10, .srq_limit = 1};
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	switch (rnd(9)) {
	case 0:
		if (mr)
			LOST_END(&r->mrs, "dereg_mr", ibv_dereg_mr, mr);
		break;
	case 1:
		if (mr)
			LOST(mr, foreign(r, &r->mrs), RESULT("rereg_mr, lost", ibv_rereg_mr(mr, 4, pd, arena, 100, 1)));
		break;
	case 2:
		if (mw)
			LOST_END(&r->mws, "dealloc_mw", ibv_dealloc_mw, mw);
		break;
	case 3:
		if (ah)
			LOST_END(&r->ahs, "destroy_ah", ibv_destroy_ah, ah);
		break;
	case 4:
		if (cq)
			LOST_END(&r->cqs, "destroy_cq", ibv_destroy_cq, cq);
		break;
	case 5:
		if (cq)
			LOST(cq, foreign(r, &r->cqs), RESULT("resize_cq, lost", ibv_resize_cq(cq, 100)));
		break;
	case 6:
		if (cq && pd)
			LOST(cq, foreign(r, &r->cqs), MADE("create_qp, lost", ibv_create_qp(pd, &init)));
		break;
	case 7:
		if (srq)
			LOST(srq, foreign(r, &r->srqs),
			     RESULT("modify_srq, lost", ibv_modify_srq(srq, &attr, played ? IBV_SRQ_LIMIT : 1 + (int)rnd(3))));
		break;
	default:
		if (srq)
			LOST_END(&r->srqs, "destroy_srq", ibv_destroy_srq, srq);
	}
}

/* Nothing has happened to a device that was just opened, and to a channel that nobody uses. */
static inline void no_events(struct room *r)
{
	struct ibv_context *c = MADE("open_device", ibv_open_device(r->context->device));
	struct ibv_async_event event;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	void *context;

	if (!c)
		return;
	channel = MADE("create_comp_channel", ibv_create_comp_channel(c));
	if (channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK) && !fcntl(c->async_fd, F_SETFL, O_NONBLOCK)) {
		RESULT("get_async_event", ibv_get_async_event(c, &event));
		RESULT("get_cq_event", ibv_get_cq_event(channel, &cq, &context));
	}
	if (chance(20)) /* the kernel closes what is left */
		RESULT("close_device", ibv_close_device(c));
	else if (channel) {
		RESULT("destroy_comp_channel", ibv_destroy_comp_channel(channel));
		RESULT("close_device", ibv_close_device(c));
	}
}

/* Ranges that fork shall leave out, each given back as it was taken. */
static inline void fork_ranges(void)
{
	static struct range {
		unsigned char *at;
		size_t length;
	} ranges[16];
	static unsigned char *pages;
	struct range *range = &PICK(ranges);

	if (!pages)
		pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!NEWER && chance(10)) {
		forks |= !RESULT("fork_init", ibv_fork_init());
	} else if (range->length) {
		RESULT("dofork_range", ibv_dofork_range(range->at, range->length));
		range->length = 0;
	} else {
		*range = (struct range){pages + rnd(60 * 4096), 1 + rnd(4 * 4096 - 1)};
		if (RESULT("dontfork_range", ibv_dontfork_range(range->at, range->length)))
			range->length = 0;
	}
}

static inline void wrong_calls(struct room *r)
{
	struct ibv_pd *pd = live(&r->pds);
	struct ibv_qp *qp = live(&r->qps);

	switch (rnd(5)) {
	case 0:
		if (pd)
			lost_pd(r, pd);
		break;
	case 1:
		if (qp)
			lost_qp(r, qp);
		break;
	case 2: no_events(r); break;
	case 3: fork_ranges(); break;
	default: lost_others(r);
	}
}

#endif
