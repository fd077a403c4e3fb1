/*
 * play.c - random programs on a ConnectX adapter that this program plays itself: it writes completions for what is posted.
 *
 *   play SEED ROUNDS [print]
 *
 * Whatever the library answers goes into a sum that is printed every so often: results, every field of completions that means
 * something, the bytes of requests, doorbell records and the device's registers after each post, what the device is told
 * was consumed and how queues are armed. Two libraries that do the same print the same. With `print` each step is a line.
 *
 * PLAY_HOSTILE=1 has the device write what no device should, for the library's data path alone: nothing may be written outside of what is
 * posted. PLAY_RAW=1 puts queue pairs for raw packets among the others, PLAY_PLAIN=1 leaves builders of sends (ibv_wr_*) out.
 *
 * Needs the preloaded kernel of tests/kernel with an mlx5 device.
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(2); } } while (0)
#define LENGTH(array) (sizeof array / sizeof *array)

enum { CQS = 4, SRQS = 3, QPS = 14, AREA = 1 << 20, REST = AREA / 2 + 8192, MOST_HELD = 512 };

/* As in tests/kernel/kernel.h. */
struct rings { void *ring, *record, *send_ring; uint32_t entries, produced, uidx, sends, receives, shift; };
static struct rings *(*rings_of)(int fd, const char *kind, uint32_t handle);
static void *(*device_pages)(unsigned number, size_t *size);
static void (*complete_event)(int fd, uint32_t cq);

static uint64_t state = 88172645463325252ull, sum = 14695981039346656037ull;
static bool printing, raw, hostile;
static unsigned long steps, completions, errors, inlines, posted[2], refused, resets, resizes, renewed, built, foreign;

static uint32_t rnd(void)
{
	state ^= state << 13; state ^= state >> 7; state ^= state << 17;
	return state >> 16;
}
static bool one_in(unsigned n) { return rnd() % n == 0; }

static void mix(const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	uint64_t word;

	for (; size >= 8; size -= 8, at += 8) {
		memcpy(&word, at, 8);
		sum = (sum ^ word) * 1099511628211ull;
		sum ^= sum >> 29;
	}
	while (size--)
		sum = (sum ^ *at++) * 1099511628211ull;
}
static void number(const char *name, uint64_t value)
{
	mix(&value, sizeof value);
	if (printing)
		printf(" %s %#llx", name, (unsigned long long)value);
}
static void area(const char *name, const void *bytes, size_t size)
{
	uint64_t before = sum;

	sum = 0;
	mix(bytes, size);
	uint64_t own = sum;
	sum = before;
	number(name, own);
}
static void step(const char *what, unsigned which)
{
	steps++;
	number(what, which);
}
static void step_end(void)
{
	if (printing)
		printf("\n");
}

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_xrcd *xrcd;
static struct ibv_comp_channel *channel;
static uint8_t *memory;
static uint64_t next_id = 1;

struct cq { struct ibv_cq *cq; struct ibv_cq_ex *ex; struct rings *rings; bool armed; };
struct srq {
	struct ibv_srq *srq; struct rings *rings; bool xrc; uint32_t stride;
	uint16_t next, held[MOST_HELD]; uint32_t taken; unsigned held_count;
	struct cq *cq;
};
struct qp {
	struct ibv_qp *qp; struct ibv_qp_ex *ex; struct rings *rings; struct srq *srq; struct cq *send_cq, *recv_cq;
	enum ibv_qp_type type; bool up;
	uint32_t sent, received; /* what the device took: blocks, requests */
	uint32_t max_inline, max_send;
	uint64_t ids[256]; /* of sends, by number */
	uint32_t head, tail; /* posted, done */
};
static struct cq cqs[CQS];
static struct srq srqs[SRQS];
static struct qp qps[QPS];

/* ---- the adapter ---- */

static uint32_t record(const struct rings *rings, unsigned word)
{
	return be32toh(__atomic_load_n((uint32_t *)rings->record + word, __ATOMIC_ACQUIRE));
}
static bool has_room(struct cq *cq)
{
	return ((cq->rings->produced - record(cq->rings, 0)) & 0xffffff) < cq->rings->entries - 2;
}
static void put32(uint8_t *at, uint32_t value) { value = htobe32(value); memcpy(at, &value, 4); }
static void put16(uint8_t *at, uint16_t value) { value = htobe16(value); memcpy(at, &value, 2); }
static uint32_t get32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return be32toh(value); }

