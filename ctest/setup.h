/*
 * setup.h - devices, queue pairs and connections that the test programs start from.
 *
 * Nothing here is printed: a program prints the calls that it tests. A setup that fails ends the program.
 */
#ifndef CTEST_SETUP_H
#define CTEST_SETUP_H

#include "fields.h"
#include "served.h"

#define GID_INDEX 1 /* RoCE v2 over IPv4 on the test machine's devices */
#define PORT 1

/*
 * Programs name soft-RoCE devices. With CTEST_SIW in the environment the soft-iWARP device of the same number stands in for
 * each; its only GID is the first.
 */
static inline bool on_siw(void)
{
	return getenv("CTEST_SIW") != NULL;
}

/* Whether the program runs on the software device, which does more than soft-RoCE. */
static inline bool on_soft(void)
{
	return getenv("IRONVERBS_SOFT") != NULL;
}

/* The devices on which an event comes. */
enum comes_on { NOWHERE, ON_RXE, ON_SOFT, EVERYWHERE };

/* Whether an event comes. Where it must, it is waited for; elsewhere it may have come within the time, which is wrong. */
static inline bool event_comes(int fd, enum comes_on where, int absent_ms)
{
	return readable(fd, where & (on_soft() ? ON_SOFT : ON_RXE) ? HANG_MS : absent_ms);
}

static inline int gid_index(void)
{
	return on_siw() ? 0 : GID_INDEX;
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	char siw[] = "siw0";

	if (on_siw()) {
		siw[3] = name[3];
		name = siw;
	}

	if (!list)
		die("no device list: %s", errno_name(errno));
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (!context)
		die("cannot open %s: %s", name, errno_name(errno));
	note_server(context);
	ibv_free_device_list(list);
	return context;
}

/* One side of a connection with everything it needs. */
struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buffer;
	size_t length;
	union ibv_gid gid;
	/* What endpoint_open asks for; zero means the default in brackets. */
	struct ibv_qp_cap cap;     /* [16 work requests, 4 entries each, 64 bytes inline] */
	enum ibv_qp_type type;     /* [RC] */
	struct ibv_srq *srq;       /* [none] */
	int cqe;                   /* [64] */
	int access;                /* of the memory region [local write, remote read, write and atomic] */
	int sq_sig_all;            /* [0] */
	uint64_t send_ops_flags;   /* not 0: create the queue pair with the extended verb */
	bool with_channel;         /* both completion queues report to a channel */
	/* What connecting uses. */
	uint8_t timeout;           /* [14: 67 ms] */
	uint8_t retry_cnt;         /* [7] */
	uint8_t rnr_retry;         /* [7: for ever] */
	uint8_t min_rnr_timer;     /* [1: 10 us] */
	int qp_access;             /* of the queue pair [remote read, write, atomic] */
	bool zero_retry_cnt, zero_rnr_retry, no_qp_access; /* ask for zero instead of the default */
};

static inline void endpoint_open_on(struct endpoint *e, struct ibv_context *context, struct ibv_pd *pd)
{
	if (!e->cap.max_send_wr)
		e->cap = (struct ibv_qp_cap){16, e->srq ? 0 : 16, 4, e->srq ? 0 : 4, 64};
	if (!e->type)
		e->type = IBV_QPT_RC;
	if (!e->cqe)
		e->cqe = 64;
	if (!e->access)
		e->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			    IBV_ACCESS_REMOTE_ATOMIC;
	e->length = 65536;
	e->context = context;
	e->pd = pd ? pd : ibv_alloc_pd(e->context);
	if (!e->pd)
		die("protection domain: %s", errno_name(errno));
	if (e->with_channel && !(e->channel = ibv_create_comp_channel(e->context)))
		die("completion channel: %s", errno_name(errno));
	e->send_cq = ibv_create_cq(e->context, e->cqe, e, e->channel, 0);
	e->recv_cq = ibv_create_cq(e->context, e->cqe, e, e->channel, 0);
	if (!e->send_cq || !e->recv_cq)
		die("completion queue: %s", errno_name(errno));
	if (posix_memalign((void **)&e->buffer, 4096, e->length))
		die("memory");
	memset(e->buffer, 0, e->length);
	e->mr = ibv_reg_mr(e->pd, e->buffer, e->length, e->access);
	if (!e->mr)
		die("memory region: %s", errno_name(errno));

	if (e->send_ops_flags) {
		struct ibv_qp_init_attr_ex init = {
			.qp_context = e,
			.send_cq = e->send_cq,
			.recv_cq = e->recv_cq,
			.srq = e->srq,
			.cap = e->cap,
			.qp_type = e->type,
			.sq_sig_all = e->sq_sig_all,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = e->pd,
			.send_ops_flags = e->send_ops_flags,
		};

		e->qp = ibv_create_qp_ex(e->context, &init);
	} else {
		struct ibv_qp_init_attr init = {
			.qp_context = e,
			.send_cq = e->send_cq,
			.recv_cq = e->recv_cq,
			.srq = e->srq,
			.cap = e->cap,
			.qp_type = e->type,
			.sq_sig_all = e->sq_sig_all,
		};

		e->qp = ibv_create_qp(e->pd, &init);
	}
	if (!e->qp)
		die("queue pair: %s", errno_name(errno));
	if (ibv_query_gid(e->context, PORT, gid_index(), &e->gid))
		die("gid: %s", errno_name(errno));
}

