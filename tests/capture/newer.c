/*
 * newer.c - requests of XRC, flushes and atomic writes. Says of each packet that it causes what tests/capture/check.py must
 * find in the capture, in order: opcode, number, headers, how many bytes of payload and the first of them.
 */
#include "../../ctest/setup.h"

#define FIRST_PSN 100
#define MTU 1024

enum { FETCHED = 0x1122334455667788 };

static struct endpoint a, b;
static struct ibv_qp *sender;
static struct ibv_srq *shared;
static struct ibv_cq *receives;
static uint32_t shared_number, psn = FIRST_PSN, msn;
static int base; /* of opcodes: 0 of RC, 0xa0 of XRC */

static void say_payload(const void *payload, size_t length)
{
	const unsigned char *bytes = payload;

	printf(" payload %zu ", length);
	for (size_t i = 0; i < length && i < 8; i++)
		printf("%02x", bytes[i]);
	putchar('\n');
}

static void say_ask(int opcode, uint32_t number)
{
	printf("%02x psn %u", base + opcode, number);
	if (base)
		printf(" srq %u", shared_number);
}

static void say_memory(uint32_t length)
{
	printf(" at %llx key %x length %u", (unsigned long long)(uintptr_t)b.buffer, b.mr->rkey, length);
}

static void say_answer(int opcode, uint32_t number, int syndrome)
{
	printf("%02x psn %u answer %02x %u", base + opcode, number, syndrome, msn);
}

static void say_done(int opcode)
{
	msn++;
	say_answer(opcode, psn, 0x1f);
	if (opcode == 0x12)
		printf(" found %llx", (unsigned long long)FETCHED);
}

static void post(struct ibv_send_wr *wr, size_t length, enum ibv_wc_status status)
{
	struct ibv_sge sge = {(uintptr_t)a.buffer, length, a.mr->lkey};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->sg_list = &sge;
	wr->num_sge = length > 0;
	wr->send_flags |= IBV_SEND_SIGNALED;
	if (base)
		wr->qp_type.xrc.remote_srqn = shared_number;
	if (ibv_post_send(sender, wr, &bad) || !next_wc(a.send_cq, &wc) || wc.status != status)
		die("operation %d", wr->opcode);
	fflush(stdout);
}

/* A request about the peer's memory of one packet, which is answered by one: their opcodes, and how many bytes it brings. */
static void remote(enum ibv_wr_opcode operation, int opcode, size_t length, size_t payload, int answer)
{
	struct ibv_send_wr wr = {.opcode = operation, .wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey}};

	say_ask(opcode, psn);
	if (operation == IBV_WR_FLUSH)
		printf(" flush 1 0");
	say_memory(length);
	say_payload(a.buffer, payload);
	post(&wr, length, IBV_WC_SUCCESS);
	say_done(answer);
	say_payload(b.buffer, operation == IBV_WR_RDMA_READ ? length : 0);
	psn++;
}

static void atomic(enum ibv_wr_opcode operation, int opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = {.opcode = operation,
				 .wr.atomic = {(uintptr_t)b.buffer, compare_add, swap, b.mr->rkey}};
	bool swaps = operation == IBV_WR_ATOMIC_CMP_AND_SWP;
	uint64_t found = FETCHED;

	memcpy(b.buffer, &found, sizeof(found));
	say_ask(opcode, psn);
	printf(" at %llx key %x operands %llx %llx", (unsigned long long)(uintptr_t)b.buffer, b.mr->rkey,
	       (unsigned long long)(swaps ? swap : compare_add), (unsigned long long)(swaps ? compare_add : 0));
	say_payload(NULL, 0);
	post(&wr, sizeof(found), IBV_WC_SUCCESS);
	say_done(0x12);
	say_payload(NULL, 0);
	psn++;
}

/* An atomic write by a key that is none: refused, and the connection is over. */
static void refused(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_WRITE, .wr.rdma = {(uintptr_t)b.buffer, 0x123400}};

	say_ask(0x1d, psn);
	printf(" at %llx key 123400 length 8", (unsigned long long)(uintptr_t)b.buffer);
	say_payload(a.buffer, 8);
	post(&wr, 8, IBV_WC_REM_ACCESS_ERR);
	say_answer(0x11, psn, 0x62);
	say_payload(NULL, 0);
}