static void make_hostile(uint8_t entry[64], uint8_t *kind, uint8_t *format);
static void write_completion(struct cq *cq, uint8_t entry[64], uint8_t kind, uint8_t format)
{
	struct rings *rings = cq->rings;
	uint8_t *to = (uint8_t *)rings->ring + (size_t)(rings->produced & (rings->entries - 1)) * 64;

	if (hostile && one_in(2))
		make_hostile(entry, &kind, &format);

	for (int i = 48; i < 54 && kind < 13; i++)
		entry[i] = rnd();
	entry[62] = rnd();
	memcpy(to, entry, 63);
	__atomic_store_n(to + 63, kind << 4 | format << 2 | one_in(4) << 1 | !!(rings->produced & rings->entries), __ATOMIC_RELEASE);
	rings->produced++;
}
/* A device that writes anything: indices of other queues or of none, places and lengths out of range, kinds that do not exist. */
static void make_hostile(uint8_t entry[64], uint8_t *kind, uint8_t *format)
{
	unsigned which = rnd() % (QPS + 4);

	for (int i = 0; i < 64 && one_in(2); i++)
		entry[i] = rnd();
	put32(entry + 32, which < QPS ? qps[which].rings->uidx : which == QPS ? srqs[2].rings->uidx : rnd());
	if (one_in(2))
		put16(entry + 60, one_in(2) ? rnd() % 128 : rnd());
	if (one_in(2))
		put32(entry + 44, one_in(2) ? rnd() % 64 : rnd());
	if (one_in(8))
		entry[54] = 0x93, entry[55] = 0x22;
	*kind = one_in(3) ? rnd() % 15 : (uint8_t[]){0, 1, 2, 3, 4, 13, 14}[rnd() % 7];
	*format = rnd() % 4;
}
static const uint8_t reasons[] = {5, 5, 5, 0x15};

static void error_entry(uint8_t entry[64])
{
	memset(entry, 0, 32);
	entry[55] = reasons[rnd() % LENGTH(reasons)];
	entry[54] = rnd();
	errors++;
}
/* Takes requests to send up to the first that makes a completion. */
static void device_sends(struct qp *qp)
{
	uint8_t *ring = qp->rings->send_ring;

	while (qp->up && qp->rings->sends && (uint16_t)(record(qp->rings, 1) - qp->sent) && has_room(qp->send_cq)) {
		uint8_t *request = ring + (size_t)(qp->sent & (qp->rings->sends - 1)) * 64, entry[64] = {0};
		uint8_t operation = request[3], units = request[7] & 0x3f;
		uint16_t place = qp->sent;
		bool bad = one_in(30);

		OK(hostile || (((get32(request) >> 8) & 0xffff) == place && get32(request + 4) >> 8 == qp->qp->qp_num));
		qp->sent += (units + 3) / 4;
		if (!bad && !(request[11] & 8))
			continue;
		put32(entry + 32, qp->rings->uidx);
		put32(entry + 44, operation == 0x10 ? 1 + rnd() % 32 : 8);
		put32(entry + 56, (uint32_t)operation << 24 | qp->qp->qp_num);
		put16(entry + 60, place);
		if (bad) {
			error_entry(entry);
			write_completion(qp->send_cq, entry, 13, 0);
		} else if ((operation == 0x10 || operation == 0x11 || operation == 0x12) && qp->type == IBV_QPT_RC && one_in(2)) {
			for (int i = 0; i < 32; i++)
				entry[i] = rnd();
			inlines++;
			write_completion(qp->send_cq, entry, 0, 1);
		} else
			write_completion(qp->send_cq, entry, 0, 0);
		return;
	}
}
/* The next request of a shared queue; false where none is posted. */
static bool take_shared(struct srq *srq, uint16_t *index)
{
	if (srq->held_count && one_in(4)) {
		unsigned which = rnd() % srq->held_count;

		*index = srq->held[which];
		srq->held[which] = srq->held[--srq->held_count];
		return true;
	}
	if ((uint16_t)(record(srq->rings, 0) - srq->taken) == 0)
		return false;
	srq->taken++;
	*index = srq->next;
	uint16_t next;
	memcpy(&next, (uint8_t *)srq->rings->ring + (size_t)srq->next * srq->stride + 2, 2);
	srq->next = be16toh(next);
	if (srq->held_count < MOST_HELD && one_in(4)) { /* its message takes longer than the next one's */
		srq->held[srq->held_count++] = *index;
		return take_shared(srq, index);
	}
	return true;
}
static void receive_entry(struct cq *cq, uint8_t entry[64], uint32_t uidx, uint32_t qp_num, uint16_t place, uint32_t room)
{
	uint8_t kind = 1 + rnd() % 4, format = 0;

	if (one_in(30)) {
		error_entry(entry);
		kind = 14;
	} else if (one_in(3) && room) {
		for (int i = 0; i < 32; i++)
			entry[i] = rnd();
		format = 1;
		inlines++;
	} else {
		entry[17] = rnd();
		put16(entry + 22, rnd());
		put32(entry + 24, rnd() & 0x3fffffff);
	}
	put32(entry + 32, uidx | (uint32_t)(rnd() & 0xff) << 24);
	put32(entry + 36, rnd());
	put32(entry + 44, format ? rnd() % ((room < 32 ? room : 32) + 1) : rnd());
	put32(entry + 56, qp_num);
	put16(entry + 60, place);
	write_completion(cq, entry, kind, format);
}
static uint32_t room_at(const uint8_t *segments, unsigned most)
{
	uint32_t room = 0;

	for (unsigned i = 0; i < most && get32(segments + 16 * i + 4) != 0x100; i++)
		room += get32(segments + 16 * i);
	return room;
}
static void device_receives(struct qp *qp)
{
	uint8_t entry[64] = {0};
	uint16_t index;

	if (!qp->up || !has_room(qp->recv_cq))
		return;
	if (qp->srq) {
		if (take_shared(qp->srq, &index))
			receive_entry(qp->recv_cq, entry, qp->rings->uidx, qp->qp->qp_num, index,
				      room_at((uint8_t *)qp->srq->rings->ring + (size_t)index * qp->srq->stride + 16,
					      qp->srq->stride / 16 - 1));
	} else if (qp->rings->receives && (uint16_t)(record(qp->rings, 0) - qp->received)) {
		const uint8_t *request = (uint8_t *)qp->rings->ring +
					 ((size_t)(qp->received & (qp->rings->receives - 1)) << qp->rings->shift);

		index = qp->received++;
		receive_entry(qp->recv_cq, entry, qp->rings->uidx, qp->qp->qp_num, index,
			      room_at(request, 1u << (qp->rings->shift - 4)));
	}
}
static void device_receives_xrc(struct srq *srq)
{
	uint8_t entry[64] = {0};
	uint16_t index;

	if (has_room(srq->cq) && take_shared(srq, &index))
		receive_entry(srq->cq, entry, srq->rings->uidx, 0x4242, index,
			      room_at((uint8_t *)srq->rings->ring + (size_t)index * srq->stride + 16, srq->stride / 16 - 1));
}

