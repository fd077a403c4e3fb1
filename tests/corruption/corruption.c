/*
 * corruption.c [--attacks KIND,...] [--seconds N] [--seed N] FOLDER
 *
 * Two processes work with each other on the software device, in FOLDER/attacked, while a third one of the same user spoils
 * the segment of one of them and the files in the folder, at random. They connect again whenever something breaks. Whoever
 * may write the segments can break connections and forge completions; what must hold is:
 *
 *   - no process ends by a signal;
 *   - no call lasts longer than CALL_MS, and objects can be destroyed;
 *   - memory that is not registered, and memory that is registered for local writes alone and given to no request, stays
 *     as it is;
 *   - when the attacker has ended, both open a device in FOLDER/fresh, and their messages arrive.
 *
 *   queues    words of the segment but for those of the next two kinds: queues, mailboxes, free space
 *   sealed    words and the length of memory that the victim has open without a name, if the kernel lets them
 *   header    words of its first page
 *   keys      words of its table of keys
 *   pins      words that say that the peer uses a key of the victim's just now
 *   held      locks of queues, which the peer is said to have
 *   truncate  its length, shorter and longer, and that of the files in the folder
 *   links     hard and symbolic links to it under other names of the folder, and links in place of its name
 *   rename    its name, and those of other files
 *   replace   other files, folders and FIFOs under its name
 *   locks     record locks on it
 *   bells     bytes put into and taken out of bells, and bells removed
 *   folder    the folder's and the files' modes, the folder's name
 *
 * Attacks are done in turn in stretches of random length, one kind or several at once. Prints the seed first and
 * figures last; status 1 when something did not hold.
 */
#include "../soft/peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define PAIRS 3 /* the last one is UC */
#define DEPTH 8
#define RECEIVES 16
#define SIZE 8192
#define CALL_MS 25000   /* what the library waits for, at most 10 s each, and a busy machine */
#define SILENT_MS 120000 /* a round of both */
#define AREA (256 << 10)
#define GUARD (64 << 10)
#define BLOCKS 64
#define BLOCK (12 << 10)

enum attack { QUEUES, HEADER, KEYS, PINS, HELD, SEALED, TRUNCATE, LINKS, RENAME, REPLACE, LOCKS, BELLS, FOLDER, ATTACKS };

static const char *const attack_names[ATTACKS] = {"queues",   "header", "keys",   "pins",    "held",  "sealed",
						  "truncate", "links",  "rename", "replace", "locks", "bells", "folder"};

/* What a process tells the one that watches all. */
struct report {
	const char *volatile call; /* under way; the processes have the same program at the same addresses */
	volatile uint64_t since;
	volatile uint64_t slowest;
	const char *volatile slowest_call;
	volatile uint64_t rounds, connected, completions, errors, reopened, refused;
};

static struct shared {
	struct report honest[2];
	volatile bool stop; /* the attack is over */
	volatile pid_t working[2]; /* the victim comes first */
	volatile uint32_t keys[2]; /* the victim's */
	volatile uint64_t done[ATTACKS];
	volatile int under_way; /* bits of attacks */
} *shared;

static uint64_t seed;
static const char *folder;

static uint32_t rnd(uint32_t below)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

/* --- The two that work. */

static struct report *report;

/* A call of the library, with the time it takes. */
#define CALL(expression)                                                                                               \
	({                                                                                                             \
		uint64_t started_ = now_ms();                                                                          \
		report->since = started_;                                                                              \
		report->call = #expression;                                                                            \
		__auto_type result_ = expression;                                                                      \
		report->call = NULL;                                                                                   \
		if (now_ms() - started_ > report->slowest) {                                                           \
			report->slowest = now_ms() - started_;                                                         \
			report->slowest_call = #expression;                                                            \
		}                                                                                                      \
		result_;                                                                                               \
	})

static struct {
	unsigned char *area;      /* registered, for everything */
	unsigned char *guards[2]; /* before and behind it, not registered */
	unsigned char *local;     /* registered for local writes, and no request names it */
	unsigned char *blocks[BLOCKS];
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr, *local_mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[PAIRS];
	struct told {
		struct peer peer;
		uint64_t local;
		uint32_t local_rkey;
	} told; /* by the other one */
} s;

static unsigned char *inaccessible_around(size_t length)
{
	unsigned char *start = mmap(NULL, length + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED || mprotect(start + GUARD, length, PROT_READ | PROT_WRITE))
		fail("memory");
	return start + GUARD;
}

