/*
 * polling.c - what it costs to get completions: from a full queue, from an empty one, and while a producer on another
 * processor writes them.
 */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES = 255, LAPS = 8, EMPTY_POLLS = 1000, PRODUCED = 1000, PACE = 1000 };

struct polling {
	struct ibv_cq *cq;
	struct queue queue;
	int batch;
	struct shared { uint64_t wanted, stop; } *shared;
};
static struct ibv_wc wc[256];

/* A full queue, emptied poll by poll. */
static uint64_t poll_full(void *argument)
{
	struct polling *polling = argument;
	uint64_t spent = 0, start;
	unsigned lap;
	int left, got;

	for (lap = 0; lap < LAPS; lap++) {
		left = complete_all(&polling->queue);
		start = ticks();
		while (left > 0) {
			got = ibv_poll_cq(polling->cq, polling->batch, wc);
			if (got <= 0)
				die("a completion was lost");
			left -= got;
		}
		spent += ticks() - start;
		if (left)
			die("a completion came twice");
	}
	return spent;
}

static uint64_t poll_empty(void *argument)
{
	struct polling *polling = argument;
	uint64_t start = ticks();

	for (unsigned i = 0; i < EMPTY_POLLS; i++)
		if (ibv_poll_cq(polling->cq, 16, wc))
			die("a completion from nowhere");
	return ticks() - start;
}

/* What a lock among threads costs at least. */
static uint64_t lock_bare(void *argument)
{
	static unsigned held;
	uint64_t start = ticks();

	(void)argument;
	for (unsigned i = 0; i < EMPTY_POLLS; i++) {
		if (__atomic_exchange_n(&held, 1, __ATOMIC_ACQUIRE))
			die("a lock that nobody else has");
		__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
	}
	return ticks() - start;
}

/* A full queue by start_poll and next_poll, with the fields that a program looks at. */
static uint64_t walk_full(void *argument)
{
	struct polling *polling = argument;
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)polling->cq;
	struct ibv_poll_cq_attr attr = {0};
	uint64_t spent = 0, start, sum = 0;
	int left, of_batch;

	for (unsigned lap = 0; lap < LAPS; lap++) {
		left = complete_all(&polling->queue);
		start = ticks();
		while (left > 0) {
			if (ibv_start_poll(cq, &attr))
				die("start_poll");
			for (of_batch = 1;; of_batch++) {
				sum += cq->wr_id + cq->status + ibv_wc_read_opcode(cq) + ibv_wc_read_byte_len(cq);
				left--;
				if (of_batch == polling->batch || !left)
					break;
				if (ibv_next_poll(cq))
					die("next_poll");
			}
			ibv_end_poll(cq);
		}
		spent += ticks() - start;
	}
	__asm__ volatile("" : : "r"(sum));
	return spent;
}

static uint64_t walk_empty(void *argument)
{
	struct polling *polling = argument;
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)polling->cq;
	struct ibv_poll_cq_attr attr = {0};
	uint64_t start = ticks();

	for (unsigned i = 0; i < EMPTY_POLLS; i++)
		if (ibv_start_poll(cq, &attr) != ENOENT)
			die("a completion from nowhere");
	return ticks() - start;
}

/* Completions that another processor writes meanwhile, as fast as a driver may: how long after it was written the program
 * has each. */
static uint64_t poll_produced(void *argument)
{
	struct polling *polling = argument;
	uint64_t spent = 0, now;
	int got;

	__atomic_add_fetch(&polling->shared->wanted, PRODUCED, __ATOMIC_RELEASE);
	for (unsigned left = PRODUCED; left; left -= got) {
		got = ibv_poll_cq(polling->cq, polling->batch, wc);
		now = got ? ticks() : 0;
		for (int i = 0; i < got; i++)
			spent += now - wc[i].wr_id;
	}
	return spent;
}

/* Runs the rest of the process on one of its processors, unless there is only one. */
static bool run_on(unsigned which)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && !which--) {
			CPU_SET(cpu, &one);
			return !sched_setaffinity(0, sizeof one, &one);
		}
	return false;
}

/* The producer is a process of its own, so that the polling program may have one thread. */
static void measure_produced(struct polling *polling)
{
	cpu_set_t before;
	pid_t producer;

	MUST(!sched_getaffinity(0, sizeof before, &before));
	if (CPU_COUNT(&before) < 2)
		return;
	polling->shared = mmap(NULL, sizeof *polling->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(polling->shared != MAP_FAILED);
	producer = fork();
	MUST(producer >= 0);
	if (!producer) {
		uint64_t written = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(1);
		while (!__atomic_load_n(&polling->shared->stop, __ATOMIC_RELAXED))
			if (written < __atomic_load_n(&polling->shared->wanted, __ATOMIC_ACQUIRE)) {
				uint64_t start = ticks();

				written += complete_one(&polling->queue, start);
				while (ticks() - start < PACE)
					;
			}
		_exit(0);
	}
	run_on(0);
	polling->batch = 16;
	report("poll 16 after completion", 30, poll_produced, polling, PRODUCED);
	__atomic_store_n(&polling->shared->stop, 1, __ATOMIC_RELAXED);
	MUST(waitpid(producer, NULL, 0) == producer);
	MUST(!sched_setaffinity(0, sizeof before, &before));
	munmap(polling->shared, sizeof *polling->shared);
}

void measure_polling(struct ibv_context *context)
{
	static const int batches[] = {1, 4, 16, 64, 256};
	struct ibv_cq_init_attr_ex attr = {.cqe = ENTRIES, .wc_flags = IBV_WC_STANDARD_FLAGS};
	static struct polling polling;
	char name[32];

	polling.cq = ibv_create_cq(context, is_siw ? ENTRIES + 1 : ENTRIES, NULL, NULL, 0);
	MUST(polling.cq);
	polling.queue = queue_of(context, "cq", polling.cq->handle, COMPLETIONS);
	write_completions(&polling.queue);
	for (unsigned i = 0; i < sizeof batches / sizeof *batches; i++) {
		polling.batch = batches[i];
		snprintf(name, sizeof name, "poll %d", batches[i]);
		report(name, 150, poll_full, &polling, LAPS * ENTRIES);
	}
	report("poll empty", 150, poll_empty, &polling, EMPTY_POLLS);
	report("bare lock", 150, lock_bare, NULL, EMPTY_POLLS);
	measure_produced(&polling);
	MUST(!ibv_destroy_cq(polling.cq));
	if (is_siw)
		return;

	polling.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
	MUST(polling.cq);
	polling.queue = queue_of(context, "cq", polling.cq->handle, COMPLETIONS);
	write_completions(&polling.queue);
	polling.batch = 1;
	report("start_poll 1", 150, walk_full, &polling, LAPS * ENTRIES);
	polling.batch = 16;
	report("start_poll 16", 150, walk_full, &polling, LAPS * ENTRIES);
	report("start_poll empty", 150, walk_empty, &polling, EMPTY_POLLS);
	MUST(!ibv_destroy_cq(polling.cq));
}