/* ---- the program ---- */

static void sent(struct qp *qp, uint64_t id)
{
	qp->ids[qp->head++ % LENGTH(qp->ids)] = id;
}
static void done(struct qp *qp, uint64_t id)
{
	for (uint32_t number = qp->tail; number != qp->head; number++)
		if (qp->ids[number % LENGTH(qp->ids)] == id)
			qp->tail = number + 1;
}
static void show_posted(struct qp *qp)
{
	size_t size;
	void *page;

	area("receives", qp->rings->ring, (size_t)qp->rings->receives << qp->rings->shift);
	area("sends", qp->rings->send_ring, (size_t)qp->rings->sends * 64);
	number("record", (uint64_t)record(qp->rings, 0) << 32 | record(qp->rings, 1));
	/* Where libmlx5 posts, too, it has halves of registers of its own. */
	for (unsigned i = 0; !raw && (page = device_pages(i, &size)); i++)
		area("page", page, size);
}
static struct ibv_sge piece(uint32_t most)
{
	return (struct ibv_sge){(uintptr_t)memory + rnd() % (AREA / 2), one_in(10) ? 0 : 1 + rnd() % most, mr->lkey};
}
static enum ibv_wr_opcode operation(const struct qp *qp)
{
	static const enum ibv_wr_opcode rc[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV,
		IBV_WR_BIND_MW};

