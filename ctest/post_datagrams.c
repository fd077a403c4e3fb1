/*
 * post_datagrams.c - sends over the unreliable transports.
 *
 * Proves: datagrams with their header of 40 bytes and the sender's number, wrong keys, numbers and missing receives
 * that are dropped in silence; the address that a reply is sent to; and unreliable connections.
 */
#include "setup.h"

static struct endpoint a = {.type = IBV_QPT_UD}, b = {.type = IBV_QPT_UD}, witness = {.type = IBV_QPT_UD};
static struct ibv_ah *ah;

static struct ibv_sge sge[2];
static struct ibv_send_wr datagram(uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t size)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};

	sge[0] = (struct ibv_sge){(uintptr_t)a.buffer, size, a.mr->lkey};
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

/* Until what `a` has sent so far has arrived or was dropped: a datagram behind it has arrived at b's neighbour. */
static void wait_for_earlier_datagrams(void)
{
	struct ibv_sge own = {(uintptr_t)a.buffer, 1, a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &own, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = witness.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	if (post_recv(&witness, 0, 0, 64) || ibv_post_send(a.qp, &wr, &bad) || !next_wc(witness.recv_cq, &wc) || wc.status)
		die("no datagram behind it");
}

static void send_datagram(const char *what, struct ibv_send_wr wr, bool arrives)
{
	struct ibv_send_wr *bad = NULL;

	note("%s", what);
	pattern(a.buffer, 4096, wr.wr_id);
	memset(b.buffer, 0, 8192);
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	if (bad) {
		CHECK(bad == &wr);
		return;
	}
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (!arrives) {
		wait_for_earlier_datagrams();
		expect_empty("nothing arrives", b.recv_cq);
	} else if (expect_wc("received", b.recv_cq, b.qp, a.qp)) {
		check_data(b.buffer + 40, a.buffer, sge[0].length);
	}
}

static void datagrams(void)
{
	struct ibv_send_wr wr;

	CALL_INT(post_recv(&b, 1, 0, 4096));
	send_datagram("datagram", datagram(1, IBV_WR_SEND, 256), true);
	CALL_INT(post_recv(&b, 2, 0, 4096));
	wr = datagram(2, IBV_WR_SEND_WITH_IMM, 1024), wr.imm_data = htobe32(0x01020304);
	send_datagram("with immediate data", wr, true);
	CALL_INT(post_recv(&b, 3, 0, 4096));
	send_datagram("empty", datagram(3, IBV_WR_SEND, 0), true);

	send_datagram("no receive is there", datagram(4, IBV_WR_SEND, 64), false);
	CALL_INT(post_recv(&b, 5, 0, 4096));
	wr = datagram(5, IBV_WR_SEND, 64), wr.wr.ud.remote_qkey = QKEY + 1;
	send_datagram("wrong key", wr, false);
	wr = datagram(7, IBV_WR_SEND, 64), wr.wr.ud.remote_qpn = 0xfffff0;
	send_datagram("no such queue pair", wr, false);
	send_datagram("after those", datagram(8, IBV_WR_SEND, 64), true);

	/* A receive that is too small for header and data. */
	CALL_INT(post_recv(&b, 9, 0, 100));
	wr = datagram(9, IBV_WR_SEND, 64);
	struct ibv_send_wr *bad;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	note("receive of 100 for 40 and 64 bytes");
	wait_for_earlier_datagrams();
	struct ibv_wc wc;
	FILL(wc);
	if (on_soft() ? CALL_COUNT(ibv_poll_cq(b.recv_cq, 1, &wc)) : FOUND_COUNT(ibv_poll_cq(b.recv_cq, 1, &wc)))
		print_wc(&wc, b.qp, a.qp);
	CALL_INT(modify_to_reset(b.qp)); /* that receive was an error */
	ready(&b, &a.gid, 0);
	CALL_INT(post_recv(&b, 6, 0, 4096));
	wr = datagram(6, IBV_WR_SEND, 64), wr.wr.ud.remote_qkey = 0x80000000;
	send_datagram("the sender's own key", wr, false);
	CALL_INT(modify_to_reset(b.qp));
	ready(&b, &a.gid, 0);
}

/* Operations that datagrams do not have. */
static void wrong_operations(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_SEND_WITH_INV, IBV_WR_BIND_MW, IBV_WR_TSO, 77};

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct endpoint x = {.type = IBV_QPT_UD};
		struct ibv_send_wr wr = datagram(20 + i, opcodes[i], 64), *bad = NULL;

		note("operation %d", opcodes[i]);
		endpoint_open(&x, "rxe0");
		ready(&x, &x.gid, 0);
		sge[0] = (struct ibv_sge){(uintptr_t)x.buffer, 64, x.mr->lkey};
		struct ibv_ah_attr attr = {.grh = {.dgid = b.gid, .sgid_index = GID_INDEX, .hop_limit = 64},
					   .is_global = 1,
					   .port_num = PORT};
		wr.wr.ud.ah = ibv_create_ah(x.pd, &attr);
		if (opcodes[i] == IBV_WR_BIND_MW)
			wr.num_sge = 0;
		CALL_INT(ibv_post_send(x.qp, &wr, &bad));
		CHECK(bad == &wr);
		if (!bad) {
			struct ibv_wc wc;

			FILL(wc);
			if (FOUND_COUNT(ibv_poll_cq(x.send_cq, 1, &wc)))
				print_wc(&wc, x.qp, NULL);
		}
		ibv_destroy_ah(wr.wr.ud.ah);
		endpoint_close(&x);
	}
}

