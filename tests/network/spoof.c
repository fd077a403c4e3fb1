/*
 * spoof.c SECONDS [SEED] - damaged and forged packets come for queue pairs that are at work.
 *
 * Two processes on two hosts load two RC queue pairs and a UC one in both directions (tests/soft/load.h), two others send
 * datagrams from b to a, and a fifth one, on the host b, sends packets to the host a as long as that takes, some thousands a
 * second: bytes of any kind; packets of the peer's address that are damaged; whole ones of other addresses; whole ones of the
 * peer's with opcodes that its connection does not have, too short for their opcode, or for other queue pairs; datagrams
 * without the key or the partition of their receiver, damaged ones, and ones that are too short. None of them may change
 * anything: no request fails, what arrives is whole and in order, and the port counts keys and partitions that are wrong. What
 * is whole, of the peer's address and in the connection's order is the peer's, and a whole datagram with the right key is
 * anybody's, as RoCE has no secrets: these are not among them.
 *
 * Needs CAP_NET_RAW.
 */
/*
 * 17 s, eight times: a peer that lives must have answered, however busy the machine, and whatever the packets that somebody
 * forges leave no room for.
 */
#define TIMEOUT 22
#define RETRIES 7
#include "../soft/load.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#define ROCE 4791
#define MOST 1400 /* bytes behind the UDP header */
#define FROM 0x0a580002U /* 10.88.0.2 */
#define TO 0x0a580001U

enum kind { BYTES, DAMAGED, FOREIGN, OPCODE, SHORT, NUMBER, LONG, UD_KEY, UD_PARTITION, UD_DAMAGED, UD_SHORT, KINDS };

static const char *const names[KINDS] = {"bytes", "damaged", "foreign", "opcode", "short", "number", "long",
					 "UD key", "UD partition", "UD damaged", "UD short"};

/* What the sides tell the one that attacks them, and what that tells. */
static struct {
	volatile uint32_t qp_num[PAIRS + 1]; /* the last one is UD */
	volatile uint32_t ud_sender;
	volatile uint64_t datagrams;
	volatile uint64_t sent[KINDS];
} *told;

static uint32_t crc(const unsigned char *bytes, size_t length)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* The headers of a packet, and its invariant CRC; the bytes between are there. Their number is returned. */
static size_t seal(unsigned char *packet, uint32_t from, size_t roce)
{
	static unsigned char masked[8 + 28 + MOST];
	struct iphdr ip = {.version = 4, .ihl = 5, .frag_off = htons(IP_DF), .ttl = 64, .protocol = IPPROTO_UDP,
			   .tot_len = htons((uint16_t)(28 + roce + 4)), .saddr = htonl(from), .daddr = htonl(TO)};
	struct udphdr udp = {.source = htons(ROCE), .dest = htons(ROCE), .len = htons((uint16_t)(8 + roce + 4))};
	uint32_t sum;

	memcpy(packet, &ip, 20);
	memcpy(packet + 20, &udp, 8);
	memset(masked, 0xff, 8);
	memcpy(masked + 8, packet, 28 + roce);
	masked[8 + 1] = masked[8 + 8] = masked[8 + 10] = masked[8 + 11] = 0xff;
	masked[8 + 26] = masked[8 + 27] = 0xff;
	if (roce > 4)
		masked[8 + 28 + 4] = 0xff;
	sum = crc(masked, 8 + 28 + roce);
	memcpy(packet + 28 + roce, &sum, 4);
	return 28 + roce + 4;
}

