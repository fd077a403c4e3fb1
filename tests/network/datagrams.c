/*
 * datagrams.c - datagrams between two hosts and within one, by unicast and to groups, over IPv4 and IPv6.
 *
 * Four processes: a sender and a receiver on host a, two receivers on host b. All bytes that a receiver gets are looked at,
 * those of the header before the payload, too. That something is dropped is seen by what comes behind it.
 */
#include <arpa/inet.h>
#include <pthread.h>

#include "../soft/peer.h"

#define RECEIVES 32
#define ROOM 2048 /* bytes of a place in the buffer, of which receive requests have the first half */
#define HEADER 40
#define GROUP_QP 0xffffff
#define GROUPS 3
#define MANY 20

/* In the order in which the program forks them, of which each other one is on host b (apart.c). */
enum role { FAR, SENDER, OTHER_FAR, NEAR, ROLES };

static const char *const groups[GROUPS] = {"::ffff:239.1.2.3", "ff15::7", "ff02::77"};

/* What the processes tell each other. */
static struct shared {
	pthread_barrier_t all;
	union ibv_gid gid[ROLES][2];
	uint32_t qp_num[ROLES], of_rc[ROLES], of_second[ROLES];
} *shared;

static enum role role;
static struct endpoint e, second;
static uint64_t posted;
static int version; /* 0: IPv4, 1: IPv6 */

static void all(void) { pthread_barrier_wait(&shared->all); }

static void post_one(uint32_t room)
{
	uint64_t place = posted++ % (RECEIVES / 2);

	memset(e.buffer + place * ROOM, 0xee, ROOM);
	if (post_recv(&e, place, place * ROOM, room))
		fail("posting a receive");
}

static struct ibv_ah *handle_to(const union ibv_gid *gid, uint8_t hops)
{
	struct ibv_ah_attr attr = {
		.grh = {.dgid = *gid, .sgid_index = (uint8_t)(GID_INDEX + version), .hop_limit = hops, .traffic_class = 0x48},
		.is_global = 1, .port_num = PORT,
	};
	struct ibv_ah *ah = ibv_create_ah(e.pd, &attr);

	if (!ah)
		fail("address handle: %s", strerror(errno));
	return ah;
}

/* A datagram whose bytes come of its number; in two pieces, or inline where it is short. */
static void post_datagram(struct ibv_ah *ah, uint32_t qp_num, uint32_t qkey, uint32_t number, uint32_t length, bool has_imm)
{
	unsigned char *from = e.buffer + (RECEIVES / 2 + number % (RECEIVES / 2 - 1)) * ROOM;
	struct ibv_sge sge[2] = {{(uintptr_t)from, length / 3, e.mr->lkey}, {(uintptr_t)from + length / 3, length - length / 3, e.mr->lkey}};
	struct ibv_send_wr wr = {
		.wr_id = number, .sg_list = sge, .num_sge = length ? 2 : 0, .imm_data = htonl(number),
		.opcode = has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | (length && length <= 64 ? IBV_SEND_INLINE : 0),
		.wr = {.ud = {.ah = ah, .remote_qpn = qp_num, .remote_qkey = qkey}},
	}, *bad;

	pattern(from, length, number);
	if (ibv_post_send(e.qp, &wr, &bad))
		fail("posting datagram %u", number);
}

static void sent(uint32_t number, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!next_wc(e.send_cq, &wc) || wc.wr_id != number || wc.status != status)
		fail("datagram %u ended with %s", number, ibv_wc_status_str(wc.status));
}

static void send_one(struct ibv_ah *ah, uint32_t qp_num, uint32_t number, uint32_t length, bool has_imm)
{
	post_datagram(ah, qp_num, QKEY, number, length, has_imm);
	sent(number, IBV_WC_SUCCESS);
}