/* b answers to the address in the header of what it received. */
static void reply(void)
{
	struct ibv_send_wr wr = datagram(30, IBV_WR_SEND, 64), *bad;
	struct ibv_ah_attr attr;
	struct ibv_ah *back;
	struct ibv_wc wc;

	CALL_INT(post_recv(&b, 30, 0, 4096));
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (!next_wc(b.recv_cq, &wc))
		die("nothing received");
	print_wc(&wc, b.qp, a.qp);
	CALL_INT(ibv_init_ah_from_wc(b.context, PORT, &wc, (struct ibv_grh *)b.buffer, &attr));
	print_ah_attr("to reply", &attr);
	back = CALL_PTR(ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)b.buffer, PORT));
	CALL_INT(post_recv(&a, 31, 8192, 4096));
	sge[0] = (struct ibv_sge){(uintptr_t)b.buffer, 200, b.mr->lkey};
	wr = (struct ibv_send_wr){.wr_id = 31,
				  .sg_list = sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED};
	wr.wr.ud.ah = back;
	wr.wr.ud.remote_qpn = wc.src_qp;
	wr.wr.ud.remote_qkey = QKEY;
	CALL_INT(ibv_post_send(b.qp, &wr, &bad));
	expect_wc("answered", b.send_cq, b.qp, NULL);
	if (expect_wc("the answer", a.recv_cq, a.qp, b.qp))
		check_data(a.buffer + 8192 + 40, b.buffer, 200);
	CALL_INT(ibv_destroy_ah(back));
}

static void unreliable_connection(void)
{
	struct endpoint x = {.type = IBV_QPT_UC}, y = {.type = IBV_QPT_UC};
	struct ibv_sge s;
	struct ibv_send_wr wr = {.sg_list = &s, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;

	note("unreliable connection");
	open_pair(&x, &y, "rxe0", "rxe1");
	pattern(x.buffer, 8192, 9);
	s = (struct ibv_sge){(uintptr_t)x.buffer, 5000, x.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)y.buffer + 16384;
	wr.wr.rdma.rkey = y.mr->rkey;

	CALL_INT(post_recv(&y, 1, 0, 8192));
	wr.wr_id = 1, wr.opcode = IBV_WR_SEND;
	CALL_INT(ibv_post_send(x.qp, &wr, &bad));
	expect_wc("sent", x.send_cq, x.qp, NULL);
	if (expect_wc("received", y.recv_cq, y.qp, NULL))
		check_data(y.buffer, x.buffer, 5000);
	wr.wr_id = 2, wr.opcode = IBV_WR_RDMA_WRITE;
	CALL_INT(ibv_post_send(x.qp, &wr, &bad));
	expect_wc("written", x.send_cq, x.qp, NULL);
	check_data_that_comes(y.buffer + 16384, x.buffer, 5000);
	CALL_INT(post_recv(&y, 3, 0, 8192));
	wr.wr_id = 3, wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, wr.imm_data = htobe32(33);
	CALL_INT(ibv_post_send(x.qp, &wr, &bad));
	expect_wc("written", x.send_cq, x.qp, NULL);
	expect_wc("received", y.recv_cq, y.qp, NULL);
	wr.wr_id = 4, wr.opcode = IBV_WR_SEND; /* no receive: lost, and nobody is told */
	CALL_INT(ibv_post_send(x.qp, &wr, &bad));
	expect_wc("sent", x.send_cq, x.qp, NULL);
	expect_empty("lost", y.recv_cq);
	endpoint_close(&x);
	endpoint_close(&y);
}

int main(void)
{
	begin();
	endpoint_open(&a, "rxe0");
	endpoint_open(&b, "rxe1");
	endpoint_open(&witness, "rxe1");
	ready(&witness, &a.gid, 0);
	ready(&a, &b.gid, 0);
	ready(&b, &a.gid, 0);
	struct ibv_ah_attr attr = {.grh = {.dgid = b.gid, .sgid_index = GID_INDEX, .hop_limit = 64},
				   .is_global = 1,
				   .port_num = PORT};
	ah = CALL_PTR(ibv_create_ah(a.pd, &attr));
	datagrams();
	reply();
	wrong_operations();
	CALL_INT(ibv_destroy_ah(ah));
	endpoint_close(&a);
	endpoint_close(&b);
	endpoint_close(&witness);
	unreliable_connection();
	return end();
}