/* Opcodes of RC and UC, and bytes of their headers behind the BTH. */
static const struct { unsigned char opcode, headers; } known[] = {
	{0x00, 0}, {0x01, 0}, {0x02, 0}, {0x03, 4}, {0x04, 0}, {0x05, 4}, {0x06, 16}, {0x07, 0}, {0x08, 0}, {0x09, 4},
	{0x0a, 16}, {0x0b, 20}, {0x0c, 16}, {0x0d, 4}, {0x0e, 0}, {0x0f, 4}, {0x10, 4}, {0x11, 4}, {0x12, 12}, {0x13, 28},
	{0x14, 28}, {0x16, 4}, {0x17, 4}, {0x20, 0}, {0x21, 0}, {0x22, 0}, {0x24, 0}, {0x26, 16}, {0x28, 0}, {0x2a, 16},
};
/* Those that neither of them has. */
static const unsigned char unknown[] = {0x15, 0x18, 0x1c, 0x1d, 0x1f, 0x2c, 0x3f, 0x40, 0x55, 0x64, 0x65, 0x80, 0xa4, 0xb1, 0xc0, 0xff};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static size_t make(unsigned char *packet, enum kind kind)
{
	unsigned char *bth = packet + 28;
	int which = (int)rnd(COUNT(known));
	uint32_t number = told->qp_num[rnd(PAIRS + 1)], from = FROM, key;
	size_t roce = 12 + known[which].headers + 4 * rnd(300);

	for (size_t i = 0; i < MOST; i++)
		bth[i] = (unsigned char)rnd(256);
	bth[0] = known[which].opcode;
	bth[1] = rnd(4) ? 0 : (unsigned char)rnd(256);
	if (rnd(4))
		bth[2] = bth[3] = 0xff;
	switch (kind) {
	case FOREIGN:
		from = (FROM & ~0xffU) | (3 + rnd(250));
		break;
	case OPCODE:
		bth[0] = unknown[rnd(COUNT(unknown))];
		break;
	case SHORT:
		while (!known[which].headers)
			which = (int)rnd(COUNT(known));
		bth[0] = known[which].opcode;
		roce = 4 * rnd((12 + known[which].headers) / 4U);
		break;
	case NUMBER:
		do
			number = rnd(3) ? rnd(1 << 16) : rnd(1 << 24);
		while (number == told->qp_num[0] || number == told->qp_num[1] || number == told->qp_num[2] ||
		       number == told->qp_num[PAIRS]);
		break;
	case UD_KEY:
	case UD_PARTITION:
	case UD_DAMAGED:
	case UD_SHORT:
		number = told->qp_num[PAIRS];
		bth[0] = 0x64 + (unsigned char)rnd(2);
		bth[1] = 0;
		bth[2] = bth[3] = 0xff;
		if (kind == UD_PARTITION)
			bth[3] = (unsigned char)rnd(255);
		do
			key = htonl(kind == UD_KEY ? rnd(UINT32_MAX) : QKEY);
		while (kind == UD_KEY && key == htonl(QKEY));
		memcpy(bth + 12, &key, 4);
		roce = kind == UD_SHORT ? 4 * rnd(5 + (bth[0] & 1)) : 20 + 4 + 4 * rnd(250);
		break;
	default:
		break;
	}
	number = htonl(number);
	if (kind != BYTES)
		memcpy(bth + 5, (unsigned char *)&number + 1, 3);
	size_t length = seal(packet, from, roce);
	/* The byte of congestion marks is not covered. */
	if (kind == DAMAGED || kind == UD_DAMAGED)
		bth[5 + rnd((uint32_t)roce - 1)] ^= (unsigned char)(1 << rnd(8));
	if (kind == BYTES)
		bth[roce] ^= 0x55;
	return length;
}

/* Sends until both sides have enough. */
static void attack(void)
{
	static unsigned char packet[28 + MOST + 8], large[60000];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE), .sin_addr = {htonl(TO)}};
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW), plain = socket(AF_INET, SOCK_DGRAM, 0);

	if (raw < 0 || plain < 0)
		fail("socket: %m");
	while (!shared->enough) {
		for (int i = 0; i < 16; i++) {
			enum kind kind = (enum kind)rnd(KINDS);
			const unsigned char *bytes = kind == LONG ? large : packet;
			size_t length = kind == LONG ? 2000 + rnd(sizeof(large) - 2000) : make(packet, kind);

			if (kind == LONG && rnd(16))
				continue;
			if (sendto(kind == LONG ? plain : raw, bytes, length, 0, (struct sockaddr *)&to, sizeof(to)) < 0 &&
			    errno != ENOBUFS && errno != EAGAIN)
				fail("sending %s, %zu bytes: %m", names[kind], length);
			told->sent[kind]++;
		}
		usleep(2000);
	}
	_exit(0);
}