static unsigned sum(const unsigned char *header)
{
	unsigned sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (unsigned)header[i] << 8 | header[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

/* The header of IP with which a datagram comes that has so many bytes behind that of UDP. */
static void check_header(const unsigned char *header, const union ibv_gid *from, const union ibv_gid *to, uint32_t bytes, uint8_t hops)
{
	static const unsigned char none[20];
	uint16_t length;

	bytes += 8;
	if (version) {
		memcpy(&length, header + 4, 2);
		if (header[0] >> 4 != 6 || (header[0] & 15) << 4 != 0x40 || header[1] >> 4 != 8 || ntohs(length) != bytes ||
		    header[6] != IPPROTO_UDP || header[7] != hops || memcmp(header + 8, from, 16) || memcmp(header + 24, to, 16))
			fail("an IPv6 header of %u bytes and %d hops: %u %d", bytes, hops, ntohs(length), header[7]);
		return;
	}
	memcpy(&length, header + 22, 2);
	if (memcmp(header, none, 20) || header[20] != 0x45 || header[21] != 0x48 || ntohs(length) != bytes + 20 || header[26] != 0x40 ||
	    header[27] || header[28] != hops || header[29] != IPPROTO_UDP || memcmp(header + 32, from->raw + 12, 4) ||
	    memcmp(header + 36, to->raw + 12, 4) || sum(header + 20) != 0xffff)
		fail("an IPv4 header of %u bytes and %d hops: %u %d", bytes, hops, ntohs(length), header[28]);
}

/* The next datagram is this one, of the sender's to this address; what came goes to `wc`. */
static const unsigned char *receive(struct ibv_wc *wc, uint32_t number, uint32_t length, bool has_imm)
{
	unsigned char wanted[ROOM];
	const unsigned char *found;

	if (!next_wc(e.recv_cq, wc) || wc->status != IBV_WC_SUCCESS)
		fail("datagram %u does not come", number);
	found = e.buffer + wc->wr_id * ROOM;
	pattern(wanted, length, number);
	if (wc->byte_len != length + HEADER || memcmp(found + HEADER, wanted, length) || found[HEADER + length] != 0xee)
		fail("not datagram %u of %u bytes but one of %u", number, length, wc->byte_len - HEADER);
	if (wc->opcode != IBV_WC_RECV || wc->wc_flags != (unsigned)(IBV_WC_GRH | (has_imm ? IBV_WC_WITH_IMM : 0)) ||
	    (has_imm && wc->imm_data != htonl(number)) || wc->qp_num != e.qp->qp_num || wc->slid || wc->sl != (version ? 9 : 10))
		fail("the completion of datagram %u: flags %x, sl %d", number, wc->wc_flags, wc->sl);
	return found;
}

static void receive_from_sender(uint32_t number, uint32_t length, bool has_imm, const union ibv_gid *to, uint8_t hops)
{
	struct ibv_wc wc;
	const unsigned char *found = receive(&wc, number, length, has_imm);

	if (wc.src_qp != shared->qp_num[SENDER])
		fail("datagram %u comes from %x", number, wc.src_qp);
	/* BTH, DETH, immediate data, payload with pad, checksum. */
	check_header(found, &shared->gid[SENDER][version], to, 24 + (has_imm ? 4 : 0) + (length + 3) / 4 * 4, hops);
	post_one(ROOM);
}

static const uint32_t lengths[] = {0, 1, 2, 3, 4, 5, 63, 64, 65, 160, 161, 200, 201, 500, 1022, 1023, 1024};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* Each length with and without immediate data, and back by an address handle made of the completion. */
static void contents(void)
{
	for (uint32_t n = 0; n < 2 * LENGTHS; n++) {
		uint32_t length = lengths[n / 2];
		struct ibv_wc wc;

		if (role == SENDER) {
			struct ibv_ah *ah = handle_to(&shared->gid[FAR][version], 3);

			send_one(ah, shared->qp_num[FAR], n, length, n % 2);
			/* Its source is the address that was the destination. */
			check_header(receive(&wc, n + 1, length, 0), &shared->gid[FAR][version], &shared->gid[SENDER][version],
				     24 + (length + 3) / 4 * 4, 64);
			post_one(ROOM);
			ibv_destroy_ah(ah);
		} else if (role == FAR) {
			const unsigned char *found = receive(&wc, n, length, n % 2);
			struct ibv_ah *ah = ibv_create_ah_from_wc(e.pd, &wc, (struct ibv_grh *)found, PORT);

			if (!ah)
				fail("no address handle of a completion: %s", strerror(errno));
			check_header(found, &shared->gid[SENDER][version], &shared->gid[FAR][version],
				     24 + 4 * (n % 2) + (length + 3) / 4 * 4, 64);
			post_one(ROOM);
			send_one(ah, wc.src_qp, n + 1, length, false);
			ibv_destroy_ah(ah);
		}
	}
}

static uint32_t violations(void)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(e.context, PORT, &attr))
		fail("port");
	return attr.qkey_viol_cntr;
}

