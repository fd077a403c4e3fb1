/*
 * old_verbs.h - what verbs.h of libibverbs 1.0 declared that has changed since, and its functions of
 * version IBVERBS_1.0.
 */
#ifndef CTEST_OLD_VERBS_H
#define CTEST_OLD_VERBS_H

#include <pthread.h>

#include "fields.h"

struct old_device;
struct old_context;
struct old_cq;
struct old_srq;
struct old_qp;
struct old_send_wr;
struct old_recv_wr;

struct old_context {
	struct old_device *device;
	struct {
		void (*until_poll_cq[7])(void);
		int (*poll_cq)(struct old_cq *cq, int num_entries, struct ibv_wc *wc);
		int (*req_notify_cq)(struct old_cq *cq, int solicited_only);
		void (*until_post_srq_recv[7])(void);
		int (*post_srq_recv)(struct old_srq *srq, struct old_recv_wr *wr, struct old_recv_wr **bad_wr);
		void (*until_post_send[4])(void);
		int (*post_send)(struct old_qp *qp, struct old_send_wr *wr, struct old_send_wr **bad_wr);
		int (*post_recv)(struct old_qp *qp, struct old_recv_wr *wr, struct old_recv_wr **bad_wr);
		void (*rest[4])(void);
	} ops;
	int cmd_fd, async_fd, num_comp_vectors;
	void *private_data;
};

struct old_pd {
	struct old_context *context;
	uint32_t handle;
};

struct old_mr {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle, lkey, rkey;
};

struct old_ah {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle;
};

struct old_cq {
	struct old_context *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
};

struct old_srq {
	struct old_context *context;
	void *srq_context;
	struct old_pd *pd;
	uint32_t handle;
};

struct old_qp_init_attr {
	void *qp_context;
	struct old_cq *send_cq, *recv_cq;
	struct old_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct old_qp {
	struct old_context *context;
	void *qp_context;
	struct old_pd *pd;
	struct old_cq *send_cq, *recv_cq;
	struct old_srq *srq;
	uint32_t handle, qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
};

struct old_send_wr {
	struct old_send_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct old_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
};

struct old_recv_wr {
	struct old_recv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

#define OLD_FUNCTIONS(X)                                                                                       \
	X(struct old_device **, get_device_list, (int *num))                                                   \
	X(void, free_device_list, (struct old_device **list))                                                  \
	X(const char *, get_device_name, (struct old_device *device))                                          \
	X(uint64_t, get_device_guid, (struct old_device *device))                                              \
	X(struct old_context *, open_device, (struct old_device *device))                                      \
	X(int, close_device, (struct old_context *context))                                                    \
	X(int, get_async_event, (struct old_context *context, struct ibv_async_event *event))                  \
	X(void, ack_async_event, (struct ibv_async_event *event))                                              \
	X(int, query_device, (struct old_context *context, struct ibv_device_attr *attr))                      \
	X(int, query_port, (struct old_context *context, uint8_t port_num, struct ibv_port_attr *attr))        \
	X(int, query_gid, (struct old_context *context, uint8_t port_num, int index, union ibv_gid *gid))      \
	X(int, query_pkey, (struct old_context *context, uint8_t port_num, int index, uint16_t *pkey))         \
	X(struct old_pd *, alloc_pd, (struct old_context *context))                                            \
	X(int, dealloc_pd, (struct old_pd *pd))                                                                \
	X(struct old_mr *, reg_mr, (struct old_pd *pd, void *addr, size_t length, int access))                 \
	X(int, dereg_mr, (struct old_mr *mr))                                                                  \
	X(struct old_cq *, create_cq,                                                                          \
	  (struct old_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)) \
	X(int, resize_cq, (struct old_cq *cq, int cqe))                                                        \
	X(int, destroy_cq, (struct old_cq *cq))                                                                \
	X(int, get_cq_event, (struct ibv_comp_channel *channel, struct old_cq **cq, void **cq_context))        \
	X(void, ack_cq_events, (struct old_cq *cq, unsigned int nevents))                                      \
	X(struct old_srq *, create_srq, (struct old_pd *pd, struct ibv_srq_init_attr *attr))                   \
	X(int, modify_srq, (struct old_srq *srq, struct ibv_srq_attr *attr, int mask))                         \
	X(int, query_srq, (struct old_srq *srq, struct ibv_srq_attr *attr))                                    \
	X(int, destroy_srq, (struct old_srq *srq))                                                             \
	X(struct old_qp *, create_qp, (struct old_pd *pd, struct old_qp_init_attr *attr))                      \
	X(int, query_qp,                                                                                       \
	  (struct old_qp *qp, struct ibv_qp_attr *attr, int mask, struct old_qp_init_attr *init_attr))         \
	X(int, modify_qp, (struct old_qp *qp, struct ibv_qp_attr *attr, int mask))                             \
	X(int, destroy_qp, (struct old_qp *qp))                                                                \
	X(struct old_ah *, create_ah, (struct old_pd *pd, struct ibv_ah_attr *attr))                           \
	X(int, destroy_ah, (struct old_ah *ah))                                                                \
	X(int, attach_mcast, (struct old_qp *qp, union ibv_gid *gid, uint16_t lid))                            \
	X(int, detach_mcast, (struct old_qp *qp, union ibv_gid *gid, uint16_t lid))

/* old_alloc_pd and so on, bound as a program is that was linked in those days. */
#define X(result, name, arguments)                                                                             \
	extern result old_##name arguments;                                                                    \
	__asm__(".symver old_" #name ", ibv_" #name "@IBVERBS_1.0");
OLD_FUNCTIONS(X)
#undef X

#endif
