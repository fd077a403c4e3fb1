/*
 * memlock.c - the limit of locked memory, for a program that has not the right to exceed it.
 *
 * Proves: which registration fails, with which errno; that freeing makes room again; a limit of zero; that queues
 * (whose memory is the kernel's) do not count.
 */
#include <sys/resource.h>

#include "setup.h"

#define STEP (64 << 10)

int main(void)
{
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_mr *mr[32];
	unsigned char *p;
	int n = 0;

	begin();
	if (setuid(65534)) /* root may lock without limit */
		die("dropping rights");
	struct rlimit limit = {10 * STEP, 10 * STEP};
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		die("limit");
	c = open_device("rxe0");
	pd = ibv_alloc_pd(c);
	if (posix_memalign((void **)&p, 4096, 32 * STEP))
		die("memory");
	memset(p, 0, 32 * STEP);
	while (n < 32 && (mr[n] = CALL_PTR(ibv_reg_mr(pd, p + n * STEP, STEP, IBV_ACCESS_LOCAL_WRITE))))
		n++;
	note("%d regions", n);
	CALL_PTR(ibv_reg_mr(pd, p, 1, IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_dereg_mr(mr[--n]));
	CALL_PTR(ibv_reg_mr(pd, p, STEP + 1, IBV_ACCESS_LOCAL_WRITE));
	mr[n] = CALL_PTR(ibv_reg_mr(pd, p, STEP, IBV_ACCESS_LOCAL_WRITE)); /* pages count once per region */
	if (mr[n])
		n++;
	while (n > 0)
		CALL_INT(ibv_dereg_mr(mr[--n]));
	CALL_PTR(ibv_reg_mr(pd, p, 32 * STEP, IBV_ACCESS_LOCAL_WRITE));

	limit.rlim_cur = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	CALL_PTR(ibv_reg_mr(pd, p, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_cq *cq = CALL_PTR(ibv_create_cq(c, 1000, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {100, 100, 4, 4, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = CALL_PTR(ibv_create_qp(pd, &init));
	CALL_INT(ibv_destroy_qp(qp));
	CALL_INT(ibv_destroy_cq(cq));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
