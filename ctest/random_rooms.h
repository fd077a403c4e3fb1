/*
 * random_rooms.h - what random_calls.c draws from: random numbers, pools of live objects, and argument makers.
 */
#ifndef CTEST_RANDOM_ROOMS_H
#define CTEST_RANDOM_ROOMS_H

#include <sys/mman.h>

#include "setup.h"

/*
 * Built for the kernel of tests/kernel, which answers commands only: it moves nothing and resizes no shared
 * receive queue, whose memory rdma-core then takes for gone.
 */
#ifdef PLAYED
enum { played = 1 };
#else
enum { played = 0 };
#endif

/* Built for rdma-core 65, whose ibv_fork_init is another than that of 44, which is ours: docs/differences.md. */
#ifndef NEWER
#define NEWER 0
#endif

/*
 * Whether commands are written, or legacy ones inside the ioctl: rdma-core then reads the number of a completion queue
 * or of a domain through NULL for a shared receive queue of another type than the basic one.
 */
static inline bool legacy(void)
{
	const char *ways = getenv("HARDWARE_WAYS");

	return ways && strcmp(ways, "methods");
}

static uint64_t seed;
static unsigned char *arena; /* 1 MiB that regions are registered in */
static union ibv_gid gids[2];
/*
 * Registered memory is kept out of children: then it is only memory that is there. Once rdma-core could not keep out
 * what is not, it takes the same pages for kept out (docs/differences.md).
 */
static bool forks;

/* The same numbers on every machine: SplitMix64. */
static inline uint32_t rnd(uint32_t below)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

static inline bool chance(unsigned percent)
{
	return rnd(100) < percent;
}

#define PICK(array) (array)[rnd(sizeof(array) / sizeof(*(array)))]

/* Objects of one kind that exist now. */
struct pool {
	void *object[24];
	int n;
};

/* A context and everything in it: objects of different contexts are never mixed. */
struct room {
	struct ibv_context *context;
	struct pool pds, mrs, mws, ahs, channels, cqs, srqs, qps;
};

#define RESULT(name, call)                                                                                     \
	({                                                                                                     \
		errno = 0;                                                                                     \
		int result_ = (int)(call);                                                                     \
		int errno_ = errno;                                                                            \
		say_int(name, result_, errno_, result_ != 0);                                                  \
		result_;                                                                                       \
	})

/* A call that answers a count or an index. */
#define COUNTED(name, call)                                                                                    \
	({                                                                                                     \
		errno = 0;                                                                                     \
		int result_ = (int)(call);                                                                     \
		int errno_ = errno;                                                                            \
		say_int(name, result_, errno_, result_ < 0);                                                   \
	})

#define MADE(name, call)                                                                                       \
	({                                                                                                     \
		errno = 0;                                                                                     \
		__typeof__(call) made_ = (call);                                                               \
		int errno_ = errno;                                                                            \
		say_pointer(name, made_ != NULL, errno_);                                                      \
		made_;                                                                                         \
	})

/* The same where the two libraries choose different errno values. */
#define MADE_SILENTLY(name, call)                                                                              \
	({                                                                                                     \
		__typeof__(call) made_ = (call);                                                               \
		say_pointer(name, made_ != NULL, 0);                                                           \
		made_;                                                                                         \
	})

static inline int any(const struct pool *p)
{
	return (int)rnd((uint32_t)p->n);
}

static inline void *live(const struct pool *p)
{
	return p->n ? p->object[any(p)] : NULL;
}

/* Whether to use or destroy one of these rather than to make another: the likelier, the more there are. */
static inline bool crowded(const struct pool *p)
{
	return p->n && chance(30 + 3 * (unsigned)p->n);
}

/* Out of the pool once it is destroyed. */
static inline void drop(struct pool *p, int i, int result)
{
	if (!result)
		p->object[i] = p->object[--p->n];
}

