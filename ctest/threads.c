/*
 * threads.c - several threads on the same objects.
 *
 * Proves: two threads that post to one queue pair while two others poll one completion queue lose and repeat nothing;
 * threads that create and destroy objects of one context do not disturb each other.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "setup.h"

#define MESSAGES 2000

static struct endpoint a = {.cap = {64, 64, 1, 1, 0}, .cqe = 256}, b = {.cap = {64, 64, 1, 1, 0}, .cqe = 256};
static atomic_int to_post, seen[MESSAGES], completed, bad_status, post_errors;

static void *poster(void *unused)
{
	(void)unused;
	for (;;) {
		int i = atomic_fetch_add(&to_post, 1);
		struct ibv_sge sge = {(uintptr_t)a.buffer, 32, a.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		int ret;

		if (i >= MESSAGES)
			return NULL;
		while (i - atomic_load(&completed) > 200) /* the completion queue must not overflow */
			sched_yield();
		wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
		wr.wr.rdma.rkey = b.mr->rkey;
		while ((ret = ibv_post_send(a.qp, &wr, &bad)) == ENOMEM)
			sched_yield();
		if (ret)
			atomic_fetch_add(&post_errors, 1);
	}
}

static void *poller(void *unused)
{
	uint64_t hang = now_ms() + HANG_MS;
	struct ibv_wc wc[7];

	(void)unused;
	while (atomic_load(&completed) < MESSAGES && now_ms() < hang) {
		int n = ibv_poll_cq(a.send_cq, 7, wc);

		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				atomic_fetch_add(&bad_status, 1);
			atomic_fetch_add(&seen[wc[i].wr_id % MESSAGES], 1);
			atomic_fetch_add(&completed, 1);
		}
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void data_path(void)
{
	pthread_t thread[4];
	int once = 0;

	open_pair(&a, &b, "rxe0", "rxe1");
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 2 ? poster : poller, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < MESSAGES; i++)
		once += atomic_load(&seen[i]) == 1;
	note("%d posted and completed once, %d bad statuses, %d post errors", once, bad_status, post_errors);
	transcript_calls += 2 * MESSAGES;
	endpoint_close(&a);
	endpoint_close(&b);
}

static struct ibv_context *shared;

static void *creator(void *result)
{
	for (int i = 0; i < 50; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(shared);
		struct ibv_comp_channel *channel = ibv_create_comp_channel(shared);
		struct ibv_cq *cq = pd && channel ? ibv_create_cq(shared, 16, NULL, channel, 0) : NULL;
		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
		struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
		char memory[4096];
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;

		if (!qp || !mr || ibv_dereg_mr(mr) || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ||
		    ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(pd)) {
			*(int *)result = 1;
			return NULL;
		}
	}
	return NULL;
}

static void *lister(void *result)
{
	for (int i = 0; i < 20; i++) {
		int n;
		struct ibv_device **list = ibv_get_device_list(&n);
		struct ibv_context *c = list ? ibv_open_device(list[i % n]) : NULL;

		if (!c || ibv_close_device(c)) {
			*(int *)result = 1;
			return NULL;
		}
		ibv_free_device_list(list);
	}
	return NULL;
}

static void control_path(void)
{
	pthread_t thread[4];
	int failed[4] = {0};

	shared = open_device("rxe0");
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 3 ? creator : lister, &failed[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		note("thread %d %s", i, failed[i] ? "failed" : "done");
	}
	transcript_calls += 3 * 50 * 10 + 20 * 3;
	CALL_INT(ibv_close_device(shared));
}

int main(void)
{
	begin();
	data_path();
	control_path();
	return end();
}
