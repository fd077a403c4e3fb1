/*
 * start.c - how long a process takes from its start until it has a list of devices, an open device, and its first completion.
 * The libraries take turns. Prints a line for each: the folder's place, the stage, the least and the median in microseconds.
 *
 *   start ROUNDS DEVICE KERNEL EMPTY FOLDER...
 *
 * KERNEL is preloaded into the processes that are measured; EMPTY is a program without verbs; each FOLDER has a
 * libibverbs.so.1.
 */
#include "bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum stage { LISTED, OPEN, COMPLETED, STAGES, EMPTY = STAGES };
enum { MOST_ROUNDS = 512, MOST_FOLDERS = 4 };

static uint64_t now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* The process that is measured: it writes how long it took since `start` to each stage. */
static int measured(uint64_t start, const char *name)
{
	static unsigned char buffer[4096];
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = sizeof buffer};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_context *context = NULL;
	struct ibv_device **devices;
	uint64_t spent[STAGES];
	struct queue queue;
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	devices = ibv_get_device_list(NULL);
	MUST(devices);
	spent[LISTED] = now() - start;
	for (int i = 0; devices[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	MUST(context);
	spent[OPEN] = now() - start;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	MUST(pd && cq);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	MUST(mr && qp);
	ready(qp);
	sge.lkey = mr->lkey;
	MUST(!ibv_post_recv(qp, &wr, &bad));
	queue = queue_of(context, "cq", cq->handle, COMPLETIONS);
	MUST(complete_one(&queue, 7));
	MUST(ibv_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == 7);
	spent[COMPLETED] = now() - start;
	return write(STDOUT_FILENO, spent, sizeof spent) != sizeof spent;
}

static void run(const char *program, const char *device, const char *kernel, const char *folder, uint64_t *spent, size_t size)
{
	char start[32], preload[4096], path[4096];
	char *arguments[] = {(char *)program, "--measured", start, (char *)device, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], status;
	pid_t child;

	MUST(!pipe(ends));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	snprintf(preload, sizeof preload, "LD_PRELOAD=%s", kernel);
	snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", folder);
	/* The kernel's variables are those of this process. */
	extern char **environ;
	char *environment[64] = {preload, path};
	for (unsigned i = 0, at = 2; environ[i] && at < 63; i++)
		if (strncmp(environ[i], "LD_", 3))
			environment[at++] = environ[i];
	snprintf(start, sizeof start, "%llu", (unsigned long long)now());
	MUST(!posix_spawn(&child, program, &actions, NULL, arguments, environment));
	close(ends[1]);
	MUST(read(ends[0], spent, size) == (ssize_t)size);
	close(ends[0]);
	MUST(waitpid(child, &status, 0) == child && !status);
	posix_spawn_file_actions_destroy(&actions);
}

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"list of devices", "open device", "first completion"};
	static uint64_t spent[MOST_FOLDERS][STAGES + 1][MOST_ROUNDS];
	int rounds, folders = argc - 5;

	if (argc == 4 && !strcmp(argv[1], "--measured"))
		return measured(strtoull(argv[2], NULL, 10), argv[3]);
	rounds = argc > 1 ? atoi(argv[1]) : 0;
	if (folders < 1 || folders > MOST_FOLDERS || rounds < 1 || rounds > MOST_ROUNDS)
		return 2;
	for (int round = -1; round < rounds; round++)
		for (int turn = 0; turn < folders; turn++) {
			/* Who goes first changes. The first round is for the files' caches. */
			int folder = round & 1 ? folders - 1 - turn : turn;
			uint64_t took[STAGES + 1];

			run("/proc/self/exe", argv[2], argv[3], argv[5 + folder], took, STAGES * sizeof *took);
			run(argv[4], argv[2], argv[3], argv[5 + folder], &took[EMPTY], sizeof *took);
			for (int stage = 0; stage <= STAGES && round >= 0; stage++)
				spent[folder][stage][round] = took[stage];
		}
	for (int folder = 0; folder < folders; folder++) {
		for (int stage = 0; stage <= STAGES; stage++)
			qsort(spent[folder][stage], rounds, sizeof(uint64_t), by_size);
		for (int stage = 0; stage < STAGES; stage++) {
			uint64_t *took = spent[folder][stage], *empty = spent[folder][EMPTY];

			printf("%d\tstart to %s\t%.1f\t%.1f\n", folder, names[stage], took[0] / 1e3, took[rounds / 2] / 1e3);
			printf("%d\t%s, beyond an empty process\t%.1f\t%.1f\n", folder, names[stage], (took[0] - empty[0]) / 1e3,
			       (took[rounds / 2] - empty[rounds / 2]) / 1e3);
		}
	}
	return 0;
}
