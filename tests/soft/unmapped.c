/*
 * unmapped.c - a process takes memory away that others have a key for.
 *
 * RDMA write, read and atomics on registered memory that its owner has unmapped: IBV_WC_REM_ACCESS_ERR for the initiator,
 * whether all of the memory is missing or a page in the middle, and whether it went before or while the writes run; and a
 * send to a receive buffer that is gone. Nobody crashes, and what lies beside stays as it was. An atomic operation whose answer
 * goes to such memory is a fault of its initiator's; a program that goes on after it has not kept the peer's queue pair.
 */
#include <setjmp.h>

#include "peer.h"

#define PAGE 4096
#define LENGTH (64 * PAGE)
#define UNDER_WAY 3 /* memory goes during this write or a later one */

static struct endpoint e;
static struct peer peer;
static int failed;

static void check(bool right, const char *what, const struct ibv_wc *wc)
{
	printf("%s: %s\n", what, ibv_wc_status_str(wc->status));
	if (!right) {
		printf("FAIL %s\n", what);
		failed++;
	}
}

static bool post(enum ibv_wr_opcode opcode, uint64_t offset, uint32_t length, struct ibv_wc *wc)
{
	struct ibv_sge sge = {(uintptr_t)e.buffer, length, e.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer.address + offset;
		wr.wr.atomic.rkey = peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = peer.address + offset;
		wr.wr.rdma.rkey = peer.rkey;
	}
	if (ibv_post_send(e.qp, &wr, &bad))
		fail("posting");
	return next_wc(e.send_cq, wc);
}

/* Both sides from RESET to RTS again. */
static void connect_again(int socket)
{
	struct ibv_wc wc;

	if (!meet(socket) || modify_to_reset(e.qp))
		fail("reset");
	while (ibv_poll_cq(e.send_cq, 1, &wc) > 0 || ibv_poll_cq(e.recv_cq, 1, &wc) > 0)
		;
	if (!meet(socket))
		fail("the peer is gone");
	ready(&e, &peer.gid, peer.qp_num[0]);
	if (!meet(socket))
		fail("the peer is gone");
}

static void initiator(int socket)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *name;
		uint64_t offset;
		uint32_t length;
	} cases[] = {
		{IBV_WR_RDMA_WRITE, "write of 8 bytes", 8 * PAGE, 8},
		{IBV_WR_RDMA_WRITE, "write across the gap", 4 * PAGE, 8 * PAGE},
		{IBV_WR_RDMA_WRITE_WITH_IMM, "write with immediate", 8 * PAGE, 64},
		{IBV_WR_RDMA_READ, "read of 8 bytes", 8 * PAGE, 8},
		{IBV_WR_RDMA_READ, "read across the gap", 4 * PAGE, 8 * PAGE},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch and add", 8 * PAGE, 8},
	};
	struct ibv_wc wc;
	uint64_t writes = 0;

	check(post(IBV_WR_RDMA_WRITE, 0, 4 * PAGE, &wc) && wc.status == IBV_WC_SUCCESS, "write before", &wc);
	meet(socket); /* pages 8 to 11 go */
	meet(socket);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		check(post(cases[i].opcode, cases[i].offset, cases[i].length, &wc) && wc.status == IBV_WC_REM_ACCESS_ERR, cases[i].name,
		      &wc);
		connect_again(socket);
		check(post(IBV_WR_RDMA_WRITE, 0, 4 * PAGE, &wc) && wc.status == IBV_WC_SUCCESS, "write beside", &wc);
		meet(socket);
	}

	/* All of it goes while writes run. */
	meet(socket);
	for (;; writes++) {
		if (writes < UNDER_WAY)
			e.buffer[0] = (unsigned char)(writes + 1);
		if (!post(IBV_WR_RDMA_WRITE, 16 * PAGE, 16 * PAGE, &wc) || wc.status != IBV_WC_SUCCESS)
			break;
	}
	check(wc.status == IBV_WC_REM_ACCESS_ERR && writes >= UNDER_WAY - 1, "write while memory goes", &wc);
	connect_again(socket);

	/* A buffer that waits for a message. */
	meet(socket);
	check(post(IBV_WR_SEND, 0, PAGE, &wc) && (wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR), "send", &wc);
	meet(socket);

	/* The peer's fault. */
	connect_again(socket);
	meet(socket);
	if (modify_to_reset(e.qp)) {
		printf("FAIL a peer that has gone on after its fault keeps this queue pair\n");
		failed++;
	}
	meet(socket);
}

static sigjmp_buf after_fault;

static void go_on(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* What the fault leaves of this process's own side is of no use to it. */
static void answer_to(unsigned char *gone, struct ibv_mr *mr, int socket)
{
	struct ibv_sge sge = {(uintptr_t)gone, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, *bad;

	wr.wr.atomic.remote_addr = peer.address;
	wr.wr.atomic.rkey = peer.rkey;
	if (!sigsetjmp(after_fault, 1)) {
		signal(SIGSEGV, go_on);
		(void)ibv_post_send(e.qp, &wr, &bad);
	}
	signal(SIGSEGV, SIG_DFL);
	meet(socket);
	meet(socket);
	_exit(failed != 0);
}

static void target(int socket, unsigned char *memory, struct ibv_mr *mr)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	meet(socket);
	munmap(memory + 8 * PAGE, 4 * PAGE);
	meet(socket);
	for (int i = 0; i < 6; i++) {
		if (i == 2) { /* a write with immediate takes a receive request */
			sge = (struct ibv_sge){(uintptr_t)e.buffer, 8, e.mr->lkey};
			ibv_post_recv(e.qp, &wr, &bad);
		}
		connect_again(socket);
		meet(socket);
	}
	meet(socket);
	while (*(volatile unsigned char *)(memory + 16 * PAGE) < UNDER_WAY)
		usleep(100);
	munmap(memory + 12 * PAGE, LENGTH - 12 * PAGE);
	connect_again(socket);
	sge = (struct ibv_sge){(uintptr_t)memory + 32 * PAGE, PAGE, mr->lkey};
	ibv_post_recv(e.qp, &wr, &bad);
	meet(socket);
	meet(socket);
	check(next_wc(e.recv_cq, &wc) && wc.status == IBV_WC_LOC_PROT_ERR, "receive", &wc);
	connect_again(socket);
	fflush(stdout);
	answer_to(memory + 32 * PAGE, mr, socket);
}

int main(void)
{
	int sockets[2], status;
	struct peer own = {0};
	unsigned char *memory;
	struct ibv_mr *mr;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	pid = fork();
	close(sockets[!pid]);
	alarm(HANG_S);
	endpoint_open(&e, "rxe0");
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(e.pd, memory, LENGTH,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr)
		fail("region");
	own.gid = e.gid;
	own.qp_num[0] = e.qp->qp_num;
	own.address = (uintptr_t)memory;
	own.rkey = mr->rkey;
	if (!swap(sockets[!!pid], &own, &peer, sizeof(own)))
		fail("the peer is gone");
	ready(&e, &peer.gid, peer.qp_num[0]);
	meet(sockets[!!pid]);
	if (!pid) {
		target(sockets[0], memory, mr);
	} else {
		initiator(sockets[1]);
		waitpid(pid, &status, 0);
		if (status) {
			printf("FAIL the target ended with status %#x\n", status);
			failed++;
		}
	}
	if (ibv_dereg_mr(mr))
		fail("deregistration");
	endpoint_close(&e);
	if (pid)
		printf("%d failed\n", failed);
	return failed ? 1 : 0;
}
