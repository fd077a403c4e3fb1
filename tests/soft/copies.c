/*
 * copies.c - a process with two copies of the library, each with a device of its own: they are two ends as any other two.
 *
 * Both talk to each other, and a third process talks to the first copy all the time, while the second copy comes and goes:
 * to the kernel, who keeps one book of record locks for the process, each must stay alive as long as it is there, and
 * descriptors do not pile up.
 *
 *   copies                the program; built with -DCOPY as the shared object copy.so, it brings the second copy in
 */
#include "peer.h"

#ifdef COPY
/* Bound to the library of the namespace that this object was loaded into. The data path is in the context's table. */
void copy_open(struct endpoint *e, const char *device);
void copy_open(struct endpoint *e, const char *device)
{
	endpoint_open(e, device);
}

void copy_ready(struct endpoint *e, const union ibv_gid *gid, uint32_t qp_num);
void copy_ready(struct endpoint *e, const union ibv_gid *gid, uint32_t qp_num)
{
	ready(e, gid, qp_num);
}

void copy_close(struct endpoint *e);
void copy_close(struct endpoint *e)
{
	endpoint_close(e);
}

#else
#include <dirent.h>
#include <dlfcn.h>

#define LENGTH 5000
#define ROUNDS 5
/* Descriptors that may stay per process whatever the number of rounds. */
#define FEW 24

static int failed;

static bool message(struct endpoint *from, struct endpoint *to)
{
	struct ibv_wc sent = {0}, received = {0};

	pattern(from->buffer, LENGTH, 7);
	memset(to->buffer + 8192, 0, LENGTH);
	return !post_recv(to, 1, 8192, 8192) && !post_send(from, 2, 0, LENGTH) && next_wc(from->send_cq, &sent) &&
	       !sent.status && next_wc(to->recv_cq, &received) && !received.status &&
	       !memcmp(from->buffer, to->buffer + 8192, LENGTH);
}

static void check(bool good, const char *what, int round)
{
	if (good)
		return;
	printf("FAIL %s, round %d\n", what, round);
	failed++;
}

/* Beyond the time for which the library believes what it knows of a peer. */
static void let_time_pass(void)
{
	usleep(150000);
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (folder && readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* The third process: answers each message of the first copy with one. */
static void third(int socket)
{
	struct endpoint e = {0};
	struct peer own, others;
	struct ibv_wc wc;
	char go;

	endpoint_open(&e, "rxe0");
	own = (struct peer){.gid = e.gid, .qp_num = {e.qp->qp_num}};
	if (!swap(socket, &own, &others, sizeof(own)))
		_exit(1);
	ready(&e, &others.gid, others.qp_num[0]);
	while (recv(socket, &go, 1, MSG_WAITALL) == 1 && go == 'g') {
		bool good = !post_send(&e, 2, 0, LENGTH) && next_wc(e.send_cq, &wc) && !wc.status;
		char answer = good ? 'y' : 'n';
		if (send(socket, &answer, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	endpoint_close(&e);
	_exit(0);
}

int main(void)
{
	struct endpoint first = {0}, with_third = {0};
	struct peer own, others;
	int sockets[2], before = 0;
	void (*copy_open)(struct endpoint *, const char *), (*copy_close)(struct endpoint *);
	void (*copy_ready)(struct endpoint *, const union ibv_gid *, uint32_t);
	void *copy;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	pid = fork();
	close(sockets[!pid]);
	if (!pid)
		third(sockets[0]);

	copy = dlmopen(LM_ID_NEWLM, "copy.so", RTLD_NOW);
	if (!copy)
		fail("no second copy: %s", dlerror());
	*(void **)&copy_open = dlsym(copy, "copy_open");
	*(void **)&copy_ready = dlsym(copy, "copy_ready");
	*(void **)&copy_close = dlsym(copy, "copy_close");
	if (dlsym(copy, "ibv_open_device") == dlsym(RTLD_DEFAULT, "ibv_open_device"))
		fail("the second copy is the first one");

	endpoint_open(&first, "rxe0");
	endpoint_open(&with_third, "rxe0");
	own = (struct peer){.gid = with_third.gid, .qp_num = {with_third.qp->qp_num}};
	if (!swap(sockets[1], &own, &others, sizeof(own)))
		fail("the third process is gone");
	ready(&with_third, &others.gid, others.qp_num[0]);
	for (int round = 0; round < ROUNDS; round++) {
		struct endpoint second = {0};
		struct ibv_wc wc = {0};
		char answer = 'n';

		copy_open(&second, "rxe0");
		ready(&first, &second.gid, second.qp->qp_num);
		copy_ready(&second, &first.gid, first.qp->qp_num);
		for (int again = 0; again < 2; again++) {
			check(message(&first, &second), "a message to the second copy", round);
			check(message(&second, &first), "a message to the first copy", round);
			let_time_pass();
		}
		copy_close(&second);
		let_time_pass();
		check(!post_recv(&with_third, 1, 8192, 8192) && send(sockets[1], "g", 1, MSG_NOSIGNAL) == 1 &&
			      recv(sockets[1], &answer, 1, MSG_WAITALL) == 1 && answer == 'y' &&
			      next_wc(with_third.recv_cq, &wc) && !wc.status,
		      "a message from the third process to the first copy", round);
		if (failed)
			break;
		if (ibv_modify_qp(first.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE))
			fail("reset");
		if (round == 1)
			before = descriptors();
	}
	if (!failed && descriptors() > before + FEW) {
		printf("FAIL %d descriptors became %d\n", before, descriptors());
		failed++;
	}
	if (send(sockets[1], "e", 1, MSG_NOSIGNAL) != 1)
		failed++;
	waitpid(pid, NULL, 0);
	endpoint_close(&with_third);
	endpoint_close(&first);
	puts(failed ? "copies: failed" : "copies: all rounds");
	return failed != 0;
}
#endif