/* What is not for the receiver is dropped, and what is too long is not sent. */
static void refused(void)
{
	uint32_t before = violations();
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_wc wc;

	all();
	if (role == SENDER) {
		struct ibv_ah *ah = handle_to(&shared->gid[FAR][version], 64);

		post_datagram(ah, shared->qp_num[FAR], QKEY + 1, 1, 8, false);
		sent(1, IBV_WC_SUCCESS);
		send_one(ah, shared->of_rc[FAR], 2, 8, false);
		send_one(ah, shared->qp_num[FAR] ^ 0x100, 3, 8, false);
		/* Too long for the last receive request of the other side; it stays. */
		send_one(ah, shared->qp_num[FAR], 4, 9, false);
		/* With the top bit the own key goes. */
		post_datagram(ah, shared->qp_num[FAR], 1U << 31, 5, 8, true);
		sent(5, IBV_WC_SUCCESS);
		/* Longer than a packet: as from everywhere, the send queue stops. */
		post_datagram(ah, shared->qp_num[FAR], QKEY, 6, 1025, false);
		sent(6, IBV_WC_LOC_LEN_ERR);
		if (ibv_modify_qp(e.qp, &rts, IBV_QP_STATE))
			fail("from SQE to RTS");
		all();
		/* No receive request: lost, as what comes behind it shows. */
		send_one(ah, shared->qp_num[FAR], 7, 8, false);
		send_one(ah, shared->of_second[FAR], 8, 8, false);
		all();
		send_one(ah, shared->qp_num[FAR], 9, 10, false);
		ibv_destroy_ah(ah);
	} else if (role == FAR) {
		receive(&wc, 5, 8, true);
		if (violations() != before + 1)
			fail("%u keys were wrong, and %u", before, violations());
		if (post_recv(&second, 8, 0, ROOM))
			fail("posting a receive");
		all();
		if (!next_wc(second.recv_cq, &wc) || wc.status != IBV_WC_SUCCESS)
			fail("nothing comes to the second queue pair");
		post_one(ROOM);
		all();
		receive_from_sender(9, 10, false, &shared->gid[FAR][version], 64);
	} else {
		all();
		all();
	}
}

/* A list to both hosts by turns ends in its order, and comes in that at each. */
static void lists(void)
{
	struct ibv_send_wr wr[16], *bad;
	struct ibv_sge sge[16];
	struct ibv_ah *ah[2];

	if (role == SENDER) {
		ah[0] = handle_to(&shared->gid[FAR][version], 64);
		ah[1] = handle_to(&shared->gid[NEAR][version], 64);
		for (uint32_t n = 0; n < 16; n++) {
			unsigned char *from = e.buffer + (RECEIVES / 2 + n) * ROOM;
			/* Pairs to each, so that there are bursts. */
			bool is_near = n % 4 >= 2;

			pattern(from, 100, n);
			sge[n] = (struct ibv_sge){(uintptr_t)from, 100, e.mr->lkey};
			wr[n] = (struct ibv_send_wr){
				.wr_id = n, .next = n < 15 ? &wr[n + 1] : NULL, .sg_list = &sge[n], .num_sge = 1, .opcode = IBV_WR_SEND,
				.send_flags = IBV_SEND_SIGNALED,
				.wr = {.ud = {.ah = ah[is_near], .remote_qpn = shared->qp_num[is_near ? NEAR : FAR], .remote_qkey = QKEY}},
			};
		}
		if (ibv_post_send(e.qp, wr, &bad))
			fail("posting a list");
		for (uint32_t n = 0; n < 16; n++)
			sent(n, IBV_WC_SUCCESS);
		ibv_destroy_ah(ah[0]);
		ibv_destroy_ah(ah[1]);
	} else if (role == FAR || role == NEAR) {
		for (uint32_t n = 0; n < 16; n++)
			if ((n % 4 >= 2) == (role == NEAR))
				receive_from_sender(n, 100, false, &shared->gid[role][version], 64);
	}
}

static void attach(const union ibv_gid *group)
{
	int ret = ibv_attach_mcast(e.qp, group, 0);

	if (ret)
		fail("attaching: %s", strerror(ret));
}

static void detach(const union ibv_gid *group)
{
	if (ibv_detach_mcast(e.qp, group, 0))
		fail("detaching");
}

