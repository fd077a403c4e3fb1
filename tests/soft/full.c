/*
 * full.c - the memory that the device lives in is used up.
 *
 * Run with little room for files (RLIMIT_FSIZE). Creating fails with ENOMEM, never by a signal; what exists works on; what
 * is destroyed makes room again. With the argument "none" there is no room at all, or the file system of
 * IRONVERBS_SOFT_DIR, or /dev/shm, is full: opening fails so.
 */
#include "../../ctest/setup.h"

#define MOST 4096

static struct endpoint a, b;

static void works(const char *when)
{
	struct ibv_wc wc;

	pattern(a.buffer, 4096, (unsigned)strlen(when));
	memset(b.buffer, 0, 4096);
	if (post_recv(&b, 1, 0, 4096) || post_send(&a, 2, 0, 4096))
		die("posting %s", when);
	if (!next_wc(a.send_cq, &wc) || wc.status || !next_wc(b.recv_cq, &wc) || wc.status)
		die("%s a message ended with status %d", when, wc.status);
	if (memcmp(a.buffer, b.buffer, 4096))
		die("%s a message was damaged", when);
}

int main(int argc, char **argv)
{
	static struct ibv_cq *cq[MOST];
	static struct ibv_qp *qp[MOST];
	int queues[2], pairs[2];
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (argc > 1 && !strcmp(argv[1], "none")) {
		struct ibv_context *context;

		errno = 0;
		context = list && list[0] ? ibv_open_device(list[0]) : NULL;
		printf("opening: %s, errno %s\n", context ? "object" : "NULL", errno_name(errno));
		return context || errno != ENOMEM;
	}
	open_pair(&a, &b, "rxe0", "rxe0");
	works("before");
	for (int round = 0; round < 2; round++) {
		struct ibv_qp_init_attr init = {.send_cq = a.send_cq, .recv_cq = a.recv_cq, .cap = {4, 256, 1, 4, 0},
						.qp_type = IBV_QPT_RC};
		int n = 0;

		while (n < MOST && (errno = 0, cq[n] = ibv_create_cq(a.context, 1000, NULL, NULL, 0)))
			n++;
		queues[round] = n;
		printf("%d completion queues, then errno %s\n", n, errno_name(errno));
		if (n == MOST || errno != ENOMEM)
			die("not full");
		works("with the completion queues");
		while (n)
			if (ibv_destroy_cq(cq[--n]))
				die("destroying a completion queue");

		while (n < MOST && (errno = 0, qp[n] = ibv_create_qp(a.pd, &init)))
			n++;
		pairs[round] = n;
		printf("%d queue pairs, then errno %s\n", n, errno_name(errno));
		if (n == MOST || errno != ENOMEM)
			die("not full");
		works("with the queue pairs");
		while (n)
			if (ibv_destroy_qp(qp[--n]))
				die("destroying a queue pair");
	}
	works("afterwards");
	/* Memory in pieces may cost something. */
	if (queues[1] < queues[0] * 9 / 10 || pairs[1] < pairs[0] * 9 / 10)
		die("what was destroyed made no room");
	endpoint_close(&a);
	endpoint_close(&b);
	ibv_free_device_list(list);
	printf("0 failed\n");
	return 0;
}
