/*
 * faults.c [CASE] - what goes wrong between two processes, and the statuses with which it ends.
 *
 * In each case both sides connect a fresh RC queue pair. One posts, the other one does what the case asks for; each prints
 * what completes there. What they print is compared with what the case says. The numbers of queue pairs and what a machine
 * does in how much time are not printed.
 */
#include <arpa/inet.h>

#include "../soft/peer.h"

#define TEXT 4096
#define LONG 20000 /* several packets */

struct side {
	struct endpoint e;
	struct peer peer;
	int socket;
	bool is_second;
	bool is_brief; /* an error is to come by a time-out */
	uint8_t rnr_retry; /* 0: for ever */
	uint32_t psn;
	char said[TEXT];
};

__attribute__((format(printf, 2, 3))) static void say(struct side *s, const char *format, ...)
{
	size_t length = strlen(s->said);
	va_list args;

	va_start(args, format);
	vsnprintf(s->said + length, TEXT - length, format, args);
	va_end(args);
}

static const char *name(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",          [IBV_WC_LOC_LEN_ERR] = "local-length",
		[IBV_WC_LOC_QP_OP_ERR] = "local-qp",   [IBV_WC_LOC_PROT_ERR] = "local-protection",
		[IBV_WC_WR_FLUSH_ERR] = "flushed",     [IBV_WC_REM_INV_REQ_ERR] = "remote-invalid",
		[IBV_WC_REM_ACCESS_ERR] = "remote-access", [IBV_WC_REM_OP_ERR] = "remote-operation",
		[IBV_WC_RETRY_EXC_ERR] = "retries",    [IBV_WC_RNR_RETRY_EXC_ERR] = "rnr-retries",
	};

	return status < sizeof(names) / sizeof(names[0]) && names[status] ? names[status] : "other";
}

/* What the oldest request of a queue has come to. */
static void completes(struct side *s, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (next_wc(cq, &wc))
		say(s, " %s", name(wc.status));
	else
		say(s, " nothing");
}
static void sent(struct side *s) { completes(s, s->e.send_cq); }
static void received(struct side *s) { completes(s, s->e.recv_cq); }

static void state(struct side *s)
{
	static const char *const names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "error"};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(s->e.qp, &attr, IBV_QP_STATE, &init))
		fail("query");
	say(s, " %s", names[attr.qp_state]);
}

/* The next asynchronous event. */
static void event(struct side *s)
{
	struct ibv_async_event e;

	if (!comes(s->e.context->async_fd)) {
		say(s, " no-event");
		return;
	}
	if (ibv_get_async_event(s->e.context, &e))
		fail("event");
	say(s, " [%s]", ibv_event_type_str(e.event_type));
	ibv_ack_async_event(&e);
}

static void request(struct side *s, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t length, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)s->e.buffer, length, s->e.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = length ? 1 : 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = s->peer.address + offset;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = s->peer.address + offset;
		wr.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(s->e.qp, &wr, &bad))
		fail("posting");
}
static void send_bytes(struct side *s, uint32_t length) { request(s, IBV_WR_SEND, 0, length, 0); }

static void room(struct side *s, uint32_t length)
{
	if (post_recv(&s->e, 0, 32768, length))
		fail("posting a receive");
}

static void met(struct side *s)
{
	if (!meet(s->socket))
		fail("the peer is gone");
}

