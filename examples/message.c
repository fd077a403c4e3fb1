/*
 * message.c - two processes, one message: the least that a verbs program needs.
 *
 *     cc examples/message.c -o message -libverbs
 *     ironverbs run ./message
 *
 * Parent and child open the device, connect a queue pair each (what the other side must know goes through a socket pair, as
 * it would go through TCP between machines), and the child sends.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 1

static void need(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

struct address {
	uint32_t qp_num;
	union ibv_gid gid;
};

static void connect_to(struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.dgid = peer->gid, .hop_limit = 1}},
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};

	need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	need(!ibv_modify_qp(qp, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	need(!ibv_modify_qp(qp, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void side(int socket, int sends)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices && devices[0], "no RDMA device; start me with `ironverbs run`");
	struct ibv_context *context = ibv_open_device(devices[0]);
	need(context != NULL, "ibv_open_device");

	static char buffer[64] = "";
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr wants = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &wants);
	need(mr && cq && qp, "objects");

	struct address mine = {.qp_num = qp->qp_num}, theirs;
	need(!ibv_query_gid(context, PORT, 0, &mine.gid), "ibv_query_gid");
	need(write(socket, &mine, sizeof(mine)) == sizeof(mine) && read(socket, &theirs, sizeof(theirs)) == sizeof(theirs),
	     "addresses");
	connect_to(qp, &theirs);

	/* An RC sender waits, by rnr_retry = 7, until the receiver has posted. */
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = sizeof(buffer), .lkey = mr->lkey};
	if (sends) {
		struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		snprintf(buffer, sizeof(buffer), "hello from process %d", getpid());
		need(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
	} else {
		struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1}, *bad;
		need(!ibv_post_recv(qp, &request, &bad), "ibv_post_recv");
	}

	struct ibv_wc completion;
	int polled;
	while ((polled = ibv_poll_cq(cq, 1, &completion)) == 0)
		;
	need(polled == 1, "ibv_poll_cq");
	if (completion.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s: %s\n", sends ? "send" : "receive", ibv_wc_status_str(completion.status));
		exit(1);
	}
	if (!sends)
		printf("process %d received %u bytes: %s\n", getpid(), completion.byte_len, buffer);

	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(devices);
}

int main(void)
{
	int sockets[2], status = 1;

	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
	pid_t child = fork();
	need(child >= 0, "fork");
	side(sockets[child == 0], child == 0);
	if (child)
		need(waitpid(child, &status, 0) == child && status == 0, "child");
	return 0;
}