static void lay_out(void)
{
	unsigned char *whole = inaccessible_around(AREA + 2 * GUARD);

	s.guards[0] = whole;
	s.area = whole + GUARD;
	s.guards[1] = whole + GUARD + AREA;
	s.local = inaccessible_around(GUARD);
	pattern(s.guards[0], GUARD, 1);
	pattern(s.guards[1], GUARD, 2);
	pattern(s.local, GUARD, 3);
	for (int i = 0; i < BLOCKS; i++) {
		s.blocks[i] = malloc(BLOCK);
		if (!s.blocks[i])
			fail("memory");
		pattern(s.blocks[i], BLOCK, (unsigned)i);
	}
}

static void untouched(const char *what, const unsigned char *p, size_t length, unsigned number)
{
	static unsigned char want[GUARD];
	size_t first = 0, changed = 0;

	pattern(want, length, number);
	if (!memcmp(p, want, length))
		return;
	for (size_t i = length; i-- > 0;)
		if (p[i] != want[i]) {
			first = i;
			changed++;
		}
	fail("%s was changed: %zu bytes from byte %zu on, attacks under way %#x", what, changed, first, shared->under_way);
}

static void all_untouched(void)
{
	untouched("memory before the region", s.guards[0], GUARD, 1);
	untouched("memory behind the region", s.guards[1], GUARD, 2);
	untouched("memory for local writes", s.local, GUARD, 3);
	for (int i = 0; i < BLOCKS; i++)
		untouched("memory on the heap", s.blocks[i], BLOCK, (unsigned)i);
}

/* A destruction. It must work, whatever stands in the segment. */
#define END(object, verb)                                                                                              \
	do {                                                                                                           \
		if (object) {                                                                                          \
			int ret_ = CALL(verb(object));                                                                 \
			if (ret_)                                                                                      \
				fail("%s = %d, errno %s, attacks under way %#x", #verb, ret_, errno_name(errno),       \
				     shared->under_way);                                                               \
			object = NULL;                                                                                 \
		}                                                                                                      \
	} while (0)

static void close_queues(void)
{
	for (int i = 0; i < PAIRS; i++)
		END(s.qp[i], ibv_destroy_qp);
	END(s.cq, ibv_destroy_cq);
	END(s.channel, ibv_destroy_comp_channel);
}

static void close_all(void)
{
	close_queues();
	END(s.mr, ibv_dereg_mr);
	END(s.local_mr, ibv_dereg_mr);
	END(s.pd, ibv_dealloc_pd);
	END(s.context, ibv_close_device);
}

/* Everything up to connecting; false when the library refused something. */
static bool open_all(void)
{
	if (!s.context) {
		struct ibv_device **list = CALL(ibv_get_device_list(NULL));

		if (!list)
			return false;
		s.context = list[0] ? CALL(ibv_open_device(list[0])) : NULL;
		ibv_free_device_list(list);
		if (!s.context || fcntl(s.context->async_fd, F_SETFL, O_NONBLOCK))
			return false;
	}
	if (!s.pd && !(s.pd = CALL(ibv_alloc_pd(s.context))))
		return false;
	if (!s.mr && !(s.mr = CALL(ibv_reg_mr(s.pd, s.area, AREA,
					      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_ATOMIC))))
		return false;
	if (!s.local_mr && !(s.local_mr = CALL(ibv_reg_mr(s.pd, s.local, GUARD, IBV_ACCESS_LOCAL_WRITE))))
		return false;
	if (!(s.channel = CALL(ibv_create_comp_channel(s.context))) || fcntl(s.channel->fd, F_SETFL, O_NONBLOCK))
		return false;
	if (!(s.cq = CALL(ibv_create_cq(s.context, PAIRS * (DEPTH + RECEIVES), NULL, s.channel, 0))))
		return false;
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {DEPTH, RECEIVES, 2, 2, 0},
						.qp_type = i == PAIRS - 1 ? IBV_QPT_UC : IBV_QPT_RC, .sq_sig_all = 1};
		struct endpoint names = {.type = init.qp_type};

		if (!(s.qp[i] = CALL(ibv_create_qp(s.pd, &init))))
			return false;
		names.qp = s.qp[i];
		if (CALL(modify_to_init(&names)))
			return false;
	}
	return true;
}

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)s.area + rnd(AREA - SIZE), SIZE, s.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CALL(ibv_post_recv(qp, &wr, &bad));
}

