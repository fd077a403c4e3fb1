/*
 * disassociate.c - a device that is removed while it is open.
 *
 * Proves: what the device list and every kind of call answer between the removal and the close; that freeing objects
 * and closing work; that a new device under the same name works afterwards.
 */
#include <sys/wait.h>

#include "asleep.h"

static void run(const char *command)
{
	if (system(command))
		die("%s", command);
}

static int count_devices(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		return -1;
	ibv_free_device_list(list);
	return n;
}

int main(void)
{
	struct ibv_async_event event;
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex attr_ex;
	struct ibv_port_attr port;
	struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq_attr = {.max_wr = 8};
	union ibv_gid gid;
	__be16 pkey;
	struct ibv_wc wc;

	begin();
	run("ip link add g0 type veth peer name g1 && ip addr add 10.78.0.1/24 dev g0 && ip link set g0 up && "
	    "ip link set g1 up && rdma link add rxe_gone type rxe netdev g0");
	int before = count_devices();
	struct endpoint e = {.with_channel = true};
	struct ibv_context *c = open_device("rxe_gone");
	for (uint64_t hang = now_ms() + HANG_MS; ibv_query_gid(c, PORT, GID_INDEX, &gid) || !gid.raw[15]; usleep(10000))
		if (now_ms() > hang)
			die("the address does not come");
	endpoint_open_on(&e, c, NULL);
	struct ibv_srq_init_attr srq_init = {.attr = {4, 1, 0}};
	struct ibv_srq *srq = ibv_create_srq(e.pd, &srq_init);
	struct ibv_mw *mw = ibv_alloc_mw(e.pd, IBV_MW_TYPE_2);
	struct ibv_mr *second = ibv_reg_mr(e.pd, e.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);

	if (!srq || !mw || !second)
		die("objects");
	CALL_INT(ibv_req_notify_cq(e.recv_cq, 0));
	while (readable(c->async_fd, 100)) {
		if (ibv_get_async_event(c, &event))
			break;
		ibv_ack_async_event(&event);
	}
	/* soft-RoCE cannot take a device from its users: the removal waits in the kernel until the last one closes. */
	pid_t removal = fork();
	if (!removal) {
		execlp("rdma", "rdma", "link", "delete", "rxe_gone", (char *)NULL);
		_exit(1);
	}
	for (uint64_t hang = now_ms() + HANG_MS; count_devices() == before && now_ms() < hang;)
		usleep(10000);
	wait_until_asleep(removal, 'D');
	note("devices: %d fewer", before - count_devices());

	bool fatal = false;
	for (int i = 0; i < 20 && !fatal && readable(c->async_fd, 500); i++) {
		if (ibv_get_async_event(c, &event))
			break;
		fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	note("fatal event: %s", fatal ? "yes" : "no");

	FILL(attr);
	CALL_INT(ibv_query_device(c, &attr));
	CALL_INT(ibv_query_device_ex(c, NULL, &attr_ex));
	CALL_INT(ibv_query_port(c, 1, &port));
	CALL_INT(ibv_query_gid(c, 1, 0, &gid));
	CALL_INT(ibv_query_pkey(c, 1, 0, &pkey));
	struct ibv_pd *pd2 = CALL_PTR(ibv_alloc_pd(c));
	struct ibv_mr *mr2 = CALL_PTR(ibv_reg_mr(e.pd, e.buffer, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_comp_channel *channel2 = CALL_PTR(ibv_create_comp_channel(c));
	struct ibv_cq *cq2 = CALL_PTR(ibv_create_cq(c, 16, NULL, NULL, 0));
	struct ibv_srq *srq2 = CALL_PTR(ibv_create_srq(e.pd, &srq_init));
	struct ibv_qp_init_attr ask = {.send_cq = e.send_cq, .recv_cq = e.recv_cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp2 = CALL_PTR(ibv_create_qp(e.pd, &ask));
	struct ibv_mw *mw2 = CALL_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2));
	struct ibv_ah_attr ah_attr = {.grh = {.dgid = e.gid, .sgid_index = 1}, .is_global = 1, .port_num = 1};
	struct ibv_ah *ah2 = CALL_PTR(ibv_create_ah(e.pd, &ah_attr));
	CALL_INT(ibv_modify_qp(e.qp, &qp_attr, IBV_QP_STATE));
	FIELD(*e.qp, state);
	CALL_INT(ibv_query_qp(e.qp, &qp_attr, IBV_QP_STATE, &init));
	CALL_INT(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR));
	CALL_INT(ibv_query_srq(srq, &srq_attr));
	CALL_INT(ibv_resize_cq(e.send_cq, 8));
	CALL_INT(ibv_req_notify_cq(e.recv_cq, 0));
	CALL_INT(ibv_poll_cq(e.recv_cq, 1, &wc)); /* the ring's memory is still there */

	if (pd2)
		CALL_INT(ibv_dealloc_pd(pd2));
	if (mr2)
		CALL_INT(ibv_dereg_mr(mr2));
	if (channel2)
		CALL_INT(ibv_destroy_comp_channel(channel2));
	if (cq2)
		CALL_INT(ibv_destroy_cq(cq2));
	if (srq2)
		CALL_INT(ibv_destroy_srq(srq2));
	if (qp2)
		CALL_INT(ibv_destroy_qp(qp2));
	if (mw2)
		CALL_INT(ibv_dealloc_mw(mw2));
	if (ah2)
		CALL_INT(ibv_destroy_ah(ah2));
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(second));
	CALL_INT(ibv_destroy_qp(e.qp));
	CALL_INT(ibv_destroy_srq(srq));
	CALL_INT(ibv_destroy_cq(e.send_cq));
	CALL_INT(ibv_destroy_cq(e.recv_cq));
	CALL_INT(ibv_destroy_comp_channel(e.channel));
	CALL_INT(ibv_dereg_mr(e.mr));
	CALL_INT(ibv_dealloc_pd(e.pd));
	CALL_STRING(ibv_get_device_name(c->device));
	CALL_INT(ibv_close_device(c));

	/* The same name again is a new device. */
	if (waitpid(removal, NULL, 0) != removal)
		die("removal");
	run("rdma link add rxe_gone type rxe netdev g0");
	CHECK(count_devices() == before);
	c = open_device("rxe_gone");
	CALL_INT(ibv_query_device(c, &attr));
	CALL_INT(ibv_close_device(c));
	run("rdma link delete rxe_gone && ip link delete g0");
	return end();
}
