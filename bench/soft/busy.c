/*
 * busy.c - a write by a program with more busy threads than there are processors.
 *
 *   busy WRITES POLLERS   median, 99th percentile and most of the microseconds from the post of a write of 4 KiB until its thread
 *                         hears of the completion
 *
 * One thread posts and looks at a word of memory until another, which polls, has written it. That one and the
 * other POLLERS - 1, each on a queue to which nothing comes, poll all the time. At first the two that need each
 * other share a processor, as they come to do by chance; from then on the kernel places all as it likes.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "../../tests/soft/peer.h"
#include "measured.h"

enum { BYTES = 4096, POLLERS = 64 };

static struct ibv_context *context;
static atomic_int completed;
static atomic_bool ended;

/* Threads start with their creator's processors. */
static void stay_on(const cpu_set_t *processors)
{
	if (sched_setaffinity(0, sizeof(*processors), processors))
		fail("processors: %s", errno_name(errno));
}

static void *poll_queue(void *queue)
{
	struct ibv_wc wc;
	int count;

	while (!ended) {
		count = ibv_poll_cq(queue, 1, &wc);
		if (count < 0 || (count && wc.status))
			fail("poll: %d, status %d", count, count ? (int)wc.status : 0);
		if (count)
			completed++;
	}
	return NULL;
}

static int first_of(const cpu_set_t *set)
{
	int processor = 0;

	while (!CPU_ISSET(processor, set))
		processor++;
	return processor;
}

int main(int argc, char **argv)
{
	int writes = argc > 1 ? atoi(argv[1]) : 0, pollers = argc > 2 ? atoi(argv[2]) : 0;
	static char memory[2][BYTES];
	pthread_t threads[POLLERS];
	struct endpoint end = {.type = IBV_QPT_RC};
	struct ibv_cq *queues[POLLERS];
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	cpu_set_t all, one;
	double *took;

	if (writes < 1 || pollers < 1 || pollers > POLLERS)
		fail("busy WRITES POLLERS");
	context = open_device("rxe0");
	pd = ibv_alloc_pd(context);
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
	took = calloc((size_t)writes, sizeof(*took));
	if (!mr || !took || ibv_query_gid(context, PORT, GID_INDEX, &gid))
		fail("opening");
	for (int i = 0; i < pollers; i++)
		if (!(queues[i] = ibv_create_cq(context, 16, NULL, NULL, 0)))
			fail("queue %d", i);
	end.qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
		.send_cq = queues[0], .recv_cq = queues[0], .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC});
	if (!end.qp)
		fail("queue pair");
	ready(&end, &gid, end.qp->qp_num);
	if (sched_getaffinity(0, sizeof(all), &all))
		fail("processors: %s", errno_name(errno));
	for (int i = pollers - 1, processor = CPU_SETSIZE - 1; i >= 0; i--) {
		/* The idle ones from the last processor on, the busy one where the first thread is. */
		do
			processor = processor ? processor - 1 : CPU_SETSIZE - 1;
		while (!CPU_ISSET(processor, &all));
		CPU_ZERO(&one);
		CPU_SET(i ? processor : first_of(&all), &one);
		stay_on(&one);
		if (pthread_create(&threads[i], NULL, poll_queue, queues[i]))
			fail("thread %d", i);
	}
	usleep(10000);
	for (int i = 0; i < pollers; i++)
		pthread_setaffinity_np(threads[i], sizeof(all), &all);
	stay_on(&all);

	for (int i = 0; i < writes; i++) {
		struct ibv_sge sge = {(uintptr_t)memory[0], BYTES, mr->lkey};
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)memory[1], mr->rkey}};
		double start = now();

		if (ibv_post_send(end.qp, &wr, &bad))
			fail("post");
		while (completed <= i)
			;
		took[i] = (now() - start) / 1e3;
	}
	ended = true;
	for (int i = 0; i < pollers; i++)
		pthread_join(threads[i], NULL);
	qsort(took, (size_t)writes, sizeof(*took), ascending);
	printf("median %.1f, 99 %% %.1f, most %.0f us\n", took[writes / 2], took[writes * 99L / 100], took[writes - 1]);
	return 0;
}
