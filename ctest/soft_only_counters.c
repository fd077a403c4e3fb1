/*
 * soft_only_counters.c - completion counters of the software device.
 *
 * Proves: what is counted, in requests and in bytes, of own requests and of receives, signaled or not, polled or not;
 * what failed and was flushed; a counter of several queue pairs, and several counters of one; that completions come all
 * the same; and each refusal, which changes nothing. Declared here, since the headers of rdma-core 44 do not.
 */
#include "setup.h"

#ifndef IBV_DEVICE_CC_DMA_BOUNCE /* headers older than those of rdma-core 65 */
struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters, supported_qp_attach_ops;
};
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask, type, flags;
};
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask, op_mask;
};
enum { IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES };
enum {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 8,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 16,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 32,
};
int _ibv_query_comp_cntr_caps(struct ibv_context *, struct ibv_comp_cntr_caps *, size_t);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *, struct ibv_comp_cntr_init_attr *);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *);
int ibv_set_comp_cntr(struct ibv_comp_cntr *, uint64_t);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *, uint64_t);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *, uint64_t);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *, uint64_t);
int ibv_read_comp_cntr(struct ibv_comp_cntr *, uint64_t *);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *, uint64_t *);
int ibv_qp_attach_comp_cntr(struct ibv_qp *, struct ibv_comp_cntr *, struct ibv_qp_attach_comp_cntr_attr *);
#endif

/* The library that programs are linked with has none of them. */
#pragma weak _ibv_query_comp_cntr_caps
#pragma weak ibv_create_comp_cntr
#pragma weak ibv_destroy_comp_cntr
#pragma weak ibv_set_comp_cntr
#pragma weak ibv_set_err_comp_cntr
#pragma weak ibv_inc_comp_cntr
#pragma weak ibv_inc_err_comp_cntr
#pragma weak ibv_read_comp_cntr
#pragma weak ibv_read_err_comp_cntr
#pragma weak ibv_qp_attach_comp_cntr

#define SEND IBV_QP_ATTACH_COMP_CNTR_OP_SEND
#define RECV IBV_QP_ATTACH_COMP_CNTR_OP_RECV
#define READ IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
#define WRITE IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE

static void show(const char *what, struct ibv_comp_cntr *counter)
{
	uint64_t done = 77, failed = 77;
	int first = ibv_read_comp_cntr(counter, &done), second = ibv_read_err_comp_cntr(counter, &failed);

	transcript_calls += 2;
	printf("    %s: %d %" PRIu64 ", %d %" PRIu64 " failed\n", what, first, done, second, failed);
}

static struct ibv_comp_cntr *counter(struct ibv_context *c, int type)
{
	struct ibv_comp_cntr_init_attr attr = {.type = type};
	struct ibv_comp_cntr *made = ibv_create_comp_cntr(c, &attr);

	if (!made)
		die("counter: %s", errno_name(errno));
	return made;
}

static int attach(struct endpoint *e, struct ibv_comp_cntr *counter, uint32_t operations)
{
	struct ibv_qp_attach_comp_cntr_attr attr = {.op_mask = operations};

	return ibv_qp_attach_comp_cntr(e->qp, counter, &attr);
}