static bool connect_all(void)
{
	for (int i = 0; i < PAIRS; i++) {
		struct endpoint names = {.qp = s.qp[i], .type = s.qp[i]->qp_type, .timeout = 10, .retry_cnt = 2};

		if (CALL(modify_to_rtr(&names, &s.told.peer.gid, s.told.peer.qp_num[i])) || CALL(modify_to_rts(&names)))
			return false;
		for (int j = 0; j < RECEIVES; j++)
			receive(s.qp[i]);
	}
	return true;
}

static void send_one(int i)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP};
	uint32_t length = rnd(2) ? rnd(192) : rnd(SIZE);
	struct ibv_sge sge[2] = {{(uintptr_t)s.area + rnd(AREA - SIZE), length / 2, s.mr->lkey},
				 {(uintptr_t)s.area + rnd(AREA - SIZE), length - length / 2, s.mr->lkey}};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 2}, *bad;

	wr.opcode = opcodes[rnd(s.qp[i]->qp_type == IBV_QPT_UC ? 4 : 7)];
	wr.wr.rdma.remote_addr = s.told.peer.address + rnd(AREA - SIZE);
	wr.wr.rdma.rkey = s.told.peer.rkey;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sge[0].length = 8;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = s.told.peer.address + 8 * rnd(AREA / 8);
		wr.wr.atomic.compare_add = rnd(3);
		wr.wr.atomic.swap = rnd(3);
		wr.wr.atomic.rkey = s.told.peer.rkey;
	}
	/* Now and then what must be refused: memory around the region, or memory for local writes. */
	if (rnd(500) == 0)
		wr.wr.rdma.remote_addr = s.told.peer.address - GUARD + rnd(2) * (GUARD + AREA) + 8 * rnd(GUARD / 8 - 1);
	if (rnd(500) == 0 && wr.opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && wr.opcode != IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.rdma.remote_addr = s.told.local + rnd(GUARD - SIZE);
		wr.wr.rdma.rkey = s.told.local_rkey;
	}
	CALL(ibv_post_send(s.qp[i], &wr, &bad));
}

/* Takes completions, which may be lies; returns how many were errors. */
static uint64_t take_completions(void)
{
	struct ibv_wc wc[8];
	uint64_t errors = 0;
	int n, polls = 64;

	while (polls-- > 0 && (n = CALL(ibv_poll_cq(s.cq, 8, wc)))) {
		if (n > 8)
			fail("8 completions were asked for, %d came", n);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS) {
				errors++;
				continue;
			}
			report->completions++;
			receive(s.qp[rnd(PAIRS)]);
		}
		if (n < 0) {
			errors++;
			break;
		}
	}
	report->errors += errors;
	return errors;
}

static void work(void)
{
	uint64_t until = now_ms() + 10 + rnd(150), broken_until = UINT64_MAX;
	bool asleep = rnd(2);

	while (now_ms() < until && now_ms() < broken_until) {
		struct ibv_async_event event;
		struct ibv_cq *cq;
		void *context;

		if (take_completions() && broken_until == UINT64_MAX)
			broken_until = now_ms() + 5;
		for (int i = 0; i < PAIRS; i++)
			for (int j = rnd(DEPTH); j > 0; j--)
				send_one(i);
		if (!CALL(ibv_get_async_event(s.context, &event)))
			ibv_ack_async_event(&event);
		if (asleep && !CALL(ibv_req_notify_cq(s.cq, 0)) && readable(s.channel->fd, 2) &&
		    !CALL(ibv_get_cq_event(s.channel, &cq, &context)))
			ibv_ack_cq_events(cq, 1);
	}
}

/* Both say what they have, and hear the same of the other; a queue pair of number 0 is none. */
static bool tell_each_other(int socket, bool ready)
{
	struct told own = {.peer = {.address = (uintptr_t)s.area}, .local = (uintptr_t)s.local};

	if (ready && !CALL(ibv_query_gid(s.context, PORT, gid_index(), &own.peer.gid))) {
		own.peer.rkey = s.mr->rkey;
		own.local_rkey = s.local_mr->rkey;
		if (report == &shared->honest[0]) {
			shared->keys[0] = s.mr->rkey;
			shared->keys[1] = s.local_mr->rkey;
		}
		for (int i = 0; i < PAIRS; i++)
			own.peer.qp_num[i] = s.qp[i]->qp_num;
	}
	if (!swap(socket, &own, &s.told, sizeof(own)))
		fail("the other process does not answer");
	return own.peer.qp_num[0] && s.told.peer.qp_num[0];
}

