/*
 * forked.c - a process that forks while its device is open.
 *
 * The parent's queue pairs work on whatever the child does: ends at once, by exit handlers or without; closes what it
 * inherited; opens a device of its own, which is another one, and talks to the parent; starts another program. A parent that
 * ends first leaves a working child.
 */
#include "peer.h"

static struct endpoint a, b;
static int failed;

/* A message from the parent to itself. */
static void works(const char *when)
{
	struct ibv_wc sent, received;

	pattern(a.buffer, 8192, (unsigned)strlen(when));
	memset(b.buffer, 0, 8192);
	if (post_recv(&b, 1, 0, 8192) || post_send(&a, 2, 0, 8192) || !next_wc(a.send_cq, &sent) || sent.status ||
	    !next_wc(b.recv_cq, &received) || received.status || memcmp(a.buffer, b.buffer, 8192)) {
		printf("FAIL %s: the parent's message did not arrive\n", when);
		failed++;
	}
}

static void ended(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status) {
		printf("FAIL %s: the child ended with %#x\n", what, status);
		failed++;
	}
	works(what);
}

/* Sends one message each way between two processes that have a device each. */
static void talk(int socket, struct endpoint *e)
{
	struct peer own = {.gid = e->gid, .qp_num = {e->qp->qp_num}}, others;
	struct ibv_wc wc;

	if (!swap(socket, &own, &others, sizeof(own)))
		fail("the peer is gone");
	ready(e, &others.gid, others.qp_num[0]);
	pattern(e->buffer, 5000, 3);
	if (post_recv(e, 1, 8192, 8192) || !meet(socket))
		fail("receive");
	if (post_send(e, 2, 0, 5000) || !next_wc(e->send_cq, &wc) || wc.status || !next_wc(e->recv_cq, &wc) || wc.status ||
	    memcmp(e->buffer, e->buffer + 8192, 5000))
		fail("messages between parent and child");
	meet(socket);
}

static void child_with_a_device(void)
{
	struct endpoint here = {0};
	int sockets[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	fflush(stdout);
	pid = fork();
	close(sockets[!pid]);
	endpoint_open(&here, "rxe0");
	talk(sockets[!!pid], &here);
	endpoint_close(&here);
	if (!pid)
		_exit(0);
	close(sockets[1]);
	ended("a child with a device of its own", pid);
}

/* The parent ends while the child has its own device open; its own child is who talks to it then. */
static void orphan(void)
{
	int sockets[2], status;
	pid_t pid, parent;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct endpoint e = {0};

		endpoint_open(&e, "rxe0");
		parent = getpid();
		if (fork() == 0) {
			struct endpoint own = {0};

			while (getppid() == parent)
				usleep(1000);
			endpoint_open(&own, "rxe0");
			ready(&own, &own.gid, own.qp->qp_num);
			if (post_recv(&own, 1, 0, 64) || post_send(&own, 2, 64, 64))
				fail("posting");
			struct ibv_wc wc;
			byte = next_wc(own.recv_cq, &wc) && !wc.status ? 'y' : 'n';
			endpoint_close(&own);
			if (write(sockets[1], &byte, 1) != 1)
				fail("write");
			_exit(0);
		}
		exit(0);
	}
	close(sockets[1]);
	waitpid(pid, &status, 0);
	works("a parent that ends first");
	if (read(sockets[0], &byte, 1) != 1 || byte != 'y') {
		printf("FAIL the orphan's message did not arrive\n");
		failed++;
	}
	close(sockets[0]);
}

int main(void)
{
	pid_t pid;

	alarm(HANG_S);
	open_pair(&a, &b, "rxe0", "rxe0");
	works("before");
	if (!(pid = fork()))
		_exit(0);
	ended("a child that ends without exit handlers", pid);
	fflush(stdout);
	if (!(pid = fork()))
		exit(0);
	ended("a child that ends with exit handlers", pid);
	if (!(pid = fork())) {
		struct ibv_wc wc;

		/* Not promised to work, and nothing that the parent may notice. */
		ibv_poll_cq(a.send_cq, 1, &wc);
		ibv_destroy_qp(a.qp);
		ibv_dereg_mr(a.mr);
		ibv_close_device(a.context);
		_exit(0);
	}
	ended("a child that closes what it inherited", pid);
	if (!(pid = fork())) {
		execlp("ibv_devinfo", "ibv_devinfo", "-l", NULL);
		_exit(1);
	}
	ended("a child that starts a program", pid);
	for (int i = 0; i < 3; i++)
		child_with_a_device();
	orphan();
	endpoint_close(&a);
	endpoint_close(&b);
	printf("%d failed\n", failed);
	return failed != 0;
}