	if (qp->type == IBV_QPT_UD)
		return rc[rnd() % 2];
	if (qp->type == IBV_QPT_UC)
		return rc[rnd() % 4];
	if (qp->type == IBV_QPT_RAW_PACKET)
		return IBV_WR_SEND;
	return rc[rnd() % LENGTH(rc)];
}
static void post_sends(struct qp *qp)
{
	enum { MOST = 6 };
	struct ibv_send_wr list[MOST], *bad = NULL;
	struct ibv_sge pieces[MOST][4];
	unsigned count = one_in(3) ? 1 + rnd() % MOST : 1;

	memset(list, 0, sizeof list);
	for (unsigned i = 0; i < count; i++) {
		struct ibv_send_wr *wr = &list[i];
		bool atomic, key;

		wr->wr_id = next_id++ * 0x9e3779b97f4a7c15ull;
		wr->next = i + 1 < count ? wr + 1 : NULL;
		wr->opcode = operation(qp);
		atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		key = wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW;
		wr->sg_list = pieces[i];
		wr->num_sge = qp->type == IBV_QPT_RAW_PACKET ? 1 : key ? 0 : atomic ? 1 : one_in(40) ? 5 : rnd() % 4;
		for (int k = 0; k < wr->num_sge && k < 4; k++)
			pieces[i][k] = piece(one_in(3) ? 4096 : 24);
		wr->send_flags = (one_in(3) ? 0 : IBV_SEND_SIGNALED) | (one_in(5) ? IBV_SEND_FENCE : 0) | (one_in(5) ? IBV_SEND_SOLICITED : 0);
		if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			wr->imm_data = rnd();
		else if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV)
			wr->invalidate_rkey = rnd();
		if (qp->type == IBV_QPT_RAW_PACKET)
			pieces[i][0].length = 64;
		else if (!atomic && !key && wr->opcode != IBV_WR_RDMA_READ && wr->num_sge <= 4 && one_in(2)) {
			uint32_t all = 0;

			for (int k = 0; k < wr->num_sge; k++) {
				pieces[i][k].length %= 17;
				all += pieces[i][k].length;
			}
			if (all <= qp->max_inline)
				wr->send_flags |= IBV_SEND_INLINE;
		}
		if (qp->type == IBV_QPT_UD) {
			wr->wr.ud.ah = ah;
			wr->wr.ud.remote_qpn = rnd() & 0xffffff;
			wr->wr.ud.remote_qkey = rnd();
		} else if (atomic) {
			pieces[i][0].length = 8;
			wr->wr.atomic.remote_addr = rnd() * 8ull;
			wr->wr.atomic.rkey = rnd();
			wr->wr.atomic.compare_add = rnd();
			wr->wr.atomic.swap = rnd();
		} else {
			wr->wr.rdma.remote_addr = (uint64_t)rnd() << 20 | rnd();
			wr->wr.rdma.rkey = rnd();
		}
		if (qp->type == IBV_QPT_XRC_SEND)
			wr->qp_type.xrc.remote_srqn = rnd() & 0xffffff;
		if (wr->opcode == IBV_WR_BIND_MW) {
			wr->bind_mw.mw = mw;
			wr->bind_mw.rkey = rnd();
			wr->bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)memory + rnd() % 4096, one_in(4) ? 0 : 1 + rnd() % 4096,
				rnd() % 2 * IBV_ACCESS_REMOTE_WRITE | rnd() % 2 * IBV_ACCESS_REMOTE_READ | rnd() % 2 * IBV_ACCESS_REMOTE_ATOMIC |
				rnd() % 2 * IBV_ACCESS_ZERO_BASED};
		}
	}
	step("send", qp - qps);
	number("count", count);
	int error = ibv_post_send(qp->qp, list, &bad);
	number("error", error);
	if (error) {
		number("bad", bad - list);
		refused++;
	}
	for (unsigned i = 0; i < (error ? (unsigned)(bad - list) : count); i++)
		sent(qp, list[i].wr_id);
	posted[0] += error ? (unsigned)(bad - list) : count;
	show_posted(qp);
	step_end();
}
static void build_peer(struct qp *qp)
{
	if (qp->type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(qp->ex, ah, rnd() & 0xffffff, rnd());
	else if (qp->type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(qp->ex, rnd() & 0xffffff);
}
static void build_send(struct qp *qp)
{
	struct ibv_qp_ex *ex = qp->ex;
	struct ibv_sge list[3] = {piece(64), piece(64), piece(64)};
	struct ibv_data_buf data[2] = {{memory, rnd() % 9}, {memory + 100, rnd() % 9}};
	uint64_t ids[4];
	unsigned count = 1 + rnd() % 4;
	int error = 0;

	/* Where there is no room libmlx5 goes on writing, perhaps over what is posted, or ends the program. */
	if (qp->head - qp->tail + count >= qp->max_send)
		return;

	step("build", qp - qps);
	ibv_wr_start(ex);
	for (unsigned i = 0; i < count; i++) {
		enum ibv_wr_opcode what = operation(qp);
		bool first = one_in(2), key = false, atomic = false;

		ex->wr_id = ids[i] = next_id++ * 0x9e3779b97f4a7c15ull;
		ex->wr_flags = (one_in(3) ? 0 : IBV_SEND_SIGNALED) | (one_in(5) ? IBV_SEND_FENCE : 0) | (one_in(5) ? IBV_SEND_SOLICITED : 0);
		switch (what) {
		case IBV_WR_SEND: ibv_wr_send(ex); break;
		case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(ex, rnd()); break;
		case IBV_WR_SEND_WITH_INV: ibv_wr_send_inv(ex, rnd()); break;
		case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(ex, rnd(), rnd()); break;
		case IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_rdma_write_imm(ex, rnd(), rnd(), rnd()); break;
		case IBV_WR_RDMA_READ: ibv_wr_rdma_read(ex, rnd(), rnd()); break;
		case IBV_WR_ATOMIC_CMP_AND_SWP: atomic = true; ibv_wr_atomic_cmp_swp(ex, rnd(), rnd(), rnd(), rnd()); break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD: atomic = true; ibv_wr_atomic_fetch_add(ex, rnd(), rnd(), rnd()); break;
		case IBV_WR_LOCAL_INV: key = true; ibv_wr_local_inv(ex, rnd()); break;
		default: {
			struct ibv_mw_bind_info info = {mr, (uintptr_t)memory, one_in(4) ? 0 : 1 + rnd() % 4096, IBV_ACCESS_REMOTE_READ};

			key = true;
			ibv_wr_bind_mw(ex, mw, rnd(), &info);
		}
		}
		if (key)
			continue;
		if (first)
			build_peer(qp);
		if (atomic)
			ibv_wr_set_sge(ex, list[0].lkey, list[0].addr, 8);
		else
			switch (rnd() % (what == IBV_WR_RDMA_READ ? 2 : 4)) {
			case 0: ibv_wr_set_sge(ex, list[0].lkey, list[0].addr, list[0].length); break;
			case 1: ibv_wr_set_sge_list(ex, rnd() % 4, list); break;
			case 2: ibv_wr_set_inline_data(ex, data[0].addr, data[0].length); break;
			case 3: ibv_wr_set_inline_data_list(ex, 2, data); break;
			}
		if (!first)
			build_peer(qp);
	}
	if (one_in(8))
		ibv_wr_abort(ex);
	else {
		error = ibv_wr_complete(ex);
		number("error", error);
		OK(hostile || !error);
		for (unsigned i = 0; i < count; i++)
			sent(qp, ids[i]);
		posted[0] += count;
	}
	show_posted(qp);
	step_end();
}
static unsigned receive_list(struct ibv_recv_wr *list, struct ibv_sge (*pieces)[4], unsigned most)
{
	unsigned count = one_in(2) ? 1 : 1 + rnd() % most;

	for (unsigned i = 0; i < count; i++) {
		list[i] = (struct ibv_recv_wr){next_id++ * 0x9e3779b97f4a7c15ull, i + 1 < count ? &list[i + 1] : NULL, pieces[i],
					       one_in(60) ? 20 : rnd() % 4};
		for (int k = 0; k < 4; k++)
			pieces[i][k] = piece(64);
	}
	return count;
}
static void post_receives(struct qp *qp)
{
	struct ibv_recv_wr list[8], *bad = NULL;
	struct ibv_sge pieces[8][4];
	unsigned count = receive_list(list, pieces, LENGTH(list));

	step("receive", qp - qps);
	int error = ibv_post_recv(qp->qp, list, &bad);
	number("error", error);
	if (error) {
		number("bad", bad - list);
		refused++;
	}
	posted[1] += error ? (unsigned)(bad - list) : count;
	show_posted(qp);
	step_end();
}
static void post_shared(struct srq *srq)
{
	struct ibv_recv_wr list[8], *bad = NULL;
	struct ibv_sge pieces[8][4];
	unsigned count = receive_list(list, pieces, LENGTH(list));

	step("shared", srq - srqs);
	int error = ibv_post_srq_recv(srq->srq, list, &bad);
	number("error", error);
	if (error) {
		number("bad", bad - list);
		refused++;
	}
	posted[1] += error ? (unsigned)(bad - list) : count;
	number("record", record(srq->rings, 0));
	area("ring", srq->rings->ring, 64 * srq->stride);
	step_end();
}
static struct qp *qp_of(uint32_t number)
{
	for (int i = 0; i < QPS; i++)
		if (qps[i].qp && qps[i].qp->qp_num == number)
			return &qps[i];
	return NULL;
}
static void count_completion(uint64_t id, uint32_t qp_num)
{
	struct qp *qp = qp_of(qp_num);

	completions++;
	built += qp && qp->ex;
	foreign += qp && qp->type == IBV_QPT_RAW_PACKET;
	if (qp)
		done(qp, id);
}
static void poll_list(struct cq *cq)
{
	struct ibv_wc list[32];
	int most = one_in(2) ? 1 + rnd() % 32 : 1;

	memset(list, 0xa5, sizeof list);
	step("poll", cq - cqs);
	int found = ibv_poll_cq(cq->cq, most, list);
	number("found", found);
	for (int i = 0; i < found; i++) {
		struct ibv_wc *wc = &list[i];

		count_completion(wc->wr_id, wc->qp_num);
		number("id", wc->wr_id);
		number("status", wc->status);
		number("qp", wc->qp_num);
		number("flags", wc->wc_flags);
		if (wc->status == IBV_WC_SUCCESS) {
			number("opcode", wc->opcode);
			if (wc->opcode & IBV_WC_RECV) {
				number("length", wc->byte_len);
				if (wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
					number("imm", wc->imm_data);
				number("src", wc->src_qp);
				number("pkey", wc->pkey_index);
				number("slid", wc->slid);
				number("sl", wc->sl);
				number("path", wc->dlid_path_bits);
			} else if (wc->opcode == IBV_WC_RDMA_READ || wc->opcode == IBV_WC_COMP_SWAP || wc->opcode == IBV_WC_FETCH_ADD)
				number("length", wc->byte_len);
		} else if (wc->status != IBV_WC_LOC_LEN_ERR)
			number("vendor", wc->vendor_err);
	}
	number("consumed", record(cq->rings, 0));
	step_end();
}
static void poll_each(struct cq *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	int most = 1 + rnd() % 24, error;

	step("each", cq - cqs);
	error = ibv_start_poll(cq->ex, &attr);
	number("start", error);
	if (!error) {
		do {
			count_completion(cq->ex->wr_id, ibv_wc_read_qp_num(cq->ex));
			number("id", cq->ex->wr_id);
			number("status", cq->ex->status);
			number("qp", ibv_wc_read_qp_num(cq->ex));
			number("flags", ibv_wc_read_wc_flags(cq->ex));
			if (cq->ex->status == IBV_WC_SUCCESS)
				number("opcode", ibv_wc_read_opcode(cq->ex));
			else
				number("vendor", ibv_wc_read_vendor_err(cq->ex));
			number("length", ibv_wc_read_byte_len(cq->ex));
			number("imm", ibv_wc_read_imm_data(cq->ex));
			number("src", ibv_wc_read_src_qp(cq->ex));
			number("slid", ibv_wc_read_slid(cq->ex));
			number("sl", ibv_wc_read_sl(cq->ex));
			number("path", ibv_wc_read_dlid_path_bits(cq->ex));
			number("time", ibv_wc_read_completion_ts(cq->ex));
		} while (--most && !(error = ibv_next_poll(cq->ex)));
		number("next", error);
		ibv_end_poll(cq->ex);
	}
	number("consumed", record(cq->rings, 0));
	step_end();
}
static void arm(struct cq *cq)
{
	size_t size;
	void *page;

	step("arm", cq - cqs);
	if (cq->armed && one_in(2)) {
		struct ibv_cq *which;
		void *its;

		complete_event(channel->fd, cq->cq->handle);
		OK(!ibv_get_cq_event(channel, &which, &its) && which == cq->cq);
		ibv_ack_cq_events(which, 1);
	}
	number("error", ibv_req_notify_cq(cq->cq, one_in(2)));
	cq->armed = true;
	number("record", record(cq->rings, 1));
	for (unsigned i = 0; !raw && (page = device_pages(i, &size)); i++)
		area("page", page, size);
	step_end();
}
static int to_state(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {.qp_state = to, .port_num = 1, .qkey = 0x11, .path_mtu = IBV_MTU_1024, .dest_qp_num = 0x55,
		.max_dest_rd_atomic = 2, .max_rd_atomic = 2, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 6,
		.ah_attr = {.grh = {.dgid.raw = {0xfe, 0x80, [15] = 9}, .hop_limit = 64}, .is_global = 1, .port_num = 1}};

	return ibv_modify_qp(qp->qp, &a, IBV_QP_STATE);
}
static void bring_up(struct qp *qp)
{
	OK(!to_state(qp, IBV_QPS_INIT) && !to_state(qp, IBV_QPS_RTR) && !to_state(qp, IBV_QPS_RTS));
	qp->up = true;
}
static void make_qp(struct qp *qp)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
	static const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		unreliable = datagram | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
		reliable = unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_LOCAL_INV |
			   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW;
	enum ibv_qp_type type = raw && one_in(4) ? IBV_QPT_RAW_PACKET : types[rnd() % LENGTH(types)];
	bool built = type != IBV_QPT_RAW_PACKET && one_in(3) && !getenv("PLAY_PLAIN");
	struct ibv_qp_init_attr_ex init = {.qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd, .sq_sig_all = one_in(6)};

	memset(qp, 0, sizeof *qp);
	qp->type = type;
	qp->send_cq = &cqs[rnd() % CQS];
	qp->recv_cq = one_in(2) ? qp->send_cq : &cqs[rnd() % CQS];
	if (qp->type == IBV_QPT_RC && one_in(2))
		qp->srq = &srqs[rnd() % 2];
	init.send_cq = qp->send_cq->cq;
	init.recv_cq = qp->recv_cq->cq;
	init.srq = qp->srq ? qp->srq->srq : NULL;
	init.cap = (struct ibv_qp_cap){.max_send_wr = 1 + rnd() % 60, .max_send_sge = 4, .max_inline_data = rnd() % 100,
		.max_recv_wr = qp->srq ? 0 : 1 + rnd() % 60, .max_recv_sge = qp->srq ? 0 : 1 + rnd() % 5};
	if (qp->type == IBV_QPT_XRC_SEND) {
		init.recv_cq = NULL;
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	}
	if (built) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = type == IBV_QPT_UD ? datagram : type == IBV_QPT_UC ? unreliable : reliable;
	}
	step("make", qp - qps);
	qp->qp = ibv_create_qp_ex(context, &init);
	OK(qp->qp);
	if (built)
		qp->ex = ibv_qp_to_qp_ex(qp->qp);
	qp->rings = rings_of(context->cmd_fd, "qp", qp->qp->handle);
	qp->max_inline = init.cap.max_inline_data;
	qp->max_send = init.cap.max_send_wr;
	number("type", qp->type);
	number("send", init.cap.max_send_wr);
	number("inline", init.cap.max_inline_data);
	number("receive", init.cap.max_recv_wr);
	number("sge", init.cap.max_recv_sge);
	step_end();
	if (one_in(3) && type != IBV_QPT_RAW_PACKET) { /* not in its state yet */
		post_sends(qp);
		if (!qp->srq && qp->type != IBV_QPT_XRC_SEND)
			post_receives(qp);
	}
	bring_up(qp);
}
static void reset_qp(struct qp *qp)
{
	step("reset", qp - qps);
	OK(!to_state(qp, IBV_QPS_RESET));
	number("record", (uint64_t)record(qp->rings, 0) << 32 | record(qp->rings, 1));
	number("sends", record(qp->send_cq->rings, 0));
	number("receives", record(qp->recv_cq->rings, 0));
	step_end();
	qp->up = false;
	qp->sent = qp->received = qp->head = qp->tail = 0;
	resets++;
	bring_up(qp);
}
static void renew_qp(struct qp *qp)
{
	step("destroy", qp - qps);
	number("error", ibv_destroy_qp(qp->qp));
	number("sends", record(qp->send_cq->rings, 0));
	number("receives", record(qp->recv_cq->rings, 0));
	step_end();
	renewed++;
	make_qp(qp);
}
static void resize(struct cq *cq)
{
	int entries;

	/* As many as wait must fit. */
	entries = 40 + rnd() % 400;
	if (((cq->rings->produced - record(cq->rings, 0)) & 0xffffff) + 3 > (uint32_t)entries)
		entries = 1000;
	step("resize", cq - cqs);
	number("error", ibv_resize_cq(cq->cq, entries));
	number("entries", cq->cq->cqe);
	/* The mark at the end of the old ring is consumed, too: who has not said so yet does when it polls. */
	number("none", ibv_poll_cq(cq->cq, 0, NULL));
	step_end();
	resizes++;
}
static void make_all(void)
{
	for (int i = 0; i < CQS; i++) {
		if (i < 2)
			cqs[i].cq = ibv_create_cq(context, 100 << i, NULL, channel, 0);
		else {
			struct ibv_cq_init_attr_ex init = {.cqe = 120, .channel = channel,
				.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
				.comp_mask = i == 3 ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
				.flags = i == 3 ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0};

			cqs[i].ex = ibv_create_cq_ex(context, &init);
			OK(cqs[i].ex);
			cqs[i].cq = ibv_cq_ex_to_cq(cqs[i].ex);
		}
		OK(cqs[i].cq);
		cqs[i].rings = rings_of(context->cmd_fd, "cq", cqs[i].cq->handle);
	}
	for (int i = 0; i < SRQS; i++) {
		struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 20 + 30 * i, .max_sge = 1 + 2 * i}, .pd = pd,
			.srq_type = i == 2 ? IBV_SRQT_XRC : IBV_SRQT_BASIC, .xrcd = xrcd, .cq = cqs[0].cq,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (i == 2 ? IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ : 0)};

		srqs[i].srq = ibv_create_srq_ex(context, &init);
		OK(srqs[i].srq);
		srqs[i].xrc = i == 2;
		srqs[i].cq = &cqs[0];
		srqs[i].rings = rings_of(context->cmd_fd, "srq", srqs[i].srq->handle);
		srqs[i].stride = 16 + 16 * (1 + 2 * i) <= 32 ? 32 : 16 + 16 * (1 + 2 * i) <= 64 ? 64 : 128;
	}
	for (int i = 0; i < QPS; i++)
		make_qp(&qps[i]);
}
static void round_of(void)
{
	struct qp *qp = &qps[rnd() % QPS];
	struct cq *cq = &cqs[rnd() % CQS];
	unsigned what = rnd() % 1000;

	if (what < 170)
		qp->ex && one_in(2) ? build_send(qp) : post_sends(qp);
	else if (what < 300) {
		if (!qp->srq && qp->type != IBV_QPT_XRC_SEND)
			post_receives(qp);
		else
			post_shared(&srqs[rnd() % SRQS]);
	} else if (what < 520) {
		for (unsigned n = rnd() % 8; n; n--)
			device_sends(one_in(3) ? &qps[rnd() % QPS] : qp);
	} else if (what < 700) {
		for (unsigned n = rnd() % 8; n; n--)
			if (one_in(6))
				device_receives_xrc(&srqs[2]);
			else if (qp->type != IBV_QPT_XRC_SEND)
				device_receives(qp);
	} else if (what < 960)
		cq->ex && !one_in(4) ? poll_each(cq) : poll_list(cq);
	else if (what < 980)
		arm(cq);
	else if (what < 988)
		reset_qp(qp);
	else if (what < 991 && renewed < 600)
		renew_qp(qp);
	else if (what < 994)
		resize(&cqs[rnd() % 2]);
	else
		area("memory", memory, AREA);
}