/* In the fresh folder everything works. */
static void prove(int socket)
{
	struct ibv_wc wc;
	unsigned char *sent = s.area, *got = s.area + AREA / 2;
	char path[512];

	snprintf(path, sizeof(path), "%s/fresh", folder);
	setenv("IRONVERBS_SOFT_DIR", path, 1);
	if (!open_all())
		fail("no device in a fresh folder: errno %s", errno_name(errno));
	if (!tell_each_other(socket, true))
		fail("the other has no device");
	for (int i = 0; i < 2; i++) {
		struct endpoint names = {.qp = s.qp[i], .type = IBV_QPT_RC};

		if (CALL(modify_to_rtr(&names, &s.told.peer.gid, s.told.peer.qp_num[i])) || CALL(modify_to_rts(&names)))
			fail("connecting in a fresh folder");
	}
	if (!meet(socket))
		fail("the other one is gone");
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_sge from = {(uintptr_t)sent, 1 + rnd(SIZE - 1), s.mr->lkey}, to = {(uintptr_t)got, SIZE, s.mr->lkey};
		struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = {.wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
		uint32_t length = 0;

		pattern(sent, from.length, i);
		if (ibv_post_recv(s.qp[0], &recv, &bad_recv) || !meet(socket) || ibv_post_send(s.qp[0], &send, &bad_send))
			fail("posting in a fresh folder");
		for (int j = 0; j < 2; j++) {
			if (!next_wc(s.cq, &wc) || wc.status)
				fail("message %u in a fresh folder: %s", i, ibv_wc_status_str(wc.status));
			if (wc.wr_id == 1)
				length = wc.byte_len;
		}
		pattern(sent, length, i);
		if (!length || memcmp(sent, got, length))
			fail("message %u in a fresh folder is damaged", i);
	}
	if (!meet(socket))
		fail("the other one is gone");
	close_all();
}

static void honest(int number, int socket)
{
	struct timeval limit = {SILENT_MS / 1000, 0};
	bool more = true;

	report = &shared->honest[number];
	seed += (uint64_t)number << 56;
	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	lay_out();
	shared->working[number] = getpid();
	while (more) {
		char go_on = !shared->stop, others;
		bool ready = open_all();

		if (!ready)
			report->refused++;
		if (tell_each_other(socket, ready)) {
			if (connect_all()) {
				report->connected++;
				work();
			}
		} else {
			usleep(1000);
		}
		all_untouched();
		/* Both are done before queue pairs go, so that connections mostly end while there is traffic. */
		if (!swap(socket, &go_on, &others, 1))
			fail("the other process does not answer");
		more = go_on && others;
		if (!ready || rnd(6) == 0) {
			close_all();
			report->reopened++;
		} else {
			close_queues();
		}
		report->rounds++;
	}
	close_all();
	prove(socket);
	all_untouched();
	_exit(0);
}

/* --- The third one. */

/* The segment of one of the two: a file that it has open, that begins as segments do, and that no other declared its own. */
static int segment_of(int number)
{
	char path[64];
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)shared->working[number]);
	list = opendir(path);
	for (struct dirent *entry; list && (entry = readdir(list));) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
		struct stat stat;
		char name[512], magic[8];
		int fd;

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		/* Opening a FIFO there would be an attack already. */
		if (fstatat(AT_FDCWD, name, &stat, 0) || !S_ISREG(stat.st_mode) || (fd = open(name, O_RDWR | O_CLOEXEC)) < 0)
			continue;
		if (pread(fd, magic, 8, 0) == 8 && !memcmp(magic, "ironsoft", 8) && !fcntl(fd, F_GETLK, &lock) &&
		    (lock.l_type == F_UNLCK || lock.l_pid == shared->working[number])) {
			closedir(list);
			return fd;
		}
		close(fd);
	}
	if (list)
		closedir(list);
	return -1;
}

/* One of the files without a name that the victim has open. */
static int nameless(void)
{
	char path[64], name[512], target[512];
	DIR *list;
	int found = -1, count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)shared->working[0]);
	list = opendir(path);
	for (struct dirent *entry; list && (entry = readdir(list));) {
		ssize_t n;

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		n = readlink(name, target, sizeof(target) - 1);
		/* The segment is one, too. */
		if (n < 17 || memcmp(target, "/memfd:ironverbs ", 17) || rnd((uint32_t)++count))
			continue;
		if (found >= 0)
			close(found);
		found = open(name, O_RDWR | O_CLOEXEC);
	}
	if (list)
		closedir(list);
	return found;
}

