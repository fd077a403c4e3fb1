/*
 * pairs.c - what a queue pair of the software device costs.
 *
 *   pairs idle SECONDS             processor time in ms of an opened device, a connected queue pair and an armed channel
 *   pairs memory COUNT SEND RECV   bytes for each connected RC queue pair with such queues, in both processes and what they share
 *   pairs connect COUNT            seconds until COUNT queue pairs of two processes are connected, from the first creation on
 */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "connections.h"

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Memory that is the process's own. */
static double anonymous(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss_Anon: %lf", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* What stands in the folders of /dev/shm, or of IRONVERBS_SOFT_DIR. */
static double shared_in(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char below[4096];
	struct stat s;
	double total = 0;

	while (folder && (entry = readdir(folder))) {
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] == '.' || lstat(below, &s))
			continue;
		total += S_ISDIR(s.st_mode) ? shared_in(below) : (double)s.st_blocks * 512;
	}
	if (folder)
		closedir(folder);
	return total;
}

static double shared(void)
{
	return shared_in(getenv("IRONVERBS_SOFT_DIR") ? getenv("IRONVERBS_SOFT_DIR") : "/dev/shm");
}

static void idle(int length)
{
	struct ibv_sge sge = {0};
	struct ibv_recv_wr wr = {.sg_list = &sge}, *bad;
	struct rusage before, after;
	double start;

	open_side(1024);
	create(1, 16, 16);
	connect_all(-1, 1);
	if (ibv_post_recv(pair[0].qp, &wr, &bad) || ibv_req_notify_cq(cq, 0))
		fail("arming");
	getrusage(RUSAGE_SELF, &before);
	start = seconds(CLOCK_PROCESS_CPUTIME_ID);
	readable(channel->fd, length * 1000);
	getrusage(RUSAGE_SELF, &after);
	printf("%.3f ms in %d s, woken %ld times\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e3, length,
	       after.ru_nvcsw - before.ru_nvcsw - 1);
}

int main(int argc, char **argv)
{
	int sockets[2], count = argc > 2 ? atoi(argv[2]) : 0, status;
	bool memory = argc > 1 && !strcmp(argv[1], "memory");
	double own, others, start;
	pid_t pid;

	if (count < 1 || count > MOST || (memory && argc < 5))
		fail("usage: pairs idle SECONDS | memory COUNT SEND RECV | connect COUNT");
	if (!strcmp(argv[1], "idle")) {
		idle(count);
		return 0;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	pid = fork();
	int s = sockets[!!pid];
	close(sockets[!pid]);
	open_side(1024);
	meet(s);
	if (memory) {
		create(1, 1, 1); /* what the first one brings along is not the second one's */
		connect_all(s, 1);
		own = -anonymous();
		start = shared();
		meet(s);
		create(count, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
		connect_all(s, count);
		own += anonymous();
		if (!swap(s, &own, &others, sizeof(own)))
			fail("the peer is gone");
		if (pid)
			printf("%.0f\n", (own + others + shared() - start) / 2 / count);
	} else {
		start = seconds(CLOCK_MONOTONIC);
		create(count, 16, 16);
		connect_all(s, count);
		if (pid)
			printf("%.3f\n", seconds(CLOCK_MONOTONIC) - start);
	}
	meet(s);
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	return status != 0;
}