static inline int (*destroyer(struct room *r, struct pool *p))(void *)
{
	if (p == &r->pds)
		return (int (*)(void *))ibv_dealloc_pd;
	if (p == &r->mrs)
		return (int (*)(void *))ibv_dereg_mr;
	if (p == &r->ahs)
		return (int (*)(void *))ibv_destroy_ah;
	if (p == &r->channels)
		return (int (*)(void *))ibv_destroy_comp_channel;
	if (p == &r->cqs)
		return (int (*)(void *))ibv_destroy_cq;
	if (p == &r->srqs)
		return (int (*)(void *))ibv_destroy_srq;
	return (int (*)(void *))ibv_destroy_qp;
}

/* Into a pool of the room r, if something was made and there is room; otherwise it is destroyed at once. */
#define keep(pool_, object_)                                                                                   \
	do {                                                                                                   \
		void *kept_ = (object_);                                                                       \
		struct pool *p_ = (pool_);                                                                     \
		if (kept_ && p_->n < 24)                                                                       \
			p_->object[p_->n++] = kept_;                                                           \
		else if (kept_ && p_ == &r->mws)                                                               \
			RESULT("dealloc_mw", ibv_dealloc_mw(kept_));                                           \
		else if (kept_)                                                                                \
			RESULT("destroyed, no room", destroyer(r, p_)(kept_));                                 \
	} while (0)

/* An address vector, mostly a good one. None is one that nobody has: asking for it takes seconds. */
static inline struct ibv_ah_attr av(void)
{
	struct ibv_ah_attr attr = {.grh = {.dgid = gids[rnd(2)], .sgid_index = GID_INDEX, .hop_limit = (uint8_t)rnd(256)},
				   .is_global = 1,
				   .port_num = PORT,
				   .sl = (uint8_t)rnd(8)};

	if (chance(10))
		attr.port_num = (uint8_t)rnd(4);
	if (chance(5))
		attr.is_global = 0;
	if (chance(5))
		attr.grh.sgid_index = (uint8_t)(2 + rnd(250));
	if (chance(20))
		attr.grh.flow_label = rnd(1 << 20), attr.grh.traffic_class = (uint8_t)rnd(256);
	return attr;
}

static inline struct ibv_qp_attr qp_attributes(enum ibv_qp_state to, uint32_t qp_num)
{
	struct ibv_qp_attr a = {.qp_state = to,
				.cur_qp_state = rnd(7),
				.path_mtu = chance(95) ? 1 + rnd(3) : rnd(8),
				.path_mig_state = rnd(4),
				.qkey = rnd(1 << 30),
				.rq_psn = rnd(1 << 25),
				.sq_psn = rnd(1 << 25),
				.dest_qp_num = chance(90) ? qp_num : rnd(1 << 24),
				.qp_access_flags = rnd(64),
				.cap = {rnd(10), rnd(10), rnd(3), rnd(3), rnd(20)},
				.ah_attr = av(),
				.alt_ah_attr = av(),
				.pkey_index = chance(95) ? 0 : (uint16_t)rnd(70),
				.en_sqd_async_notify = 0,
				.max_rd_atomic = chance(90) ? (uint8_t)rnd(8) : (uint8_t)rnd(256),
				/* Another one than before has soft-RoCE write beyond its memory: see qp_modify.c. */
				.max_dest_rd_atomic = 4,
				.min_rnr_timer = (uint8_t)rnd(32),
				.port_num = chance(90) ? PORT : (uint8_t)rnd(4),
				.timeout = chance(95) ? (uint8_t)rnd(32) : (uint8_t)rnd(256),
				.retry_cnt = (uint8_t)rnd(chance(95) ? 8 : 256),
				.rnr_retry = (uint8_t)rnd(chance(95) ? 8 : 256),
				.alt_port_num = (uint8_t)rnd(3),
				.alt_timeout = (uint8_t)rnd(32),
				.rate_limit = rnd(1000)};

	return a;
}