/* To RTS, each time with other numbers of packets, so that none of an earlier connection is taken for one of this. */
static void ready_anew(struct side *s, const union ibv_gid *gid, uint32_t qp_num)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp_num, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = {.grh = {.dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1, .port_num = PORT},
	};

	s->psn += 100000;
	attr.rq_psn = attr.sq_psn = s->psn;
	if (modify_to_init(&s->e) ||
	    ibv_modify_qp(s->e.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = s->is_brief ? 10 : 16; /* 4.2 ms where it is to be waited for, 0.3 s where a busy peer must answer */
	attr.retry_cnt = s->is_brief ? 2 : 7;
	attr.rnr_retry = s->is_brief || !s->rnr_retry ? 7 : s->rnr_retry;
	attr.max_rd_atomic = 4;
	if (ibv_modify_qp(s->e.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

/* Connects again, after an error or from the start. */
static void connects(struct side *s)
{
	struct peer own = {.address = (uintptr_t)s->e.buffer, .rkey = s->e.mr->rkey, .gid = s->e.gid};
	struct ibv_wc wc;

	own.qp_num[0] = s->e.qp->qp_num;
	if (modify_to_reset(s->e.qp))
		fail("RESET");
	while (ibv_poll_cq(s->e.send_cq, 1, &wc) > 0 || ibv_poll_cq(s->e.recv_cq, 1, &wc) > 0)
		;
	if (!swap(s->socket, &own, &s->peer, sizeof(own)))
		fail("the peer is gone");
	ready_anew(s, &s->peer.gid, s->peer.qp_num[0]);
	met(s);
}

/* A message from the first side arrives: the connection is whole. */
static void works(struct side *s)
{
	if (s->is_second)
		room(s, LONG);
	met(s);
	if (!s->is_second) {
		send_bytes(s, LONG);
		sent(s);
	} else {
		received(s);
	}
	met(s);
}

/* The first side asks for something that the second one must refuse. */
static void refused(struct side *s, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t length, uint32_t rkey)
{
	if (!s->is_second) {
		request(s, opcode, offset, length, rkey);
		send_bytes(s, 8);
		sent(s), sent(s), state(s);
	} else {
		room(s, LONG);
		event(s), received(s), state(s);
	}
	met(s);
}

static void wrong_key_write(struct side *s) { refused(s, IBV_WR_RDMA_WRITE, 0, 8, s->peer.rkey ^ 0x55); }
static void wrong_key_long_write(struct side *s) { refused(s, IBV_WR_RDMA_WRITE, 0, LONG, s->peer.rkey ^ 0x55); }
static void wrong_key_read(struct side *s) { refused(s, IBV_WR_RDMA_READ, 0, LONG, s->peer.rkey ^ 0x55); }
static void wrong_key_atomic(struct side *s) { refused(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, s->peer.rkey ^ 0x55); }
static void beyond_write(struct side *s) { refused(s, IBV_WR_RDMA_WRITE, 65536 - 4, 8, s->peer.rkey); }
static void beyond_long_write(struct side *s) { refused(s, IBV_WR_RDMA_WRITE, 65536 - LONG + 1, LONG, s->peer.rkey); }
static void beyond_read(struct side *s) { refused(s, IBV_WR_RDMA_READ, 65536 - LONG + 1, LONG, s->peer.rkey); }

/* The address that the first side knows has nobody. */
static void nobody(struct side *s)
{
	struct ibv_wc wc;

	if (!s->is_second) {
		union ibv_gid gid = s->peer.gid;

		gid.raw[15] = 77;
		if (modify_to_reset(s->e.qp))
			fail("RESET");
		while (ibv_poll_cq(s->e.send_cq, 1, &wc) > 0)
			;
		ready_anew(s, &gid, s->peer.qp_num[0]);
		send_bytes(s, 8);
		request(s, IBV_WR_RDMA_READ, 0, 8, s->peer.rkey);
		sent(s), sent(s), state(s);
		s->psn -= 100000;
	}
	met(s);
	s->is_brief = false;
	connects(s);
	works(s);
}

/* The queue pair that the first side sends to is not there, or not ready; then it is. */
static void absent(struct side *s, void (*goes)(struct side *), void (*comes_back)(struct side *))
{
	if (s->is_second)
		goes(s);
	met(s);
	if (!s->is_second) {
		send_bytes(s, LONG);
		send_bytes(s, 8);
		sent(s), sent(s), state(s);
	}
	met(s);
	if (s->is_second && comes_back)
		comes_back(s);
	s->is_brief = false;
	connects(s);
	works(s);
}

static void to_reset(struct side *s)
{
	if (modify_to_reset(s->e.qp))
		fail("RESET");
}
static void to_init(struct side *s)
{
	to_reset(s);
	if (modify_to_init(&s->e))
		fail("INIT");
	room(s, LONG);
}
static void to_error(struct side *s)
{
	if (modify_to_error(s->e.qp))
		fail("ERR");
}
static void make(struct side *s)
{
	struct ibv_qp_init_attr init = {.send_cq = s->e.send_cq, .recv_cq = s->e.recv_cq, .cap = s->e.cap, .qp_type = IBV_QPT_RC};

	s->e.qp = ibv_create_qp(s->e.pd, &init);
	if (!s->e.qp)
		fail("queue pair");
}
static void destroys(struct side *s)
{
	if (ibv_destroy_qp(s->e.qp))
		fail("destroying");
}
/* Until it has the same number: its receive takes nothing of what is sent to the old one. */
static void remakes(struct side *s)
{
	uint32_t before = s->e.qp->qp_num;
	struct ibv_qp *others[4096];
	int count = 0;

	destroys(s);
	for (make(s); s->e.qp->qp_num != before && count < 4096; make(s))
		others[count++] = s->e.qp;
	while (count)
		ibv_destroy_qp(others[--count]);
	if (modify_to_init(&s->e))
		fail("INIT");
	room(s, LONG);
}
static void in_reset(struct side *s) { absent(s, to_reset, NULL); }
static void in_init(struct side *s) { absent(s, to_init, NULL); }
static void in_error(struct side *s) { absent(s, to_error, NULL); }
static void destroyed(struct side *s) { absent(s, destroys, make); }
static void remade(struct side *s) { absent(s, remakes, NULL); }

/* The device of the second side is closed, and opened again. */
static void closed(struct side *s)
{
	int socket = s->socket;

	if (s->is_second)
		endpoint_close(&s->e);
	met(s);
	if (!s->is_second) {
		send_bytes(s, 8);
		sent(s), state(s);
	}
	met(s);
	if (s->is_second) {
		memset(&s->e, 0, sizeof(s->e));
		endpoint_open(&s->e, "rxe0");
		s->socket = socket;
	}
	s->is_brief = false;
	connects(s);
	works(s);
}

/* No receive is there, and the first side asks once more. */
static void not_ready(struct side *s)
{
	if (!s->is_second) {
		send_bytes(s, LONG);
		send_bytes(s, 8);
		sent(s), sent(s), state(s);
	}
	met(s);
	if (s->is_second)
		state(s);
	s->rnr_retry = 0;
	connects(s);
	works(s);
}

/* A receive is posted when the first side has been told for a while that there is none. */
static void late_receive(struct side *s)
{
	if (!s->is_second) {
		for (int i = 0; i < 3; i++)
			send_bytes(s, i == 1 ? LONG : 8);
		sent(s), sent(s), sent(s), state(s);
	} else {
		for (int i = 0; i < 3; i++) {
			usleep(20000);
			room(s, LONG);
			received(s);
		}
	}
	met(s);
}

static void too_long(struct side *s, uint32_t length, uint32_t has_room)
{
	if (s->is_second)
		room(s, has_room), room(s, LONG);
	met(s);
	if (!s->is_second) {
		send_bytes(s, length);
		send_bytes(s, 8);
		sent(s), sent(s), state(s);
	} else {
		received(s), received(s), state(s);
	}
	met(s);
	connects(s);
	works(s);
}
static void longer(struct side *s) { too_long(s, 9, 8); }
static void longer_by_a_packet(struct side *s) { too_long(s, 8192, 8000); }
static void longer_no_room(struct side *s) { too_long(s, LONG, 1); }

/* The first side has no right to its own memory. */
static void own_key(struct side *s, enum ibv_wr_opcode opcode)
{
	struct ibv_mr *right = s->e.mr, wrong = *s->e.mr;

	if (s->is_second)
		room(s, LONG);
	met(s);
	if (!s->is_second) {
		wrong.lkey ^= 0x55;
		s->e.mr = &wrong;
		request(s, opcode, 0, LONG, s->peer.rkey);
		s->e.mr = right;
		send_bytes(s, 8);
		sent(s), sent(s), state(s);
	} else {
		state(s);
	}
	met(s);
	connects(s);
	works(s);
}
static void own_key_send(struct side *s) { own_key(s, IBV_WR_SEND); }
static void own_key_read(struct side *s) { own_key(s, IBV_WR_RDMA_READ); }

/* What was posted to the first side's queue is flushed when that is moved to the error state. */
static void flushed(struct side *s)
{
	if (!s->is_second) {
		room(s, 8);
		send_bytes(s, 8);
		send_bytes(s, LONG);
		to_error(s);
		sent(s), sent(s), received(s), state(s);
	}
	met(s);
	connects(s);
	works(s);
}

/* Both sides sleep; the second one ends its queue pair as soon as it has received, and the first one has sent all the same. */
static void last_answer(struct side *s)
{
	struct ibv_cq *own = s->is_second ? s->e.recv_cq : s->e.send_cq, *cq;
	struct ibv_wc wc;
	void *context;
	int good = 0;

	for (int i = 0; i < 200; i++) {
		if (s->is_second)
			room(s, LONG);
		if (ibv_req_notify_cq(own, 0))
			fail("notification");
		met(s);
		if (!s->is_second)
			send_bytes(s, 8);
		if (ibv_get_cq_event(s->e.channel, &cq, &context))
			fail("event");
		ibv_ack_cq_events(cq, 1);
		good += next_wc(own, &wc) && !wc.status;
		if (s->is_second) {
			destroys(s);
			make(s);
		}
		met(s);
		connects(s);
	}
	say(s, " %d", good);
}

/* A key of the second side is invalidated by a send; a write with it is refused from then on. */
static void invalidated(struct side *s)
{
	struct ibv_mw *window = ibv_alloc_mw(s->e.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge sge = {(uintptr_t)s->e.buffer, 8, s->e.mr->lkey};
	struct ibv_wc wc;
	uint32_t key = 0, own;

	if (!window)
		fail("window");
	if (s->is_second) {
		struct ibv_mr *mr = ibv_reg_mr(s->e.pd, s->e.buffer, 4096,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);

		own = ibv_inc_rkey(window->rkey);
		wr.opcode = IBV_WR_BIND_MW;
		wr.bind_mw.mw = window;
		wr.bind_mw.rkey = own;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)s->e.buffer, 4096, IBV_ACCESS_REMOTE_WRITE};
		if (!mr || ibv_post_send(s->e.qp, &wr, &bad))
			fail("binding");
		sent(s);
		room(s, LONG);
		room(s, LONG);
		if (!swap(s->socket, &own, &key, 4) || !next_wc(s->e.recv_cq, &wc))
			fail("nothing received");
		say(s, " %s%s", name(wc.status), wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == own ? " invalidated" : "");
		received(s);
		state(s);
		met(s);
		if (ibv_dealloc_mw(window) || ibv_dereg_mr(mr))
			fail("freeing");
		return;
	}
	own = 0;
	if (!swap(s->socket, &own, &key, 4))
		fail("the peer is gone");
	request(s, IBV_WR_RDMA_WRITE, 0, 8, key);
	sent(s);
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = key;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (ibv_post_send(s->e.qp, &wr, &bad))
		fail("posting");
	sent(s);
	request(s, IBV_WR_RDMA_WRITE, 0, 8, key);
	sent(s), state(s);
	met(s);
	if (ibv_dealloc_mw(window))
		fail("freeing");
}

static const struct {
	const char *name;
	void (*run)(struct side *);
	int rnr_retry; /* 0: for ever */
	const char *first, *second;
} cases[] = {
	{"nobody", nobody, 0, " retries flushed error success", " success"},
	{"in-reset", in_reset, 0, " retries flushed error success", " success"},
	{"in-init", in_init, 0, " retries flushed error success", " success"},
	{"in-error", in_error, 0, " retries flushed error success", " success"},
	{"destroyed", destroyed, 0, " retries flushed error success", " success"},
	{"remade", remade, 0, " retries flushed error success", " success"},
	{"closed", closed, 0, " retries error success", " success"},
	{"not-ready", not_ready, 1, " rnr-retries flushed error success", " rts success"},
	{"late-receive", late_receive, 0, " success success success rts", " success success success"},
	{"longer", longer, 0, " remote-invalid flushed error success", " local-length flushed error success"},
	{"longer-by-a-packet", longer_by_a_packet, 0, " remote-invalid flushed error success", " local-length flushed error success"},
	{"longer-no-room", longer_no_room, 0, " remote-invalid flushed error success", " local-length flushed error success"},
	{"wrong-key-write", wrong_key_write, 0, " remote-access flushed error", " [local access violation work queue error] flushed error"},
	{"wrong-key-long-write", wrong_key_long_write, 0, " remote-access flushed error",
	 " [local access violation work queue error] flushed error"},
	{"wrong-key-read", wrong_key_read, 0, " remote-access flushed error", " [local access violation work queue error] flushed error"},
	{"wrong-key-atomic", wrong_key_atomic, 0, " remote-access flushed error", " [local access violation work queue error] flushed error"},
	{"beyond-write", beyond_write, 0, " remote-access flushed error", " [local access violation work queue error] flushed error"},
	{"beyond-long-write", beyond_long_write, 0, " remote-access flushed error",
	 " [local access violation work queue error] flushed error"},
	{"beyond-read", beyond_read, 0, " remote-access flushed error", " [local access violation work queue error] flushed error"},
	{"own-key-send", own_key_send, 0, " local-protection flushed error success", " rts success"},
	{"own-key-read", own_key_read, 0, " local-protection flushed error success", " rts success"},
	{"flushed", flushed, 0, " flushed flushed flushed error success", " success"},
	{"last-answer", last_answer, 0, " 200", " 200"},
	{"invalidated", invalidated, 0, " success success remote-access error", " success success invalidated flushed error"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static void side(size_t c, bool is_second, int socket, int answer)
{
	static struct side s;

	alarm(HANG_S);
	s.socket = socket;
	s.is_second = is_second;
	s.is_brief = strstr(cases[c].first, " retries") != NULL;
	s.e.with_channel = true;
	s.rnr_retry = (uint8_t)cases[c].rnr_retry;
	endpoint_open(&s.e, "rxe0");
	connects(&s);
	cases[c].run(&s);
	endpoint_close(&s.e);
	if (write(answer, s.said, TEXT) != TEXT)
		fail("answer");
	_exit(0);
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (size_t c = 0; c < CASES; c++) {
		char said[2][TEXT] = {"", ""};
		const char *expected[2] = {cases[c].first, cases[c].second};
		int sockets[2], status;
		bool right = true;

		if (argc > 1 && strcmp(argv[1], cases[c].name))
			continue;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
			fail("socket pair");
		int answers[2][2];
		for (int i = 0; i < 2; i++) {
			if (pipe(answers[i]))
				fail("pipe");
			fflush(stdout);
			if (!fork()) {
				close(sockets[!i]);
				side(c, i, sockets[i], answers[i][1]);
			}
			close(answers[i][1]);
		}
		close(sockets[0]);
		close(sockets[1]);
		for (int i = 0; i < 2; i++) {
			if (read(answers[i][0], said[i], TEXT) != TEXT)
				strcpy(said[i], " died");
			close(answers[i][0]);
			right = right && !strcmp(said[i], expected[i]);
		}
		while (wait(&status) > 0)
			right = right && !status;
		if (right) {
			printf("passed %s\n", cases[c].name);
			continue;
		}
		printf("failed %s first:%s second:%s instead of first:%s second:%s\n", cases[c].name, said[0], said[1], expected[0],
		       expected[1]);
		failed++;
	}
	return failed ? 1 : 0;
}
