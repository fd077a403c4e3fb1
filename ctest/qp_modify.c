/*
 * qp_modify.c - the state machine of queue pairs.
 *
 * Proves: every move between states for RC, UC and UD, with the attributes the move asks for and with the state
 * alone; masks with one bit missing or one too many; values out of range; and what a query answers on the way.
 *
 * Fact: Ports 0, past the last, and 255 are refused by ibv_modify_qp, and the state stays.
 */
#include "setup.h"

static struct endpoint e;

static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN"};

static struct ibv_qp_attr attributes(int state)
{
	return (struct ibv_qp_attr){
		.qp_state = state,
		.port_num = PORT,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = e.qp->qp_num,
		.rq_psn = 100,
		.sq_psn = 200,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 3,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 6,
		.rnr_retry = 5,
		.ah_attr = {.grh = {.dgid = e.gid, .sgid_index = GID_INDEX, .hop_limit = 64, .traffic_class = 3,
				    .flow_label = 7},
			    .is_global = 1,
			    .sl = 2,
			    .static_rate = 1,
			    .port_num = PORT},
	};
}

/* What a move into a state asks for, by type. */
static int required(int type, int state)
{
	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type == IBV_QPT_UD)
			return IBV_QP_STATE;
		if (type == IBV_QPT_UC)
			return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		if (type == IBV_QPT_RC)
			return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_MAX_QP_RD_ATOMIC;
		return IBV_QP_STATE | IBV_QP_SQ_PSN;
	default:
		return IBV_QP_STATE;
	}
}

static int move(int state)
{
	struct ibv_qp_attr attr = attributes(state);

	return ibv_modify_qp(e.qp, &attr, required(e.type, state));
}

/* The kernel refuses every move out of SQD before the send queue has drained, which it does in its own time. */
static void wait_until_drained(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	for (uint64_t hang = now_ms() + HANG_MS; now_ms() < hang;) {
		/* With this mask the library leaves the state in the struct alone. */
		if (ibv_query_qp(e.qp, &attr, IBV_QP_CUR_STATE, &init))
			die("query in SQD");
		if (attr.qp_state != IBV_QPS_SQD || !attr.sq_draining)
			return;
		usleep(1000);
	}
	die("the send queue does not drain");
}

/* From RESET to a state, whatever it was before. */
static void go_to(int state)
{
	int ret = modify_to_reset(e.qp);

	if (!ret && state == IBV_QPS_ERR) { /* there is no way from RESET */
		ret = move(IBV_QPS_INIT);
		if (!ret)
			ret = move(IBV_QPS_ERR);
	} else
		for (int s = IBV_QPS_INIT; !ret && s <= state; s++)
			ret = move(s);
	if (ret)
		die("moving to %s: %s", names[state], errno_name(ret));
	if (state == IBV_QPS_SQD)
		wait_until_drained();
}

static void query(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	FILL(attr);
	FILL(init);
	CALL_INT(ibv_query_qp(e.qp, &attr, 0x1fffff, &init));
	print_qp_attr(&attr);
	print_init_attr(&init, e.qp);
}

/* One modification, the state before and after as the struct and as the kernel see it. */
static void modify(int state, int mask)
{
	struct ibv_qp_attr attr = attributes(state), now;
	struct ibv_qp_init_attr init;

	CALL_INT(ibv_modify_qp(e.qp, &attr, mask));
	wait_until_drained();
	if (ibv_query_qp(e.qp, &now, IBV_QP_CUR_STATE, &init))
		note("query failed");
	note("    struct %s, kernel %s", names[e.qp->state & 7], names[now.qp_state & 7]);
}

static void moves(void)
{
	static const int from[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};

	for (size_t f = 0; f < sizeof(from) / sizeof(*from); f++)
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN + 1; to++) {
			go_to(from[f]);
			note("type %d %s to %d with attributes", e.type, names[from[f]], to);
			modify(to, required(e.type, to));
			go_to(from[f]);
			note("type %d %s to %d alone", e.type, names[from[f]], to);
			modify(to, IBV_QP_STATE);
		}
}

/* One bit less and one bit more than a move asks for. */
static void masks(void)
{
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		for (int bit = 0; bit < 32; bit++) {
			int mask = required(e.type, to) ^ (int)(1u << bit);

			go_to(to - 1);
			note("type %d to %s mask 0x%x", e.type, names[to], mask);
			modify(to, mask);
		}
	for (int bit = 0; bit < 32; bit++) { /* RTS to RTS changes single attributes */
		go_to(IBV_QPS_RTS);
		note("type %d RTS mask 0x%x", e.type, 1u << bit);
		modify(IBV_QPS_RTS, (int)(1u << bit));
		modify(IBV_QPS_RTS, IBV_QP_STATE | (int)(1u << bit));
	}
	go_to(IBV_QPS_RTS);
	modify(IBV_QPS_RTS, 0);
}