static uint64_t word_at(int fd, uint64_t at)
{
	uint64_t word = 0;

	return pread(fd, &word, 8, (off_t)at) == 8 ? word : 0;
}

/* Where the table of keys is: pins, the directory, and chunks of entries of 64 bytes (softrdma/src/shm/keys.rs). */
#define KEYS_ROOT (128 + 8 * 3)
#define KEYS_HEAD (16 * 128 + 8 * 4096)
#define KEYS_CHUNK (64 * 4096)

static bool in(uint64_t at, uint64_t start, uint64_t length)
{
	return start && at >= start && at - start < length;
}

static bool is_of_keys(int fd, uint64_t at)
{
	uint64_t table = word_at(fd, KEYS_ROOT);

	return in(at, table, KEYS_HEAD) || in(at, word_at(fd, table + 16 * 128), KEYS_CHUNK);
}

/* A place for an attack on words; mostly one where something stands. */
static uint64_t place(int fd, enum attack kind, uint64_t length)
{
	uint64_t at = 0, table = word_at(fd, KEYS_ROOT);

	for (int tries = rnd(4) ? 64 : 1; tries-- > 0;) {
		switch (kind) {
		case HEADER:
			at = 8 * rnd(4096 / 8);
			break;
		case KEYS:
			/* Keys are few: the first entries are those in use. */
			at = rnd(4) ? word_at(fd, table + 16 * 128) + 8 * rnd(64 * 32 / 8) : table + 8 * rnd(KEYS_HEAD / 8);
			break;
		default:
			at = 4096 + 8ULL * rnd((uint32_t)(length / 8));
			if (is_of_keys(fd, at))
				at = 0;
			break;
		}
		if (at && word_at(fd, at))
			break;
	}
	return at;
}

/* The word that the peer signs with. */
static uint64_t peers_signature(void)
{
	int fd = segment_of(1);
	uint64_t word = fd < 0 ? 0 : word_at(fd, 16);

	if (fd >= 0)
		close(fd);
	return word;
}

static void put(int fd, uint64_t at, uint64_t word)
{
	if (pwrite(fd, &word, 8, (off_t)at) != 8)
		return; /* it will not be missed */
}

/* Pins are two words each: who, and which key. */
static void pin_key(int fd)
{
	uint64_t pin = word_at(fd, KEYS_ROOT) + 16 * rnd(128), who = peers_signature();

	if (pin < 4096 || !who)
		return;
	put(fd, pin + 8, shared->keys[rnd(2)]);
	put(fd, pin, who);
}

/*
 * The lock is the ninth word of an entry of 256 bytes in the tables of queues, or of the body that its sixth word leads to
 * (softrdma/src/shm/objects/layout.rs).
 */
static void hold_lock(int fd)
{
	uint64_t chunk = word_at(fd, word_at(fd, 128 + 8 * rnd(3))), entry = chunk + 256 * rnd(16), who = peers_signature();
	uint64_t body = word_at(fd, entry + 40);

	if (chunk && who && word_at(fd, entry))
		put(fd, (body ? body : entry) + 64, who);
}

/* Leaves a key that is in use valid, and moves, widens or opens the memory behind it. */
static void divert_key(int fd)
{
	uint64_t chunk = word_at(fd, word_at(fd, KEYS_ROOT) + 16 * 128), entry, word;
	int which = 2 + (int)rnd(4); /* first address, length, rights, address in the owner's memory */

	for (int tries = 64; tries-- > 0;) {
		entry = chunk + 64 * (1 + rnd(32));
		if (!chunk || !word_at(fd, entry))
			continue;
		word = word_at(fd, entry + 8ULL * (unsigned)which);
		switch (which) {
		case 3: word = rnd(2) ? ~0ULL : word + GUARD; break;
		case 4: word = 0x1f; break;
		default: word += rnd(2) ? 4096ULL * (rnd(65) - 32U) : 8ULL * (rnd(65) - 32U); break;
		}
		put(fd, entry + 8ULL * (unsigned)which, word);
		return;
	}
}