/* Datagrams of the sender come, in order, and no others: some may be lost. */
static void receive_datagrams(void)
{
	struct endpoint e = {.type = IBV_QPT_UD, .cap = {1, 64, 1, 1, 0}};
	struct ibv_port_attr port;
	uint64_t next = 0;
	struct ibv_wc wc;

	endpoint_open(&e, "rxe0");
	if (modify_to_init(&e) || modify_to_rtr(&e, &e.gid, 0))
		fail("queue pair");
	for (uint64_t place = 0; place < 32; place++)
		if (post_recv(&e, place, place * 2048, 2048))
			fail("posting a receive");
	told->qp_num[PAIRS] = e.qp->qp_num;
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	while (!shared->enough) {
		const unsigned char *came;

		if (ibv_poll_cq(e.recv_cq, 1, &wc) != 1) {
			usleep(200);
			continue;
		}
		came = e.buffer + wc.wr_id * 2048 + 40;
		if (wc.status || wc.src_qp != told->ud_sender || wc.byte_len < 52)
			fail("a datagram of %u bytes, from %x: %s", wc.byte_len, wc.src_qp, ibv_wc_status_str(wc.status));
		check_message(came, wc.byte_len - 40, &next, false);
		told->datagrams++;
		if (post_recv(&e, wc.wr_id, wc.wr_id * 2048, 2048))
			fail("posting a receive");
	}
	if (ibv_query_port(e.context, PORT, &port) || !port.qkey_viol_cntr || !port.bad_pkey_cntr)
		fail("%u wrong keys, %u wrong partitions", port.qkey_viol_cntr, port.bad_pkey_cntr);
	endpoint_close(&e);
	_exit(0);
}

static void send_datagrams(void)
{
	struct endpoint e = {.type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
	struct ibv_ah_attr attr = {.grh = {.sgid_index = GID_INDEX, .hop_limit = 1}, .is_global = 1, .port_num = PORT};
	uint32_t to = htonl(TO);

	endpoint_open(&e, "rxe0");
	if (modify_to_init(&e) || modify_to_rtr(&e, &e.gid, 0) || modify_to_rts(&e))
		fail("queue pair");
	told->ud_sender = e.qp->qp_num;
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	memcpy(attr.grh.dgid.raw + 12, &to, 4);
	while (shared->loading < 4)
		usleep(1000);
	struct ibv_ah *ah = ibv_create_ah(e.pd, &attr);
	if (!ah)
		fail("address handle");
	for (uint64_t number = 0; !shared->enough; number++) {
		uint32_t length = 12 + rnd(1000);
		struct ibv_sge sge = {(uintptr_t)e.buffer, length, e.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
					 .wr = {.ud = {.ah = ah, .remote_qpn = told->qp_num[PAIRS], .remote_qkey = QKEY}}}, *bad;
		struct ibv_wc wc;

		write_message(e.buffer, number, length);
		if (ibv_post_send(e.qp, &wr, &bad) || !next_wc(e.send_cq, &wc) || wc.status)
			fail("sending datagram %lu", number);
		usleep(500);
	}
	if (ibv_destroy_ah(ah))
		fail("address handle");
	endpoint_close(&e);
	_exit(0);
}

static void side(int socket, bool tells)
{
	open_side();
	if (!connect_side(socket))
		_exit(1);
	for (int p = 0; p < PAIRS && tells; p++)
		told->qp_num[p] = s.pair[p].qp->qp_num;
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(!tells);
	close_side();
	_exit(0);
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10, sockets[2], failed = 0, status;
	pid_t pids[5];

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() ^ now_ms() << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	load_init();
	told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("memory");
	/* By turns on the hosts b and a. */
	for (int nth = 0; nth < 5; nth++) {
		pids[nth] = fork();
		if (pids[nth])
			continue;
		seed ^= (uint64_t)getpid() << 32;
		if (nth < 2)
			side(sockets[nth], nth == 1);
		if (nth == 2)
			send_datagrams();
		if (nth == 3)
			receive_datagrams();
		while (shared->loading < 4)
			usleep(1000);
		attack();
	}
	close(sockets[0]);
	close(sockets[1]);
	for (uint64_t end = now_ms() + 1000 * (uint64_t)seconds; now_ms() < end;) {
		siginfo_t info = {0};

		/* Nobody ends before. */
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
			break;
		usleep(10000);
	}
	shared->enough = 1;
	for (int nth = 0; nth < 5; nth++) {
		waitpid(pids[nth], &status, 0);
		if (status)
			fprintf(stderr, "process %d ended with status %#x\n", nth, status);
		failed += !!status;
	}
	for (int kind = 0; kind < KINDS; kind++) {
		printf("%lu %s, ", told->sent[kind], names[kind]);
		failed += !told->sent[kind];
	}
	printf("beside %lu requests, %lu messages and %lu datagrams\n", shared->posted, shared->received, told->datagrams);
	failed += shared->received < 100 || told->datagrams < 100;
	printf("%d failed\n", failed);
	return failed ? 1 : 0;
}
