/* What the programs of this folder have in common: the device, and queue pairs that are connected within the process. */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

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

static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (!devices || !*devices)
		fail("no device");
	context = ibv_open_device(*devices);
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 16 * COUNT, NULL, NULL, 0) : NULL;
	if (!cq)
		fail("the device");
}