static int post(struct endpoint *e, enum ibv_wr_opcode opcode, uint32_t length, struct endpoint *to, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, length, e->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buffer;
		wr.wr.atomic.rkey = to->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buffer + 32768;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

static int polled(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count = 0;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		count++;
	return count;
}

static void numbers(struct ibv_context *c)
{
	struct ibv_comp_cntr *counter;
	struct ibv_comp_cntr_init_attr attr = {0};
	struct ibv_comp_cntr_caps caps;
	uint64_t value = 77;

	note("numbers");
	FILL(caps);
	CALL_INT(_ibv_query_comp_cntr_caps(c, &caps, sizeof(caps)));
	CHECK(caps.max_value == UINT64_MAX && caps.max_counters > 1000);
	CHECK(caps.supported_qp_attach_ops == (SEND | RECV | READ | WRITE));
	CALL_INT(_ibv_query_comp_cntr_caps(c, &caps, sizeof(caps) - 1));
	CALL_INT(_ibv_query_comp_cntr_caps(c, &caps, 0));
	CALL_INT(_ibv_query_comp_cntr_caps(c, NULL, sizeof(caps)));
	attr.type = 2;
	CALL_PTR(ibv_create_comp_cntr(c, &attr));
	attr = (struct ibv_comp_cntr_init_attr){.comp_mask = 1};
	CALL_PTR(ibv_create_comp_cntr(c, &attr));
	attr = (struct ibv_comp_cntr_init_attr){.flags = 1};
	CALL_PTR(ibv_create_comp_cntr(c, &attr));
	CALL_PTR(ibv_create_comp_cntr(c, NULL));
	attr = (struct ibv_comp_cntr_init_attr){0};
	CALL_PTR(ibv_create_comp_cntr(NULL, &attr));
	counter = CALL_PTR(ibv_create_comp_cntr(c, &attr));
	CHECK(counter->context == c);
	show("fresh", counter);
	CALL_INT(ibv_inc_comp_cntr(counter, 5));
	CALL_INT(ibv_inc_err_comp_cntr(counter, 2));
	show("added to", counter);
	CALL_INT(ibv_set_comp_cntr(counter, UINT64_MAX));
	CALL_INT(ibv_set_err_comp_cntr(counter, 9));
	show("set", counter);
	CALL_INT(ibv_inc_comp_cntr(counter, 1));
	show("beyond the greatest", counter);
	CALL_INT(ibv_read_comp_cntr(counter, NULL));
	CALL_INT(ibv_read_err_comp_cntr(NULL, &value));
	CALL_INT(ibv_set_comp_cntr(NULL, 1));
	CALL_INT(ibv_destroy_comp_cntr(NULL));
	CHECK(value == 77);
	CALL_INT(ibv_destroy_comp_cntr(counter));
}

static void attaching(struct ibv_context *c)
{
	struct endpoint a = {0}, b = {0}, other = {0};
	struct ibv_comp_cntr *one = counter(c, 0), *two = counter(c, 0);
	struct ibv_qp_attach_comp_cntr_attr attr = {.comp_mask = 1, .op_mask = SEND};

	note("attaching");
	endpoint_open_on(&a, c, NULL);
	endpoint_open_on(&b, c, NULL);
	endpoint_open(&other, "rxe1");
	CALL_INT(ibv_qp_attach_comp_cntr(a.qp, one, &attr));
	CALL_INT(attach(&a, one, 0));
	CALL_INT(attach(&a, one, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ));
	CALL_INT(attach(&a, one, SEND | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE));
	CALL_INT(attach(&a, one, SEND | 64));
	CALL_INT(attach(&other, one, SEND));
	CALL_INT(ibv_qp_attach_comp_cntr(a.qp, one, NULL));
	CALL_INT(ibv_qp_attach_comp_cntr(a.qp, NULL, &attr));
	CALL_INT(ibv_qp_attach_comp_cntr(NULL, one, &attr));
	CALL_INT(ibv_destroy_comp_cntr(two));
	two = counter(c, 0);
	CALL_INT(attach(&a, one, SEND | RECV));
	CALL_INT(attach(&a, two, RECV));
	CALL_INT(attach(&a, one, SEND));
	CALL_INT(modify_to_init(&a));
	CALL_INT(attach(&a, two, WRITE));
	CALL_INT(modify_to_rtr(&a, &b.gid, b.qp->qp_num));
	CALL_INT(attach(&a, two, READ));
	CALL_INT(modify_to_rts(&a));
	CALL_INT(attach(&a, two, READ));
	CALL_INT(modify_to_error(a.qp));
	CALL_INT(attach(&a, two, READ));
	CALL_INT(attach(&b, two, SEND));
	CALL_INT(ibv_destroy_comp_cntr(one));
	CALL_INT(ibv_destroy_qp(a.qp));
	CALL_INT(ibv_destroy_comp_cntr(one));
	CALL_INT(ibv_destroy_comp_cntr(two));
	CALL_INT(ibv_destroy_qp(b.qp));
	CALL_INT(ibv_destroy_comp_cntr(two));
	endpoint_close(&other);
}

static void counting(struct ibv_context *c)
{
	struct endpoint a = {0}, b = {0};
	struct ibv_comp_cntr *sends = counter(c, 0), *writes = counter(c, 0), *reads = counter(c, 1);
	struct ibv_comp_cntr *receives = counter(c, 0), *bytes = counter(c, 1), *all = counter(c, 0);
	struct ibv_wc wc;

	note("counting");
	endpoint_open_on(&a, c, NULL);
	endpoint_open_on(&b, c, NULL);
	CALL_INT(attach(&a, sends, SEND));
	CALL_INT(attach(&a, writes, WRITE));
	CALL_INT(attach(&a, reads, READ));
	CALL_INT(attach(&a, bytes, RECV));
	CALL_INT(attach(&b, receives, RECV));
	CALL_INT(attach(&b, all, SEND | WRITE | READ));
	connect_pair(&a, &b);

	note("sends, short and long, nothing polled");
	for (unsigned n = 0; n < 4; n++) {
		pattern(a.buffer, 10000, n);
		CALL_INT(post_recv(&b, n, n * 10000, 10000));
		CALL_INT(post(&a, IBV_WR_SEND, n % 2 ? 10000 : 100, &b, n < 2 ? IBV_SEND_SIGNALED : 0));
	}
	show("sends", sends);
	show("receives", receives);
	/* What is counted is in its place. */
	pattern(a.buffer, 10000, 2);
	check_data(b.buffer + 20000, a.buffer, 100);
	memset(b.buffer + 20000, 0, 100);
	printf("polled %d and %d\n", polled(a.send_cq), polled(b.recv_cq));
	/* ... and comes there once. */
	CHECK(b.buffer[20050] == 0);
	show("sends", sends);
	show("receives", receives);

	note("unsignaled requests are told by the counter: more of them than the queue holds");
	for (unsigned n = 0; n < 100; n++)
		if (post(&a, IBV_WR_RDMA_WRITE, 8, &b, 0))
			note("request %u is refused", n);
	show("writes", writes);
	printf("polled %d\n", polled(a.send_cq));
	for (unsigned n = 0; n < 3; n++)
		CALL_INT(post(&a, IBV_WR_RDMA_READ, 1000, &b, IBV_SEND_SIGNALED));
	show("bytes read", reads);
	CALL_INT(post(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, &b, IBV_SEND_SIGNALED));
	CALL_INT(post_recv(&b, 9, 0, 100));
	CALL_INT(post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 50, &b, IBV_SEND_SIGNALED));
	show("sends", sends);
	show("writes", writes);
	show("bytes read", reads);
	show("receives", receives);
	printf("polled %d and %d\n", polled(a.send_cq), polled(b.recv_cq));

	note("the other direction, in bytes, polled first");
	CALL_INT(post_recv(&a, 1, 0, 500));
	CALL_INT(post_recv(&a, 2, 500, 5000));
	CALL_INT(post(&b, IBV_WR_SEND, 77, &a, IBV_SEND_SIGNALED));
	CALL_INT(post(&b, IBV_WR_SEND, 4000, &a, IBV_SEND_SIGNALED));
	CHECK(next_wc(a.recv_cq, &wc) && wc.byte_len == 77 && wc.wr_id == 1);
	show("bytes received", bytes);
	CHECK(next_wc(a.recv_cq, &wc) && wc.byte_len == 4000 && wc.wr_id == 2);
	show("bytes received", bytes);
	show("own requests", all);

	note("what fails, and what is flushed");
	CALL_INT(ibv_set_comp_cntr(sends, 0));
	CALL_INT(post_recv(&b, 3, 0, 100));
	CALL_INT(post_recv(&b, 4, 0, 100));
	CALL_INT(post(&a, IBV_WR_SEND, 200, &b, 0));
	CALL_INT(post(&a, IBV_WR_SEND, 10, &b, 0));
	CALL_INT(post(&a, IBV_WR_RDMA_WRITE, 10, &b, 0));
	for (uint64_t hang = now_ms() + HANG_MS; polled(b.recv_cq) == 0 && now_ms() < hang;)
		usleep(1000);
	show("sends", sends);
	show("writes", writes);
	show("receives", receives);

	note("through RESET the counters stay");
	polled(a.send_cq);
	reconnect_pair(&a, &b);
	CALL_INT(post_recv(&b, 3, 0, 100));
	CALL_INT(post(&a, IBV_WR_SEND, 10, &b, IBV_SEND_SIGNALED));
	show("sends", sends);
	show("receives", receives);
	CALL_INT(modify_to_reset(b.qp));
	printf("polled %d\n", polled(b.recv_cq));
	CALL_INT(post_recv(&a, 3, 0, 100));
	CALL_INT(modify_to_error(a.qp));
	show("bytes received", bytes);

	CALL_INT(ibv_destroy_qp(a.qp));
	CALL_INT(ibv_destroy_qp(b.qp));
	show("sends", sends);
	CALL_INT(ibv_destroy_comp_cntr(sends));
	CALL_INT(ibv_destroy_comp_cntr(writes));
	CALL_INT(ibv_destroy_comp_cntr(reads));
	CALL_INT(ibv_destroy_comp_cntr(receives));
	CALL_INT(ibv_destroy_comp_cntr(bytes));
	CALL_INT(ibv_destroy_comp_cntr(all));
}