static void spoil_word(int fd, enum attack kind)
{
	static uint64_t last;
	struct stat stat;
	uint64_t at, word;

	if (fstat(fd, &stat) || stat.st_size < 8192)
		return;
	at = place(fd, kind, (uint64_t)stat.st_size - 4096);
	if ((!at && kind != HEADER) || at + 8 > (uint64_t)stat.st_size)
		return;
	word = word_at(fd, at);
	switch (rnd(10)) {
	case 0: word = 0; break;
	case 1: word = ~0ULL; break;
	case 2: word = (uint64_t)rnd(UINT32_MAX) << 32 | rnd(UINT32_MAX); break;
	case 3: word += (uint64_t)(int64_t)(int32_t)(rnd(129) - 64); break;
	case 4: word += 4096ULL * (rnd(65) - 32U); break;
	case 5: word = last; break; /* one that stood elsewhere */
	case 6: word = rnd((uint32_t)stat.st_size) & ~7U; break;
	case 7: word += (1ULL << 32) * (rnd(3) - 1U); break;
	default: word ^= 1ULL << rnd(64); break;
	}
	last = word_at(fd, at);
	put(fd, at, word);
}

/* A name in the folder; of those that begin with `first`, if that is not 0. */
static bool any_name(const char *path, char first, char *name, size_t length)
{
	DIR *list = opendir(path);
	int count = 0;

	for (struct dirent *entry; list && (entry = readdir(list));)
		if (entry->d_name[0] != '.' && (!first || entry->d_name[0] == first) && rnd((uint32_t)++count) == 0)
			snprintf(name, length, "%s/%s", path, entry->d_name);
	if (list)
		closedir(list);
	return count > 0;
}

static void new_name(const char *path, char *name, size_t length)
{
	switch (rnd(4)) {
	case 0: snprintf(name, length, "%s/t%08x%08x", path, rnd(UINT32_MAX), rnd(UINT32_MAX)); break;
	case 1: snprintf(name, length, "%s/b%04u-%014x-%u", path, rnd(4), rnd(UINT32_MAX), rnd(4)); break;
	case 2: snprintf(name, length, "%s/s%04u", path, 4 + rnd(12)); break;
	default: snprintf(name, length, "%s/s%04u", path, rnd(4)); break;
	}
}

/* The name of the file behind a descriptor. */
static bool name_of(int fd, char *name, size_t length)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, length - 1);
	if (n <= 0)
		return false;
	name[n] = 0;
	return !access(name, F_OK);
}

