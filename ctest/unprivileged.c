/*
 * unprivileged.c - a program without rights: nobody, no capability, little locked memory.
 *
 * Proves: that devices are found and opened as the device files allow; what needs rights (raw queue pairs, queue pairs
 * with a key of the reserved half) and what does not; that registration is bounded by the memory that may be locked.
 */
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "setup.h"

int main(void)
{
	struct rlimit limit = {1 << 20, 1 << 20};
	struct endpoint e = {0};
	int n;

	begin();
	/* Device files are for everyone, as Debian's udev rules make them; the guest runs no udev. */
	if (getuid() == 0 && system("chmod 666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm"))
		die("chmod");
	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (getuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
		die("dropping rights");

	struct ibv_device **list = CALL_PTR(ibv_get_device_list(&n));
	note("devices: %d", n);
	for (int i = 0; list[i]; i++)
		CALL_STRING(ibv_get_device_name(list[i]));
	ibv_free_device_list(list);

	endpoint_open(&e, "rxe0");
	struct ibv_qp_init_attr init = {.send_cq = e.send_cq,
					.recv_cq = e.recv_cq,
					.cap = {4, 4, 1, 1, 0},
					.qp_type = IBV_QPT_RAW_PACKET};
	CALL_PTR(ibv_create_qp(e.pd, &init));
	init.qp_type = 0; /* the queue pair of subnet management */
	CALL_PTR(ibv_create_qp(e.pd, &init));
	init.qp_type = 1;
	CALL_PTR(ibv_create_qp(e.pd, &init));

	/* A queue key with the high bit set. */
	init.qp_type = IBV_QPT_UD;
	struct ibv_qp *ud = CALL_PTR(ibv_create_qp(e.pd, &init));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = 0x80010000};
	CALL_INT(ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qkey = 0x00010000;
	CALL_INT(ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	CALL_INT(ibv_destroy_qp(ud));

	/* A whole mebibyte is more than is left beside the first region. */
	unsigned char *p;
	if (posix_memalign((void **)&p, 4096, 4 << 20))
		die("memory");
	memset(p, 0, 4 << 20);
	struct ibv_mr *mr[3]; /* which a device that pins nothing gives */
	mr[0] = CALL_PTR(ibv_reg_mr(e.pd, p, 1 << 20, IBV_ACCESS_LOCAL_WRITE));
	mr[1] = CALL_PTR(ibv_reg_mr(e.pd, p, 4 << 20, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *half = CALL_PTR(ibv_reg_mr(e.pd, p, 512 << 10, IBV_ACCESS_LOCAL_WRITE));
	mr[2] = CALL_PTR(ibv_reg_mr(e.pd, p, 512 << 10, IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_dereg_mr(half));
	for (int i = 0; i < 3; i++)
		if (mr[i])
			ibv_dereg_mr(mr[i]);
	half = CALL_PTR(ibv_reg_mr(e.pd, p, 512 << 10, IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_dereg_mr(half));

	/* And traffic works. */
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(post_recv(&e, 1, 0, 64));
	CALL_INT(post_send(&e, 2, 0, 64));
	expect_wc("sent", e.send_cq, e.qp, NULL);
	expect_wc("received", e.recv_cq, e.qp, NULL);
	endpoint_close(&e);
	return end();
}
