/*
 * Small programs with defects that no ordinary run shows, and without them.
 *
 *   defects status|memory|lost [repaired]
 *
 * status  counts completions and does not look at their status: it says that all was written when it was not
 * memory  does not look whether a registration succeeded
 * lost    waits for a datagram for ever
 *
 * Exit status 0: done; 1: it failed, and says so; 3: it says that it is done, and is not.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 10, SIZE = 64, GRH = 40 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char source[COUNT][SIZE], target[COUNT][SIZE + GRH];

static void fail(const char *what)
{
	printf("%s failed\n", what);
	exit(1);
}

static struct ibv_qp *make(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = type, .sq_sig_all = 1,
					.cap = {COUNT, COUNT, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		fail("ibv_create_qp");
	return qp;
}

static struct ibv_ah_attr own_address(void)
{
	struct ibv_ah_attr address = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1};

	if (ibv_query_gid(context, 1, 0, &address.grh.dgid))
		fail("ibv_query_gid");
	return address;
}

static void bring_up(struct ibv_qp *qp, uint32_t peer, bool is_datagram)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int connection = is_datagram ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int retries = is_datagram ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  (is_datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		fail("INIT");
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr = own_address();
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer;
	attr.min_rnr_timer = 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | connection))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 10;
	attr.retry_cnt = attr.rnr_retry = 7;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | retries))
		fail("RTS");
}

static struct ibv_mr *registered(void *memory, size_t size, bool checks)
{
	struct ibv_mr *region = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (checks && !region)
		fail("ibv_reg_mr");
	return region;
}

static int written(bool checks_status, bool checks_memory)
{
	struct ibv_mr *from = registered(source, sizeof source, checks_memory);
	struct ibv_mr *to = registered(target, sizeof target, checks_memory);
	struct ibv_qp *a = make(IBV_QPT_RC), *b = make(IBV_QPT_RC);
	int done = 0;

	bring_up(a, b->qp_num, false);
	bring_up(b, a->qp_num, false);
	for (int i = 0; i < COUNT; i++) {
		memset(source[i], i + 1, SIZE);
		struct ibv_sge piece = {(uintptr_t)source[i], SIZE, from->lkey};
		struct ibv_send_wr wr = {.wr_id = i, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {(uintptr_t)target[i], to->rkey}}, *bad;

		if (ibv_post_send(a, &wr, &bad))
			fail("ibv_post_send");
	}
	while (done < COUNT) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) < 1)
			continue;
		if (checks_status && wc.status != IBV_WC_SUCCESS) {
			printf("write %d: %s\n", (int)wc.wr_id + 1, ibv_wc_status_str(wc.status));
			return 1;
		}
		done++;
	}
	printf("all written\n");
	for (int i = 0; i < COUNT; i++)
		if (memcmp(source[i], target[i], SIZE))
			return 3;
	return 0;
}

static bool polled(double seconds)
{
	struct timespec begin, now;
	struct ibv_wc wc;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		if (ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (seconds == 0 || now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return false;
}

static int lost(bool repeats)
{
	struct ibv_mr *from = registered(source, sizeof source, true), *to = registered(target, sizeof target, true);
	struct ibv_qp *qp = make(IBV_QPT_UD);
	struct ibv_ah_attr address = own_address();
	struct ibv_ah *ah = ibv_create_ah(pd, &address);

	if (!ah)
		fail("ibv_create_ah");
	bring_up(qp, 0, true);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge there = {(uintptr_t)target[i], SIZE + GRH, to->lkey}, here = {(uintptr_t)source[i], SIZE, from->lkey};
		struct ibv_recv_wr receive = {.sg_list = &there, .num_sge = 1}, *bad_receive;
		struct ibv_send_wr wr = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND,
					 .wr.ud = {ah, qp->qp_num, 1}}, *bad;

		if (ibv_post_recv(qp, &receive, &bad_receive))
			fail("ibv_post_recv");
		do
			if (ibv_post_send(qp, &wr, &bad))
				fail("ibv_post_send");
		while (!polled(repeats ? 0.05 : 0));
	}
	printf("all came\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	bool is_repaired = argc > 2;

	if (argc < 2 || !devices || !*devices)
		fail("no device");
	context = ibv_open_device(*devices);
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 16 * COUNT, NULL, NULL, 0) : NULL;
	if (!cq)
		fail("the device");
	if (!strcmp(argv[1], "lost"))
		return lost(is_repaired);
	return written(strcmp(argv[1], "status") || is_repaired, strcmp(argv[1], "memory") || is_repaired);
}
