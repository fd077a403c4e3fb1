#include <pthread.h>
#include "plant.h"

static void *poll(void *queue)
{
	struct ibv_wc wc;
	NEED(ibv_poll_cq(queue, 1, &wc) == 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	open_device(argc, argv);
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = right ? 0 : IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);
	NEED(extended);
	cq = ibv_cq_ex_to_cq(extended);
	poll(cq);
	NEED(pthread_create(&thread, NULL, poll, cq) == 0 && pthread_join(thread, NULL) == 0);
	close_pair();
	close_device();
	return 0;
}