static void attack(enum attack kind, int fd, const char *path)
{
	char one[600] = "", other[600] = "", side[600];
	struct stat stat;
	int new, old;

	switch (kind) {
	case TRUNCATE:
		new = rnd(2) && any_name(path, 's', one, sizeof(one)) ? open(one, O_RDWR | O_NONBLOCK | O_CLOEXEC) : dup(fd);
		if (!fstat(new, &stat) &&
		    !ftruncate(new, rnd(3) ? (off_t)rnd((uint32_t)stat.st_size + 1) : rnd(2) ? 0 : stat.st_size + 65536) &&
		    rnd(2) && ftruncate(new, stat.st_size))
			kind = TRUNCATE;
		close(new);
		break;
	case LINKS:
		new_name(path, other, sizeof(other));
		if (!name_of(fd, one, sizeof(one)) && !any_name(path, 0, one, sizeof(one)))
			break;
		if (rnd(3) == 0) {
			unlink(other);
			if (symlink(rnd(2) ? one : "/dev/zero", other))
				break;
		} else if (link(one, other) && errno == EEXIST && rnd(2)) {
			/* In place of another one. */
			snprintf(side, sizeof(side), "%s/x", path);
			if (!link(one, side))
				rename(side, other);
			unlink(side);
		}
		break;
	case RENAME:
		if (!name_of(fd, one, sizeof(one)) || rnd(2))
			if (!any_name(path, 0, one, sizeof(one)))
				break;
		if (rnd(2) || !any_name(path, 0, other, sizeof(other)))
			new_name(path, other, sizeof(other));
		if (renameat2(AT_FDCWD, one, AT_FDCWD, other, rnd(2) ? RENAME_EXCHANGE : 0) && errno == ENOENT)
			rename(one, other);
		break;
	case REPLACE:
		if (!name_of(fd, one, sizeof(one)) || rnd(3) == 0)
			if (!any_name(path, 0, one, sizeof(one)))
				break;
		old = open(one, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		if (unlink(one))
			rmdir(one);
		switch (rnd(6)) {
		case 0: break;
		case 1: mkfifo(one, 0600); break;
		case 2: mkdir(one, 0700); break;
		case 3: if (symlink("/dev/zero", one)) break; break;
		default:
			/* A copy, with words that are different. */
			new = open(one, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
			if (new < 0)
				break;
			if (old >= 0 && rnd(2)) {
				uint64_t words[8] = {0};

				if (pread(old, words, sizeof(words), 0) > 0 && pwrite(new, words, sizeof(words), 0) > 0)
					put(new, 8 * rnd(8), rnd(2) ? rnd(64) : rnd(UINT32_MAX));
			}
			for (off_t at = 0; old < 0 && at < 65536; at += 4096) {
				char page[4096];

				if (pread(fd, page, 4096, at) != 4096 || pwrite(new, page, 4096, at) != 4096)
					break;
			}
			for (int i = rnd(20); i > 0; i--)
				spoil_word(new, rnd(2) ? HEADER : QUEUES);
			close(new);
		}
		if (old >= 0)
			close(old);
		break;
	case LOCKS: {
		/* Of the open file, so that they stay until that is closed. */
		static int named = -1;
		struct flock lock = {.l_type = rnd(3) ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = rnd(4), .l_len = 1 + rnd(3)};

		if (rnd(4) == 0 && any_name(path, 's', one, sizeof(one))) {
			if (named >= 0)
				close(named);
			named = open(one, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		}
		if (named >= 0 && rnd(2))
			fd = named;
		fcntl(fd, F_OFD_SETLK, &lock);
		flock(fd, rnd(2) ? LOCK_EX | LOCK_NB : LOCK_UN);
		break;
	}
	case BELLS:
		if (!any_name(path, 'b', one, sizeof(one)))
			break;
		if (rnd(8) == 0) {
			unlink(one);
		} else if ((new = open(one, O_RDWR | O_NONBLOCK | O_CLOEXEC)) >= 0) {
			if (rnd(2) ? read(new, side, rnd(100)) : write(new, side, rnd(sizeof(side))))
				kind = BELLS;
			close(new);
		}
		break;
	case FOLDER:
		switch (rnd(4)) {
		case 0: chmod(path, rnd(01000)); usleep(rnd(2000)); chmod(path, 0700); break;
		case 1:
			snprintf(other, sizeof(other), "%s.away", path);
			if (!rename(path, other)) {
				usleep(rnd(2000));
				rmdir(path);
				rename(other, path);
			}
			break;
		default:
			if (any_name(path, 0, one, sizeof(one))) {
				chmod(one, rnd(01000));
				usleep(rnd(2000));
				chmod(one, 0600);
			}
		}
		break;
	case KEYS:
		if (rnd(4)) {
			divert_key(fd);
			break;
		}
		spoil_word(fd, kind);
		break;
	case PINS: pin_key(fd); break;
	case SEALED:
		new = nameless();
		if (new < 0 || fstat(new, &stat))
			break;
		put(new, 8 * rnd((uint32_t)(stat.st_size / 8 + 1)), rnd(2) ? 0 : ~0ULL);
		if (rnd(2) && ftruncate(new, rnd(2) ? 0 : stat.st_size + 4096))
			kind = SEALED;
		close(new);
		break;
	case HELD:
		/* Each costs whoever waits for it up to two seconds. */
		if (rnd(10) == 0)
			hold_lock(fd);
		break;
	default: spoil_word(fd, kind);
	}
	shared->done[kind]++;
}

static void third(const bool *wanted)
{
	enum attack kinds[ATTACKS], now[ATTACKS];
	int count = 0, some = 0, fd = -1, turn = 0;
	uint64_t stretch = 0;
	char path[512];

	seed += 7ULL << 56;
	snprintf(path, sizeof(path), "%s/attacked", folder);
	for (int i = 0; i < ATTACKS; i++)
		if (wanted[i])
			kinds[count++] = (enum attack)i;
	for (;;) {
		if (now_ms() > stretch) {
			int bits = 0;

			stretch = now_ms() + 50 + rnd(400);
			some = 1 + (int)rnd(3);
			for (int i = 0; i < some; i++) {
				now[i] = kinds[i ? (int)rnd((uint32_t)count) : turn++ % count];
				bits |= 1 << now[i];
			}
			shared->under_way = bits;
			if (fd >= 0)
				close(fd);
			fd = -1;
		}
		if (fd < 0 || rnd(16) == 0) {
			if (fd >= 0)
				close(fd);
			fd = segment_of(0);
		}
		if (fd < 0) {
			usleep(500);
			continue;
		}
		for (int i = 1 + (int)rnd(4); i > 0; i--)
			attack(now[rnd((uint32_t)some)], fd, path);
		/* Sometimes a hail, mostly a word every now and then, so that connections come up. */
		if (rnd(20))
			usleep(rnd(rnd(4) ? 2000 : 30000));
	}
}

/* --- Who starts and watches them. */

#define LONGER_MS 60000

/* The attack is over: its time, and on a busy machine longer, until every kind has had a turn. */
static bool is_over(const bool *wanted, uint64_t passed, uint64_t seconds)
{
	if (passed <= 1000 * seconds)
		return false;
	for (int i = 0; i < ATTACKS; i++)
		if (wanted[i] && !shared->done[i])
			return passed > 1000 * seconds + LONGER_MS;
	return true;
}

static pid_t start(int number, int socket, int other)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(other);
		honest(number, socket);
	}
	return pid;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"attacks", 1, NULL, 'a'}, {"seconds", 1, NULL, 't'}, {"seed", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
	bool wanted[ATTACKS] = {false}, any = false;
	static const char *const who[] = {"the attacked process", "its peer"};
	int sockets[2], status, failed = 0, living = 2;
	uint64_t started = now_ms(), seconds = 20;
	pid_t pids[2], attacker;
	char path[512];

	seed = (uint64_t)getpid() ^ started << 20;
	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (option) {
		case 'a':
			for (char *name = strtok(optarg, ","); name; name = strtok(NULL, ",")) {
				int i = 0;

				while (i < ATTACKS && strcmp(name, attack_names[i]))
					i++;
				if (i == ATTACKS)
					fail("no attack %s", name);
				wanted[i] = any = true;
			}
			break;
		case 't': seconds = strtoull(optarg, NULL, 0); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		default: return 2;
		}
	if (optind + 1 != argc)
		fail("FOLDER?");
	folder = argv[optind];
	for (int i = 0; !any && i < ATTACKS; i++)
		wanted[i] = true;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	snprintf(path, sizeof(path), "%s/attacked", folder);
	setenv("IRONVERBS_SOFT_DIR", path, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("setup");
	pids[0] = start(0, sockets[0], sockets[1]);
	pids[1] = start(1, sockets[1], sockets[0]);
	close(sockets[0]);
	close(sockets[1]);
	attacker = fork();
	if (!attacker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		third(wanted);
	}
	while (living) {
		if (!shared->stop && (is_over(wanted, now_ms() - started, seconds) || failed)) {
			kill(attacker, SIGKILL);
			waitpid(attacker, &status, 0);
			shared->stop = true;
		}
		for (int i = 0; i < 2; i++) {
			struct report *r = &shared->honest[i];
			const char *call = r->call;
			uint64_t since = r->since;

			if (!pids[i])
				continue;
			if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
				if (status) {
					printf("FAIL %s ended with status %#x, attacks under way %#x, call %s\n", who[i], status,
					       shared->under_way, call ? call : "-");
					failed++;
				}
				pids[i] = 0;
				living--;
			} else if (failed > living || (call && now_ms() - since > CALL_MS)) {
				if (failed <= living)
					printf("FAIL %s: %s lasts longer than %d ms, attacks under way %#x\n", who[i], call, CALL_MS,
					       shared->under_way);
				failed++;
				if (getenv("CORRUPTION_STACK")) {
					char command[128];

					snprintf(command, sizeof(command), "gdb -p %d -batch -ex 'thread apply all bt' 2>&1", (int)pids[i]);
					fflush(stdout);
					if (system(command))
						printf("no stack\n");
				}
				kill(pids[i], SIGABRT);
			}
		}
		usleep(2000);
	}
	for (int i = 0; i < 2; i++)
		printf("%s: %lu rounds, %lu connected, %lu completions, %lu errors, %lu times a new device, %lu refusals, "
		       "slowest call %lu ms (%s)\n",
		       who[i], shared->honest[i].rounds, shared->honest[i].connected, shared->honest[i].completions,
		       shared->honest[i].errors, shared->honest[i].reopened, shared->honest[i].refused,
		       shared->honest[i].slowest, shared->honest[i].slowest_call ? shared->honest[i].slowest_call : "-");
	for (int i = 0; i < ATTACKS; i++)
		if (wanted[i])
			printf("%s %lu, ", attack_names[i], shared->done[i]);
	printf("%d failed\n", failed);
	/* A run in which nothing was attacked shows nothing. */
	for (int i = 0; i < ATTACKS && !failed; i++)
		if (wanted[i] && !shared->done[i]) {
			printf("FAIL no attack of the kind %s\n", attack_names[i]);
			failed++;
		}
	if (!failed && (!shared->honest[0].completions || !shared->honest[1].completions)) {
		printf("FAIL nothing was transferred\n");
		failed++;
	}
	return failed ? 1 : 0;
}