/* One counter of several queue pairs, whose receives come to one completion queue. */
static void shared(struct ibv_context *c)
{
	struct endpoint a[2] = {{0}, {0}}, b[2] = {{0}, {0}};
	struct ibv_comp_cntr *receives = counter(c, 0);
	int left = 0;

	note("one counter of two queue pairs");
	for (unsigned n = 0; n < 2; n++) {
		a[n].cqe = b[n].cqe = 4;
		endpoint_open_on(&a[n], c, NULL);
		endpoint_open_on(&b[n], c, NULL);
		CALL_INT(attach(&b[n], receives, RECV));
		connect_pair(&a[n], &b[n]);
		for (unsigned i = 0; i < 3; i++) {
			post_recv(&b[n], i, 0, 100);
			CALL_INT(post_send(&a[n], i, 0, 60));
		}
	}
	show("receives", receives);
	CALL_INT(ibv_resize_cq(b[0].recv_cq, 2));
	CALL_INT(ibv_destroy_qp(b[0].qp));
	left = polled(b[0].recv_cq);
	printf("polled %d and %d\n", left, polled(b[1].recv_cq));
	show("receives", receives);
	CALL_INT(ibv_destroy_comp_cntr(receives));
	CALL_INT(ibv_destroy_qp(b[1].qp));
	CALL_INT(ibv_destroy_comp_cntr(receives));
}

int main(void)
{
	struct ibv_context *c;

	begin();
	c = open_device("rxe0");
	numbers(c);
	attaching(c);
	counting(c);
	shared(c);
	return end();
}