#define WRONG(state_, field, value, more)                                                                      \
	do {                                                                                                   \
		struct ibv_qp_attr attr = attributes(IBV_QPS_##state_);                                        \
		go_to(IBV_QPS_##state_ - 1);                                                                   \
		attr.field = value;                                                                            \
		note("%s with %s = %s", #state_, #field, #value);                                              \
		if (!CALL_INT(ibv_modify_qp(e.qp, &attr, required(e.type, IBV_QPS_##state_) | (more))))        \
			query();                                                                               \
		FIELD(*e.qp, state);                                                                           \
	} while (0)

/*
 * Where max_dest_rd_atomic grows, soft-RoCE goes over its old array of requests by the new number: it writes
 * beyond its memory, and Linux 6.12 dies of it. A queue pair that has no array yet is not affected.
 */
static void afresh(void)
{
	struct ibv_qp_init_attr init = {.qp_context = &e, .send_cq = e.send_cq, .recv_cq = e.recv_cq, .cap = e.cap,
					.qp_type = e.type};

	if (ibv_destroy_qp(e.qp) || !(e.qp = ibv_create_qp(e.pd, &init)))
		die("another queue pair");
}

#define WRONG_AFRESH(state_, field, value)                                                                     \
	do {                                                                                                   \
		afresh();                                                                                      \
		WRONG(state_, field, value, 0);                                                                \
	} while (0)

static void values(void)
{
	WRONG(INIT, port_num, 0, 0);
	WRONG(INIT, port_num, 2, 0);
	WRONG(INIT, port_num, 255, 0);
	WRONG(INIT, pkey_index, 1, 0);
	WRONG(INIT, pkey_index, 64, 0);
	WRONG(INIT, pkey_index, 65535, 0);
	WRONG(INIT, qp_access_flags, 0, 0);
	WRONG(INIT, qp_access_flags, 0xff, 0);
	WRONG(INIT, qp_access_flags, 1u << 31, 0);
	WRONG(INIT, cur_qp_state, IBV_QPS_RTS, IBV_QP_CUR_STATE);
	WRONG(RTR, path_mtu, 0, 0);
	WRONG(RTR, path_mtu, 6, 0);
	WRONG(RTR, path_mtu, IBV_MTU_256, 0);
	WRONG(RTR, path_mtu, IBV_MTU_2048, 0);
	WRONG(RTR, path_mtu, IBV_MTU_4096, 0);
	WRONG(RTR, dest_qp_num, 0, 0);
	WRONG(RTR, dest_qp_num, 1, 0);
	WRONG(RTR, dest_qp_num, 0x1ffffff, 0);
	WRONG(RTR, rq_psn, 0xffffff, 0);
	WRONG(RTR, rq_psn, 0x1000005, 0);
	WRONG_AFRESH(RTR, max_dest_rd_atomic, 0);
	WRONG_AFRESH(RTR, max_dest_rd_atomic, 128);
	WRONG_AFRESH(RTR, max_dest_rd_atomic, 129);
	WRONG_AFRESH(RTR, max_dest_rd_atomic, 255);
	afresh();
	go_to(IBV_QPS_RTS); /* with the attributes that later queries answer */
	WRONG(RTR, min_rnr_timer, 31, 0);
	WRONG(RTR, min_rnr_timer, 32, 0);
	WRONG(RTR, ah_attr.port_num, 0, 0);
	WRONG(RTR, ah_attr.port_num, 2, 0);
	WRONG(RTR, ah_attr.is_global, 0, 0);
	WRONG(RTR, ah_attr.grh.sgid_index, 0, 0);
	WRONG(RTR, ah_attr.grh.sgid_index, 9, 0);
	WRONG(RTR, ah_attr.grh.sgid_index, 255, 0);
	WRONG(RTR, ah_attr.grh.flow_label, 0xffffffff, 0);
	WRONG(RTR, ah_attr.grh.dgid.raw[10], 0, 0);
	WRONG(RTR, alt_port_num, 1, IBV_QP_ALT_PATH);
	WRONG(RTR, alt_ah_attr, attr.ah_attr, IBV_QP_ALT_PATH);
	WRONG(RTS, timeout, 31, 0);
	WRONG(RTS, timeout, 32, 0);
	WRONG(RTS, timeout, 0, 0);
	WRONG(RTS, retry_cnt, 8, 0);
	WRONG(RTS, rnr_retry, 8, 0);
	WRONG(RTS, sq_psn, 0x1000005, 0);
	WRONG(RTS, max_rd_atomic, 0, 0);
	WRONG(RTS, max_rd_atomic, 128, 0);
	WRONG(RTS, max_rd_atomic, 129, 0);
	WRONG(RTS, max_rd_atomic, 255, 0);
	WRONG(RTS, cur_qp_state, IBV_QPS_RTR, IBV_QP_CUR_STATE);
	WRONG(RTS, cur_qp_state, IBV_QPS_INIT, IBV_QP_CUR_STATE);
	WRONG(RTS, path_mig_state, IBV_MIG_ARMED, IBV_QP_PATH_MIG_STATE);
	WRONG(RTS, path_mig_state, 7, IBV_QP_PATH_MIG_STATE);
	WRONG(RTS, rate_limit, 1000, IBV_QP_RATE_LIMIT);
	WRONG(RTS, cap.max_send_wr, 32, IBV_QP_CAP);
}

/* What a query answers in each state, and that its mask decides what the struct's state becomes. */
static void queries(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	for (int s = IBV_QPS_RESET; s <= IBV_QPS_SQD; s++) {
		go_to(s);
		note("type %d in %s", e.type, names[s]);
		query();
	}
	go_to(IBV_QPS_ERR);
	query();
	FILL(attr);
	FILL(init);
	CALL_INT(ibv_query_qp(e.qp, &attr, 0, &init));
	print_qp_attr(&attr);
	CALL_INT(ibv_query_qp(e.qp, &attr, -1, &init));
	CALL_INT(ibv_query_qp(e.qp, &attr, 1 << 25, &init));
	CALL_INT(ibv_query_qp(e.qp, &attr, 1 << 21, &init));
}

int main(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	begin();
	for (int i = 0; i < 3; i++) {
		e = (struct endpoint){.type = types[i]};
		endpoint_open(&e, "rxe0");
		moves();
		masks();
		queries();
		if (types[i] == IBV_QPT_RC)
			values();
		endpoint_close(&e);
	}
	return end();
}
