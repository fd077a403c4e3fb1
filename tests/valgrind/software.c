/*
 * software.c - two processes on the software device under memcheck with its defaults: messages of several sizes, remote memory,
 * a channel, queues made until the memory that the other side has mapped has grown. Both exit with everything open. Each
 * prints one line; ends with 1 where something failed or this does not run on valgrind.
 */
#include <valgrind/memcheck.h>
#include "../soft/peer.h"

#define QUEUES 40 /* after which more memory is shared than at first */

static void receive_all(struct endpoint *e, int socket)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	for (int i = 0; i < 3; i++)
		if (post_recv(e, i, 8192 * (size_t)i, 8192))
			fail("a receive");
	if (ibv_req_notify_cq(e->recv_cq, 0) || !meet(socket) || ibv_get_cq_event(e->channel, &cq, &context) || cq != e->recv_cq)
		fail("no event");
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < 3; i++)
		if (!next_wc(e->recv_cq, &wc) || wc.status || wc.wr_id != (uint64_t)i)
			fail("receive %d: status %d", i, wc.status);
}

static void send_all(struct endpoint *e, int socket, const struct peer *other)
{
	static const uint32_t lengths[] = {5, 300, 8192};
	static const enum ibv_wr_opcode remote[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_wc wc;

	if (!meet(socket))
		fail("no receiver");
	for (int i = 0; i < 3; i++)
		if (post_send(e, i, 0, lengths[i]) || !next_wc(e->send_cq, &wc) || wc.status)
			fail("send %d: status %d", i, wc.status);
	for (int i = 0; i < 3; i++) {
		struct ibv_sge sge = {(uintptr_t)e->buffer, 8, e->mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = remote[i], .send_flags = IBV_SEND_SIGNALED}, *bad;

		if (remote[i] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = other->address;
			wr.wr.atomic.rkey = other->rkey;
		} else {
			wr.wr.rdma.remote_addr = other->address;
			wr.wr.rdma.rkey = other->rkey;
		}
		if (ibv_post_send(e->qp, &wr, &bad) || !next_wc(e->send_cq, &wc) || wc.status)
			fail("operation %d: status %d", i, wc.status);
	}
}

static int side(int socket, bool sends)
{
	struct endpoint e = {.with_channel = true}, more[QUEUES] = {0};
	struct peer own, other;

	endpoint_open(&e, "rxe0");
	memset(e.buffer, 7, e.length);
	for (int round = 0; round < 2; round++) {
		own = (struct peer){e.gid, {e.qp->qp_num}, (uintptr_t)e.buffer, e.mr->rkey};
		if (!swap(socket, &own, &other, sizeof(own)))
			fail("the other side is gone");
		ready(&e, &other.gid, other.qp_num[0]);
		if (sends)
			send_all(&e, socket, &other);
		else
			receive_all(&e, socket);
		if (!meet(socket))
			fail("the other side is gone");
		/* The last of many is the one that goes on. */
		for (int i = 0; round == 0 && i < QUEUES; i++) {
			more[i] = (struct endpoint){.with_channel = true, .cqe = 4096};
			endpoint_open_on(&more[i], e.context, e.pd);
		}
		e = more[QUEUES - 1];
	}
	printf("%s on valgrind: %d\n", sends ? "sender" : "receiver", RUNNING_ON_VALGRIND);
	return !RUNNING_ON_VALGRIND;
}

int main(void)
{
	int sockets[2], status, failed;
	pid_t pid;

	alarm(HANG_S);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socketpair");
	pid = fork();
	if (pid == 0)
		return side(sockets[1], true);
	failed = side(sockets[0], false);
	return waitpid(pid, &status, 0) != pid || status || failed;
}
