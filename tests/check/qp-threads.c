#include <pthread.h>
#include "plant.h"

static struct ibv_mr *mr;

static void *post(void *unused)
{
	(void)unused;
	NEED(post_send(part(mr, 0, 8), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr) == 0);
	await();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	open_device(argc, argv);
	struct ibv_td_init_attr init = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &init);
	NEED(td);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = right ? NULL : td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	NEED(parent);
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	near_qp = make_qp(parent);
	connect_pair();
	mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	post(NULL);
	NEED(pthread_create(&thread, NULL, post, NULL) == 0 && pthread_join(thread, NULL) == 0);
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
	close_device();
	return 0;
}
