/*
 * atomics.c - compare and swap, fetch and add.
 *
 * Proves: results and memory, over two devices and within one; what the provider refuses (too short, misaligned) with
 * *bad_wr; what the other side refuses (rights, range, alignment of the region); atomics from two queue pairs at once.
 */
#include <pthread.h>

#include "setup.h"

static struct endpoint a, b;

static struct ibv_sge sge;
static struct ibv_send_wr atomic(uint64_t wr_id, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};

	sge = (struct ibv_sge){(uintptr_t)a.buffer, 8, a.mr->lkey};
	wr.wr.atomic.remote_addr = (uintptr_t)b.buffer;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return wr;
}

static void run(const char *what, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	volatile uint64_t *result = (uint64_t *)a.buffer, *memory = (uint64_t *)b.buffer;

	*result = 0x5555;
	note("%s", what);
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	if (bad) {
		CHECK(bad == &wr);
		return;
	}
	expect_wc("done", a.send_cq, a.qp, NULL);
	note("    result 0x%" PRIx64 " memory 0x%" PRIx64, *result, *memory);
}

/* What soft-RoCE's provider refuses other devices find out on the way, and the queue pairs fail. */
static void run_broken(const char *what, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc;

	note("%s", what);
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);
	if (bad)
		return;
	if (!next_wc(a.send_cq, &wc))
		die("no completion");
	note("    status %d", wc.status);
	reconnect_pair(&a, &b);
}

static void operations(void)
{
	volatile uint64_t *memory = (uint64_t *)b.buffer;

	*memory = 100;
	run("add 5", atomic(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0));
	run("add -1", atomic(2, IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 0));
	run("compare that fits", atomic(3, IBV_WR_ATOMIC_CMP_AND_SWP, 104, 0x1122334455667788));
	run("compare that does not", atomic(4, IBV_WR_ATOMIC_CMP_AND_SWP, 104, 7));
	*memory = UINT64_MAX;
	run("add past the end", atomic(5, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0));
}

static void refusals(void)
{
	struct ibv_send_wr wr;
	struct ibv_mr *no_atomic =
		ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	for (int offset = 1; offset < 8; offset++) {
		wr = atomic(10, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		wr.wr.atomic.remote_addr += offset;
		run_broken("misaligned", wr);
	}
	wr = atomic(11, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0), sge.length = 7;
	run_broken("too short", wr);
	wr = atomic(12, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0), wr.num_sge = 0;
	run_broken("no entry", wr);
	wr = atomic(13, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), sge.length = 4;
	run_broken("half", wr);

	wr = atomic(14, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), wr.wr.atomic.rkey = no_atomic->rkey;
	run("region without the right", wr);
	reconnect_pair(&a, &b);
	wr = atomic(15, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), wr.wr.atomic.remote_addr += b.length;
	run("past the region", wr);
	reconnect_pair(&a, &b);
	wr = atomic(16, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0), wr.wr.atomic.rkey ^= 0x10;
	run("unknown key", wr);
	b.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	reconnect_pair(&a, &b);
	run("queue pair without the right", atomic(17, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0));
	b.qp_access = 0;
	reconnect_pair(&a, &b);
	wr = atomic(18, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), sge.lkey ^= 0x10;
	run("unknown local key", wr);
	reconnect_pair(&a, &b);
	CALL_INT(ibv_dereg_mr(no_atomic));
}

/* A list in which the second request is refused: the first is done, the third is not posted. */
static void list(void)
{
	struct ibv_send_wr wr[3], *bad = NULL;
	volatile uint64_t *memory = (uint64_t *)b.buffer;

	*memory = 0;
	for (int i = 0; i < 3; i++) {
		wr[i] = atomic(20 + i, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].wr.atomic.remote_addr += 4;
	CALL_INT(ibv_post_send(a.qp, wr, &bad));
	CHECK(bad == &wr[1]);
	expect_wc("first", a.send_cq, a.qp, NULL);
	expect_empty("no other", a.send_cq);
	note("    memory %" PRIu64, *memory);
}

static struct endpoint *counted_to;

static void *count(void *from)
{
	struct endpoint *e = from;
	struct ibv_sge s = {(uintptr_t)e->buffer, 8, e->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &s,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	wr.wr.atomic.remote_addr = (uintptr_t)counted_to->buffer;
	wr.wr.atomic.rkey = counted_to->mr->rkey;
	wr.wr.atomic.compare_add = 1;
	for (int i = 0; i < 200; i++)
		if (ibv_post_send(e->qp, &wr, &bad) || !next_wc(e->send_cq, &wc) || wc.status)
			return "failed";
	return NULL;
}

static void at_once(void)
{
	struct endpoint from[2] = {0}, to[2] = {0};
	pthread_t thread[2];

	endpoint_open(&to[0], "rxe1");
	endpoint_open_on(&to[1], to[0].context, to[0].pd);
	counted_to = &to[0];
	*(uint64_t *)to[0].buffer = 0;
	for (int i = 0; i < 2; i++) {
		endpoint_open(&from[i], "rxe0");
		connect_pair(&from[i], &to[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, count, &from[i]);
	for (int i = 0; i < 2; i++) {
		void *failed;

		pthread_join(thread[i], &failed);
		note("counter %d %s", i, failed ? (char *)failed : "done");
	}
	note("    counted %" PRIu64, *(volatile uint64_t *)to[0].buffer);
	for (int i = 0; i < 2; i++)
		endpoint_close(&from[i]);
	CALL_INT(ibv_close_device(to[0].context));
}

int main(void)
{
	static const char *const devices[] = {"rxe1", "rxe0"};

	begin();
	for (int i = 0; i < 2; i++) {
		a = (struct endpoint){0};
		b = (struct endpoint){0};
		open_pair(&a, &b, "rxe0", devices[i]);
		operations();
		refusals();
		list();
		endpoint_close(&a);
		endpoint_close(&b);
	}
	at_once();
	return end();
}
