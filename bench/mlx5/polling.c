/*
 * polling.c - cycles per completion of ibv_poll_cq on a ConnectX adapter that this program plays: it writes the completions, which
 * are so in this processor's cache.
 *
 * Prints lines "NAME BATCH CYCLES": sends or receives, of one queue pair or 64 in turn, as many per call as BATCH says; "empty" is a
 * call that finds nothing, "post_send" and "post_recv" are cycles per request, one in a list.
 */
#include <dlfcn.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#define OK(x) do { if (!(x)) { fprintf(stderr, "%d: %s\n", __LINE__, #x); exit(2); } } while (0)
enum { QPS = 64, SENDS = 128, RECEIVES = 256, ENTRIES = 1024, AT_ONCE = 512, ROUNDS = 401 };

/* As in tests/kernel/kernel.h. */
struct rings { void *ring, *record, *send_ring; uint32_t entries, produced, uidx, sends, receives, shift; };
static struct rings *(*rings_of)(int fd, const char *kind, uint32_t handle);
static struct ibv_cq *cq;
static struct rings *ring;
static struct { struct ibv_qp *qp; struct rings *rings; uint16_t place; } qps[QPS];
static struct ibv_wc wc[64];
static uint8_t memory[4096];

static int by_value(const void *a, const void *b) { double x = *(const double *)a, y = *(const double *)b; return (x > y) - (x < y); }
static double median(double *values, int count) { qsort(values, count, sizeof *values, by_value); return values[count / 2]; }
static uint64_t now(void) { unsigned aux; uint64_t time = __rdtscp(&aux); _mm_lfence(); return time; }

static void complete(unsigned which, bool receive)
{
	uint8_t *to = (uint8_t *)ring->ring + (size_t)(ring->produced & (ring->entries - 1)) * 64;
	uint32_t word;

	memset(to, 0, 63);
	word = htobe32(qps[which].rings->uidx); memcpy(to + 32, &word, 4);
	word = htobe32(8); memcpy(to + 44, &word, 4);
	word = htobe32((receive ? 0 : 8u << 24) | qps[which].qp->qp_num); memcpy(to + 56, &word, 4);
	uint16_t place = htobe16(receive ? 0 : qps[which].place++); memcpy(to + 60, &place, 2);
	__atomic_store_n(to + 63, (receive ? 2 << 4 : 0) | !!(ring->produced & ring->entries), __ATOMIC_RELEASE);
	ring->produced++;
}
static void measure(const char *name, int of, bool receive, int batch)
{
	static double cycles[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < AT_ONCE; i++)
			complete(of == 1 ? 0 : (i * 29 + i / 64) % of, receive);
		uint64_t start = now();
		for (int got = 0; got < AT_ONCE;) {
			int n = ibv_poll_cq(cq, batch, wc);

			OK(n > 0);
			got += n;
		}
		cycles[r] = (double)(now() - start) / AT_ONCE;
	}
	printf("%s %d %.1f\n", name, batch, median(cycles, ROUNDS));
}
static void empty(void)
{
	static double cycles[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = now();
		for (int i = 0; i < AT_ONCE; i++)
			if (ibv_poll_cq(cq, 16, wc))
				OK(0);
		cycles[r] = (double)(now() - start) / AT_ONCE;
	}
	printf("empty 16 %.1f\n", median(cycles, ROUNDS));
}
static void post(bool receive, uint32_t lkey)
{
	static double cycles[ROUNDS];
	struct ibv_sge piece = {(uintptr_t)memory, 64, lkey};
	struct ibv_send_wr send = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr receives = {.sg_list = &piece, .num_sge = 1}, *bad_receive;
	int count = receive ? RECEIVES / 2 : SENDS / 2;

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = now();
		for (int i = 0; i < count; i++)
			if (receive ? ibv_post_recv(qps[1].qp, &receives, &bad_receive) : ibv_post_send(qps[1].qp, &send, &bad))
				OK(0);
		cycles[r] = (double)(now() - start) / count;
		for (int i = 0; i < count; i++)
			complete(1, receive);
		for (int got = 0; got < count; got += ibv_poll_cq(cq, 64, wc))
			;
	}
	printf("%s 1 %.1f\n", receive ? "post_recv" : "post_send", median(cycles, ROUNDS));
}

int main(void)
{
	static const int batches[] = {1, 16, 64};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	rings_of = dlsym(RTLD_DEFAULT, "hardware_rings");
	OK(rings_of && context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(context, ENTRIES - 1, NULL, NULL, 0);
	OK(pd && mr && cq);
	ring = rings_of(context->cmd_fd, "cq", cq->handle);
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
			.cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1}};

		qps[i].qp = ibv_create_qp(pd, &init);
		OK(qps[i].qp);
		qps[i].rings = rings_of(context->cmd_fd, "qp", qps[i].qp->handle);
		for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

			OK(!ibv_modify_qp(qps[i].qp, &attr, IBV_QP_STATE));
		}
	}
	for (int p = 0; p < 2; p++)
		post(p, mr->lkey);
	/* Every place has had a request. */
	for (int i = 0; i < QPS; i++)
		for (int k = 0; k < SENDS; k++) {
			struct ibv_sge piece = {(uintptr_t)memory, 64, mr->lkey};
			struct ibv_send_wr send = {.wr_id = k, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
						   .send_flags = IBV_SEND_SIGNALED}, *bad;

			OK(!ibv_post_send(qps[i].qp, &send, &bad));
			complete(i, false);
			OK(ibv_poll_cq(cq, 1, wc) == 1 && !wc->status);
		}
	for (unsigned b = 0; b < sizeof batches / sizeof *batches; b++) {
		measure("sends", 1, false, batches[b]);
		measure("receives", 1, true, batches[b]);
		measure("sends_of_64", QPS, false, batches[b]);
		measure("receives_of_64", QPS, true, batches[b]);
	}
	empty();
	return 0;
}