static inline void endpoint_open(struct endpoint *e, const char *device)
{
	endpoint_open_on(e, open_device(device), NULL);
}

static inline void endpoint_close(struct endpoint *e)
{
	if (ibv_destroy_qp(e->qp) || ibv_dereg_mr(e->mr) || ibv_destroy_cq(e->send_cq) || ibv_destroy_cq(e->recv_cq))
		die("closing an endpoint");
	if (e->channel && ibv_destroy_comp_channel(e->channel))
		die("closing a channel");
	if (ibv_dealloc_pd(e->pd) || ibv_close_device(e->context))
		die("closing a device");
	free(e->buffer);
}

static inline int modify_to_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static inline int modify_to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

#define QKEY 0x11111111

static inline int modify_to_init(struct endpoint *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.qp_access_flags = e->qp_access ? e->qp_access
					    : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_ATOMIC;
	if (e->no_qp_access)
		attr.qp_access_flags = 0;
	return ibv_modify_qp(e->qp, &attr, mask | (e->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static inline int modify_to_rtr(struct endpoint *e, const union ibv_gid *dgid, uint32_t dest_qp_num)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = e->min_rnr_timer ? e->min_rnr_timer : 1,
		.ah_attr = {.grh = {.dgid = *dgid, .sgid_index = GID_INDEX, .hop_limit = 64},
			    .is_global = 1,
			    .port_num = PORT},
	};
	int mask = IBV_QP_STATE;

	if (e->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (e->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(e->qp, &attr, mask);
}

static inline int modify_to_rts(struct endpoint *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 100,
		.timeout = e->timeout ? e->timeout : 14,
		.retry_cnt = e->zero_retry_cnt ? 0 : e->retry_cnt ? e->retry_cnt : 7,
		.rnr_retry = e->zero_rnr_retry ? 0 : e->rnr_retry ? e->rnr_retry : 7,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (e->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(e->qp, &attr, mask);
}

/* Bring a queue pair from RESET to RTS, its peer given by address and number. */
static inline void ready(struct endpoint *e, const union ibv_gid *dgid, uint32_t dest_qp_num)
{
	int ret = modify_to_init(e);

	if (!ret)
		ret = modify_to_rtr(e, dgid, dest_qp_num);
	if (!ret)
		ret = modify_to_rts(e);
	if (ret)
		die("connecting: %s", errno_name(ret));
}

static inline void connect_pair(struct endpoint *a, struct endpoint *b)
{
	ready(a, &b->gid, b->qp->qp_num);
	ready(b, &a->gid, a->qp->qp_num);
}

/* Both queue pairs through RESET back to RTS, as after an error; old completions are thrown away. */
static inline void reconnect_pair(struct endpoint *a, struct endpoint *b)
{
	struct ibv_wc wc;

	if (modify_to_reset(a->qp) || modify_to_reset(b->qp))
		die("reset");
	while (ibv_poll_cq(a->send_cq, 1, &wc) > 0 || ibv_poll_cq(a->recv_cq, 1, &wc) > 0 ||
	       ibv_poll_cq(b->send_cq, 1, &wc) > 0 || ibv_poll_cq(b->recv_cq, 1, &wc) > 0)
		;
	connect_pair(a, b);
}

/* rxe0 and rxe1 connected, or both ends on rxe0 when the names are equal. */
static inline void open_pair(struct endpoint *a, struct endpoint *b, const char *name_a, const char *name_b)
{
	endpoint_open(a, name_a);
	endpoint_open(b, name_b);
	connect_pair(a, b);
}

/* The next completion, which must come; false when it did not. */
static inline bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t hang = now_ms() + HANG_MS;

	do {
		int n;

		memset(wc, 0xa5, sizeof(*wc));
		n = ibv_poll_cq(cq, 1, wc);
		if (n == 1)
			return true;
		if (n < 0) {
			note("ibv_poll_cq = %d", n);
			return false;
		}
	} while (now_ms() < hang);
	return false;
}

/* Wait for one completion and print it. */
static inline bool expect_this_wc(const char *what, struct ibv_cq *cq, const struct ibv_qp *qp, const struct ibv_qp *peer,
				  struct ibv_wc *wc)
{
	transcript_calls++;
	printf("%s\n", what);
	if (!next_wc(cq, wc)) {
		note("    no completion");
		return false;
	}
	print_wc(wc, qp, peer);
	return true;
}

static inline bool expect_wc(const char *what, struct ibv_cq *cq, const struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_wc wc;

	return expect_this_wc(what, cq, qp, peer, &wc);
}

/* Say of a completion that must not come what expect_wc says of one. */
static inline void expect_no_wc(const char *what, struct ibv_cq *cq, const struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_wc wc;

	usleep(20000);
	transcript_calls++;
	printf("%s\n", what);
	if (ibv_poll_cq(cq, 1, &wc) > 0)
		print_wc(&wc, qp, peer);
	else
		note("    no completion");
}

/* Say that nothing has completed. */
static inline void expect_empty(const char *what, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	usleep(20000);
	transcript_calls++;
	note("%s: poll = %d", what, ibv_poll_cq(cq, 1, &wc));
}

/* Say whether something has completed, which soft-RoCE fails to complete and the software device must. */
static inline void expect_on_soft(const char *what, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!on_soft()) {
		expect_empty(what, cq);
		return;
	}
	transcript_calls++;
	note("%s: poll = %d", what, next_wc(cq, &wc));
}

/* A receive of length bytes at offset of the endpoint's buffer. */
static inline int post_recv(struct endpoint *e, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer + offset, length, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

/* A signaled send of length bytes at offset of the endpoint's buffer. */
static inline int post_send(struct endpoint *e, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer + offset, length, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

/*
 * Wait until all that `from` has sent over its reliable connection has completed in `to`'s queue: what follows it there, an
 * unsignaled write of a new number to the end of `to`'s buffer, has arrived then.
 */
static inline void wait_for_receives(struct endpoint *from, struct endpoint *to)
{
	static uint64_t number;
	uint64_t *source = (uint64_t *)(from->buffer + from->length) - 1, hang = now_ms() + HANG_MS;
	volatile uint64_t *target = (volatile uint64_t *)(to->buffer + to->length) - 2;
	struct ibv_sge sge = {(uintptr_t)source, 8, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	*source = ++number;
	wr.wr.rdma.remote_addr = (uintptr_t)target;
	wr.wr.rdma.rkey = to->mr->rkey;
	if (ibv_post_send(from->qp, &wr, &bad))
		die("the last write");
	while (*target != number)
		if (now_ms() > hang)
			die("the last write does not arrive");
}

/* Bytes that depend on the place and on a seed, so that data moved wrongly is seen. */
static inline void pattern(unsigned char *p, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		p[i] = (unsigned char)(i * 7 + seed * 31 + (i >> 8));
}

static inline void check_data(const unsigned char *got, const unsigned char *want, size_t length)
{
	printf("    data %s\n", memcmp(got, want, length) ? "differs" : "ok");
}

/* The same of data of which nothing tells when it has come. */
static inline void check_data_that_comes(const unsigned char *got, const unsigned char *want, size_t length)
{
	uint64_t hang = now_ms() + HANG_MS;

	while (memcmp(got, want, length) && now_ms() < hang)
		usleep(1000);
	check_data(got, want, length);
}

#endif
