/*
 * threads.c - the library's own threads have had the allocator map what it keeps for them when the call returns that
 * starts them. UCX and libfabric write over the C library's munmap after it, and a thread that is within munmap
 * just then executes half an instruction.
 */
#include <dirent.h>
#include <malloc.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "../../ctest/setup.h"
#include "../asleep.h"

static int checks, failed;

/* Parts of the allocator, one for each thread that has allocated, up to a limit far above what is here. */
static int parts(void)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);
	int count = 0;

	if (!stream || malloc_info(0, stream) || fclose(stream))
		die("malloc_info");
	for (const char *at = text; (at = strstr(at, "<heap nr=")); at++)
		count++;
	free(text);
	return count;
}

static int is_any(long call)
{
	return call >= 0;
}

/* How often the library's threads have gone to sleep; -1 while one of them does not sleep. */
static long sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long count = 0;

	while (tasks && (entry = readdir(tasks))) {
		pid_t task = atoi(entry->d_name);
		char status[4096], *line;

		if (!task || task == getpid())
			continue;
		line = task_line(task, "status", status, sizeof(status)) > 0 ? strstr(status, "\nvoluntary_ctxt_switches:") : NULL;
		if (!line || !is_asleep(task, is_any)) {
			count = -1;
			break;
		}
		count += atol(strchr(line, ':') + 1);
	}
	if (!tasks)
		die("no tasks");
	closedir(tasks);
	return count;
}

/* Nothing is mapped later that a call has begun: when its threads sleep, and have done so this often. */
static void check(const char *call, long often)
{
	int now = parts(), later;

	usleep(100000);
	while (sleeps() < often)
		usleep(1000);
	later = parts();
	checks++;
	if (now != later) {
		failed++;
		printf("FAIL %s: %d parts of the allocator, %d later\n", call, now, later);
	}
}

int main(void)
{
	cpu_set_t one;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	static char memory[4096];
	struct endpoint end = {.type = IBV_QPT_RC};
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	union ibv_gid gid;
	int before = parts();

	alarm(280); /* ends a hang */
	/* On one processor a new thread does not run until its creator waits. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("one processor: %s", errno_name(errno));
	context = open_device("rxe0");
	check("open", 0);
	pd = ibv_alloc_pd(context);
	/* The first region starts the thread that copies where the kernel does not: in that one programs died. */
	if (!pd || !ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE))
		die("region: %s", errno_name(errno));
	check("registering", 0);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	if (!cq || ibv_query_gid(context, PORT, GID_INDEX, &gid))
		die("objects");
	end.qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC});
	if (!end.qp)
		die("queue pair");
	ready(&end, &gid, end.qp->qp_num);
	check("connecting", 0);
	/* Nothing is there to receive it: it waits, and a thread tries it again. */
	if (ibv_post_send(end.qp, &wr, &bad))
		die("post");
	check("a request that waits", 20);
	if (parts() == before) {
		printf("FAIL no thread has allocated\n");
		return 1;
	}
	printf("%d checks, %d failed\n", checks, failed);
	return failed != 0;
}