/* What a move into a state asks for. */
static inline int qp_mask(int type, int state)
{
	int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		return IBV_QP_STATE | (type == IBV_QPT_UD ? 0 : connected) |
		       (type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (type == IBV_QPT_RC
				? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
				: 0);
	default:
		return IBV_QP_STATE;
	}
}

/* Questions about the device; answers that would be long are reduced to a sum over their bytes. */
static inline void queries(struct room *r)
{
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	struct ibv_gid_entry entries[4];
	union ibv_gid gid;
	__be16 pkey = 0;
	int n;

	switch (rnd(7)) {
	case 0:
		FILL(device);
		RESULT("query_device_ex", ibv_query_device_ex(r->context, NULL, &device));
		note("    max_qp %d max_dm_size %" PRIu64, device.orig_attr.max_qp, device.max_dm_size);
		break;
	case 1:
		FILL(port);
		RESULT("query_port", ibv_query_port(r->context, (uint8_t)rnd(4), &port));
		note("    state %d gid_tbl_len %d", port.state, port.gid_tbl_len);
		break;
	case 2:
		FILL(gid);
		RESULT("query_gid", ibv_query_gid(r->context, (uint8_t)(chance(90) ? PORT : rnd(4)),
						  (int)(chance(50) ? rnd(4) : rnd(2000)), &gid));
		print_gid("gid", &gid);
		break;
	case 3:
		RESULT("query_pkey", ibv_query_pkey(r->context, (uint8_t)(chance(90) ? PORT : rnd(4)), (int)rnd(3), &pkey));
		note("    pkey 0x%x", be16toh(pkey));
		break;
	case 4:
		COUNTED("query_gid_table", ibv_query_gid_table(r->context, entries, rnd(5), chance(90) ? 0 : 1));
		break;
	case 5: {
		struct ibv_device **list = MADE("get_device_list", ibv_get_device_list(&n));

		note("    devices %d", n);
		struct ibv_context *c = MADE("open_device", ibv_open_device(list[rnd((uint32_t)n)]));
		ibv_free_device_list(list);
		if (c)
			RESULT("close_device", ibv_close_device(c));
		break;
	}
	default:
		COUNTED("get_pkey_index", ibv_get_pkey_index(r->context, PORT, htobe16((uint16_t)(0xffff - rnd(2)))));
	}
}

static inline void open_rooms(struct room rooms[2])
{
	memset(rooms, 0, 2 * sizeof(*rooms));
	/* Nothing behind it is accessible, so a range that goes past its end is refused in every run. */
	arena = mmap(NULL, 8 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED || mprotect(arena, 1 << 20, PROT_READ | PROT_WRITE))
		die("memory");
	memset(arena, 1, 1 << 20);
	for (int i = 0; i < 2; i++) {
		rooms[i].context = open_device(i ? "rxe1" : "rxe0");
		if (ibv_query_gid(rooms[i].context, PORT, gid_index(), &gids[i]))
			die("gid");
	}
}

/* Destroy everything, users before what they use: nothing may be refused any more. */
static inline void close_rooms(struct room rooms[2])
{
	for (int i = 0; i < 2; i++) {
		struct room *r = &rooms[i];
		struct pool *order[] = {&r->qps, &r->srqs, &r->cqs, &r->channels, &r->ahs, &r->mws, &r->mrs, &r->pds};

		for (int k = 0; k < r->qps.n; k++)
			for (int g = 0; g < 4; g++) {
				union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 0, 0, (uint8_t)g}};

				RESULT("detach_mcast", ibv_detach_mcast(r->qps.object[k], &group, 0));
			}
		for (int o = 0; o < 8; o++)
			while (order[o]->n) {
				void *object = order[o]->object[--order[o]->n];
				int left = order[o] == &r->mws ? RESULT("dealloc_mw", ibv_dealloc_mw(object))
							       : RESULT("destroy", destroyer(r, order[o])(object));

				if (left)
					note("    pool %d left something", o);
			}
		RESULT("close_device", ibv_close_device(r->context));
	}
}

#endif