int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : 100000;
	struct ibv_device **list;
	int count;

	OK(argc > 1);
	state ^= strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15ull;
	printing = argc > 3;
	raw = getenv("PLAY_RAW");
	hostile = getenv("PLAY_HOSTILE");
	rings_of = dlsym(RTLD_DEFAULT, "hardware_rings");
	device_pages = dlsym(RTLD_DEFAULT, "hardware_pages");
	complete_event = dlsym(RTLD_DEFAULT, "hardware_complete");
	OK(rings_of && device_pages && complete_event);
	list = ibv_get_device_list(&count);
	OK(list && count == 1);
	context = ibv_open_device(list[0]);
	OK(context);
	/* Whose function polls. */
	Dl_info info;
	OK(dladdr((void *)context->ops.poll_cq, &info));
	fprintf(stderr, "polled by %s\n", strrchr(info.dli_fname, '/') + 1);
	pd = ibv_alloc_pd(context);
	OK(pd);
	memory = mmap((void *)0x200000000, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	OK(memory != MAP_FAILED);
	for (int i = 0; i < AREA; i++)
		memory[i] = rnd();
	mr = ibv_reg_mr(pd, memory, AREA, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	OK(mr);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	OK(mw);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .sl = 3,
		.grh = {.dgid.raw = {0xfe, 0x80, [15] = 9}, .hop_limit = 64, .flow_label = 0x12345}};
	ah = ibv_create_ah(pd, &attr);
	OK(ah);
	struct ibv_xrcd_init_attr xrcd_init = {.fd = -1, .oflags = O_CREAT,
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS};
	xrcd = ibv_open_xrcd(context, &xrcd_init);
	OK(xrcd);
	channel = ibv_create_comp_channel(context);
	OK(channel);
	make_all();
	uint64_t before = sum, rest;
	sum = 0;
	mix(memory + REST, AREA - REST);
	rest = sum;
	sum = before;
	for (long i = 0; i < rounds; i++) {
		round_of();
		if (i % 1000 == 999)
			printf("%ld %016llx\n", i + 1, (unsigned long long)sum);
	}
	/* No piece of memory that is posted lies here. */
	sum = 0;
	mix(memory + REST, AREA - REST);
	OK(sum == rest);
	for (int i = 0; i < QPS; i++)
		OK(!ibv_destroy_qp(qps[i].qp));
	for (int i = 0; i < SRQS; i++)
		OK(!ibv_destroy_srq(srqs[i].srq));
	for (int i = 0; i < CQS; i++)
		OK(!ibv_destroy_cq(cqs[i].cq));
	printf("%lu steps, %lu completions (%lu of queue pairs with builders, %lu of raw packets), %lu errors, %lu with data, ",
	       steps, completions, built, foreign, errors, inlines);
	printf("%lu sends, %lu receives, %lu refused lists, %lu resets, %lu resizes, %lu renewed\n", posted[0], posted[1], refused,
	       resets, resizes, renewed);
	return ibv_close_device(context);
}