static void newer(void)
{
	pattern(a.buffer, 8, 3);
	remote(IBV_WR_ATOMIC_WRITE, 0x1d, 8, 8, 0x10);
	remote(IBV_WR_FLUSH, 0x1c, 0, 0, 0x10);
}

static void receive(int requests)
{
	struct ibv_sge sge = {(uintptr_t)b.buffer, 4096, b.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	while (requests--)
		if (ibv_post_srq_recv(shared, &wr, &bad))
			die("receive request");
}

static void received(void)
{
	struct ibv_wc wc;

	if (!next_wc(receives, &wc) || wc.status)
		die("receive");
}

static void open_shared(void)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					    .fd = -1,
					    .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(b.context, &domain);
	struct ibv_srq_init_attr_ex queue = {.attr = {16, 1, 0},
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
							  IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
					     .srq_type = IBV_SRQT_XRC,
					     .pd = b.pd,
					     .xrcd = xrcd,
					     .cq = receives = ibv_create_cq(b.context, 16, NULL, NULL, 0)};
	struct ibv_qp_init_attr_ex from = {.send_cq = a.send_cq,
					   .cap = {8, 0, 1, 0, 0},
					   .qp_type = IBV_QPT_XRC_SEND,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = a.pd};
	struct ibv_qp_init_attr_ex to = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct endpoint sends = a, takes = b;

	if (!xrcd || !receives || !(shared = ibv_create_srq_ex(b.context, &queue)) ||
	    ibv_get_srq_num(shared, &shared_number))
		die("shared receive queue: %s", errno_name(errno));
	sends.qp = ibv_create_qp_ex(a.context, &from);
	takes.qp = ibv_create_qp_ex(b.context, &to);
	if (!sends.qp || !takes.qp)
		die("XRC: %s", errno_name(errno));
	connect_pair(&sends, &takes);
	sender = sends.qp;
	base = 0xa0;
	psn = FIRST_PSN;
	msn = 0;
}

static void send_to_shared(enum ibv_wr_opcode operation, int opcode, size_t length)
{
	bool has_imm = operation == IBV_WR_SEND_WITH_IMM;
	struct ibv_send_wr wr = {.opcode = operation, .imm_data = htonl(0x01020304)};

	say_ask(opcode, psn);
	if (has_imm)
		printf(" imm 01020304");
	say_payload(a.buffer, length);
	post(&wr, length, IBV_WC_SUCCESS);
	received();
	say_done(0x11);
	say_payload(NULL, 0);
	psn++;
}

static void write_with_imm(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htonl(0x0a0b0c0d),
				 .wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey}};
	size_t length = 2 * MTU + 5;

	for (int nth = 0; nth < 3; nth++) {
		say_ask((int[]){6, 7, 9}[nth], psn + nth);
		if (nth == 0)
			say_memory(length);
		if (nth == 2)
			printf(" imm 0a0b0c0d");
		say_payload(a.buffer + nth * MTU, nth < 2 ? MTU : 5);
	}
	post(&wr, length, IBV_WC_SUCCESS);
	received();
	psn += 2;
	say_done(0x11);
	say_payload(NULL, 0);
	psn++;
}

int main(void)
{
	/* Regions of the device have no right to be flushed, which a flush of no bytes does not need. */
	b.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL;
	open_pair(&a, &b, "rxe0", "rxe1");
	sender = a.qp;
	newer();
	refused();

	open_shared();
	pattern(a.buffer, 4096, 7);
	receive(4);
	send_to_shared(IBV_WR_SEND, 4, 11);
	send_to_shared(IBV_WR_SEND_WITH_IMM, 5, 8);
	write_with_imm();
	remote(IBV_WR_RDMA_WRITE, 0x0a, 40, 40, 0x11);
	pattern(b.buffer, 4096, 9);
	remote(IBV_WR_RDMA_READ, 0x0c, 100, 0, 0x10);
	atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0x13, FETCHED, 2);
	atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x14, 5, 0);
	newer();
	refused();
	return 0;
}