/*
 * All are in a group, the sender too, and each gets each datagram once; who leaves it, none any more, and nobody those of
 * another group.
 */
static void group(const char *name)
{
	union ibv_gid to, other;
	struct ibv_ah *ah = NULL, *elsewhere = NULL;
	uint8_t hops = 7;

	if (inet_pton(AF_INET6, name, &to) != 1)
		fail("no address: %s", name);
	other = to;
	other.raw[15] ^= 0x55;
	attach(&to);
	if (role == SENDER) {
		ah = handle_to(&to, hops);
		elsewhere = handle_to(&other, hops);
	}
	all();
	for (uint32_t n = 0; n < MANY; n++) {
		if (role == SENDER) {
			send_one(elsewhere, GROUP_QP, 500 + n, 9, false);
			send_one(ah, GROUP_QP, n, 10 * n, n % 2);
		}
		receive_from_sender(n, 10 * n, n % 2, &to, hops);
		/* What is to be heard by many must find requests at all. */
		if (n % 10 == 9)
			all();
	}
	if (role == OTHER_FAR)
		detach(&to);
	all();
	if (role == SENDER)
		send_one(ah, GROUP_QP, 100, 5, false);
	if (role != OTHER_FAR)
		receive_from_sender(100, 5, false, &to, hops);
	all();
	if (role == OTHER_FAR)
		attach(&to);
	all();
	if (role == SENDER)
		send_one(ah, GROUP_QP, 101, 6, false);
	receive_from_sender(101, 6, false, &to, hops);
	all();
	detach(&to);
	if (ah) {
		ibv_destroy_ah(ah);
		ibv_destroy_ah(elsewhere);
	}
	all();
}

static void run(void)
{
	struct endpoint rc = {.type = IBV_QPT_RC};

	alarm(HANG_S);
	e.type = second.type = IBV_QPT_UD;
	e.cap = (struct ibv_qp_cap){32, RECEIVES, 2, 1, 64};
	e.cqe = 128;
	endpoint_open(&e, "rxe0");
	endpoint_open(&second, "rxe0");
	endpoint_open(&rc, "rxe0");
	if (modify_to_init(&e) || modify_to_rtr(&e, &rc.gid, 0) || modify_to_rts(&e) || modify_to_init(&second) ||
	    modify_to_rtr(&second, &rc.gid, 0))
		fail("queue pair");
	ready(&rc, &rc.gid, rc.qp->qp_num);
	for (int n = 0; n < 2; n++)
		if (ibv_query_gid(e.context, PORT, GID_INDEX + n, &shared->gid[role][n]))
			fail("gid");
	shared->qp_num[role] = e.qp->qp_num;
	shared->of_rc[role] = rc.qp->qp_num;
	shared->of_second[role] = second.qp->qp_num;
	for (int n = 0; n < 16; n++)
		post_one(ROOM);
	all();
	for (version = 0; version < 2; version++) {
		contents();
		all();
		lists();
		all();
		for (int n = 0; n < GROUPS; n++)
			if ((n > 0) == version)
				group(groups[n]);
		all();
	}
	/* Receive requests that are left go. */
	for (version = 0; version < 2; version++) {
		if (modify_to_reset(e.qp) || modify_to_init(&e) || modify_to_rtr(&e, &e.gid, 0) || modify_to_rts(&e))
			fail("queue pair");
		if (role == FAR)
			post_one(HEADER + 8);
		all();
		refused();
		all();
	}
	endpoint_close(&rc);
	endpoint_close(&second);
	endpoint_close(&e);
}

int main(void)
{
	pthread_barrierattr_t attr;
	pid_t children[ROLES];
	int status = 0, one;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pthread_barrierattr_init(&attr) ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) || pthread_barrier_init(&shared->all, &attr, ROLES))
		fail("a barrier");
	for (role = 0; role < ROLES; role++) {
		children[role] = fork();
		if (children[role] == 0) {
			run();
			_exit(0);
		}
	}
	/* Without one of them the others wait for ever. */
	for (int n = 0; n < ROLES; n++)
		if (wait(&one) > 0 && one && !status) {
			status = one;
			fprintf(stderr, "a process ended with status %#x\n", one);
			for (int other = 0; other < ROLES; other++)
				kill(children[other], SIGKILL);
		}
	return status != 0;
}
