/*
 * Small programs with defects that no ordinary run shows, and without them.
 *
 *   defects status|memory|lost|order [repaired]
 *
 * status  counts completions and does not look at their status: it says that all was written when it was not
 * memory  does not look whether a registration succeeded
 * lost    waits for a datagram for ever
 * order   takes datagrams to come in the order in which they were sent
 *
 * Exit status 0: done; 1: it failed, and says so; 3: it says that it is done, and is not.
 */
#include <string.h>
#include <time.h>

#include "pair.h"

enum { SIZE = 2000, GRH = 40 };

static char source[COUNT][SIZE], target[COUNT][SIZE + GRH];

static int written(bool checks_status, bool checks_memory)
{
	struct ibv_mr *from = registered(source, sizeof source, checks_memory);
	struct ibv_mr *to = registered(target, sizeof target, checks_memory);
	struct ibv_qp *a = make(IBV_QPT_RC), *b = make(IBV_QPT_RC);
	int done = 0;

	bring_up(a, b->qp_num, false);
	bring_up(b, a->qp_num, false);
	for (int i = 0; i < COUNT; i++) {
		memset(source[i], i + 1, SIZE);
		struct ibv_sge piece = {(uintptr_t)source[i], SIZE, from->lkey};
		struct ibv_send_wr wr = {.wr_id = i, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {(uintptr_t)target[i], to->rkey}}, *bad;

		if (ibv_post_send(a, &wr, &bad))
			fail("ibv_post_send");
	}
	while (done < COUNT) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) < 1)
			continue;
		if (checks_status && wc.status != IBV_WC_SUCCESS) {
			printf("write %d: %s\n", (int)wc.wr_id + 1, ibv_wc_status_str(wc.status));
			return 1;
		}
		done++;
	}
	printf("all written\n");
	for (int i = 0; i < COUNT; i++)
		if (memcmp(source[i], target[i], SIZE))
			return 3;
	return 0;
}

static bool polled(double seconds)
{
	struct timespec begin, now;
	struct ibv_wc wc;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		if (ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (seconds == 0 || now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return false;
}

static int lost(bool repeats)
{
	struct ibv_mr *from = registered(source, sizeof source, true), *to = registered(target, sizeof target, true);
	struct ibv_qp *qp = make(IBV_QPT_UD);
	struct ibv_ah_attr address = own_address();
	struct ibv_ah *ah = ibv_create_ah(pd, &address);

	if (!ah)
		fail("ibv_create_ah");
	bring_up(qp, 0, true);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge there = {(uintptr_t)target[i], SIZE + GRH, to->lkey}, here = {(uintptr_t)source[i], SIZE, from->lkey};
		struct ibv_recv_wr receive = {.sg_list = &there, .num_sge = 1}, *bad_receive;
		struct ibv_send_wr wr = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND,
					 .wr.ud = {ah, qp->qp_num, 1}}, *bad;

		if (ibv_post_recv(qp, &receive, &bad_receive))
			fail("ibv_post_recv");
		do
			if (ibv_post_send(qp, &wr, &bad))
				fail("ibv_post_send");
		while (!polled(repeats ? 0.05 : 0));
	}
	printf("all came\n");
	return 0;
}

static int in_order(bool looks_at_number)
{
	struct ibv_mr *from = registered(source, sizeof source, true), *to = registered(target, sizeof target, true);
	struct ibv_qp *qp = make(IBV_QPT_UD);
	struct ibv_ah_attr address = own_address();
	struct ibv_ah *ah = ibv_create_ah(pd, &address);
	int came = 0;

	if (!ah)
		fail("ibv_create_ah");
	bring_up(qp, 0, true);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge there = {(uintptr_t)target[i], SIZE + GRH, to->lkey};
		struct ibv_recv_wr receive = {.wr_id = i, .sg_list = &there, .num_sge = 1}, *bad;

		if (ibv_post_recv(qp, &receive, &bad))
			fail("ibv_post_recv");
	}
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge here = {(uintptr_t)source[i], SIZE, from->lkey};
		struct ibv_send_wr wr = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = i,
					 .wr.ud = {ah, qp->qp_num, 1}}, *bad;

		memset(source[i], i + 1, SIZE);
		if (ibv_post_send(qp, &wr, &bad))
			fail("ibv_post_send");
	}
	while (came < COUNT) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) < 1 || wc.opcode != IBV_WC_RECV)
			continue;
		if (memcmp(target[wc.wr_id] + GRH, source[looks_at_number ? (int)wc.imm_data : came], SIZE)) {
			printf("message %d is another one\n", came + 1);
			return 3;
		}
		came++;
	}
	printf("all came\n");
	return 0;
}

int main(int argc, char **argv)
{
	bool is_repaired = argc > 2;

	if (argc < 2)
		fail("the call");
	open_device();
	if (!strcmp(argv[1], "lost"))
		return lost(is_repaired);
	if (!strcmp(argv[1], "order"))
		return in_order(is_repaired);
	return written(strcmp(argv[1], "status") || is_repaired, strcmp(argv[1], "memory") || is_repaired);
}
