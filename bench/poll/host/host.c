/*
 * Stands in for libibverbs.so.1 so that rdma-core's soft-RoCE provider can be loaded without a device: it takes the
 * provider's table of operations, and lets the provider map its completion queue from a file of the benchmark's.
 *
 * Only what creating a completion queue needs is there; every other function that the provider imports stops the process.
 * The private layouts are those of PABI 34 as of rdma-core 44.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* struct verbs_device_ops, as far as it is looked at */
struct device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const void *match_table;
	const void *static_providers;
	void *match_device;
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
};

/* struct verbs_context_ops is one pointer per operation, in alphabetical order */
enum { OP_CREATE_CQ = 15, OP_POLL_CQ = 53 };

typedef struct ibv_cq *(*create_cq_fn)(struct ibv_context *, int cqe, struct ibv_comp_channel *, int vector);

static const struct device_ops *device_ops;
static void *const *context_ops;
static uint32_t ring_bytes;

void verbs_register_driver_34(const struct device_ops *ops)
{
	device_ops = ops;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size, struct verbs_context *offset,
				    uint32_t driver_id)
{
	char *provider_context = calloc(1, size);
	struct verbs_context *verbs = (struct verbs_context *)(provider_context + (uintptr_t)offset);

	(void)driver_id;
	if (!provider_context)
		return NULL;
	verbs->context.device = device;
	verbs->context.cmd_fd = cmd_fd;
	return provider_context;
}

int ibv_cmd_get_context(void)
{
	return 0;
}

void verbs_set_ops(struct verbs_context *context, const void *ops)
{
	(void)context;
	context_ops = ops;
}

int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
		      struct ibv_cq *cq, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	/* struct rxe_create_cq_resp behind struct ib_uverbs_create_cq_resp */
	struct answer {
		uint32_t cq_handle;
		uint32_t cqe;
		uint64_t offset;
		uint32_t size;
		uint32_t pad;
	} *answer = resp;

	(void)channel;
	(void)comp_vector;
	(void)cmd;
	(void)cmd_size;
	if (resp_size < sizeof(*answer))
		return -1;
	answer->offset = 0;
	answer->size = ring_bytes;
	cq->context = context;
	cq->cqe = cqe;
	return 0;
}

/* 0 once the provider has registered and given its operations */
int host_open(int fd, struct ibv_context **context)
{
	struct verbs_context *verbs;

	if (!device_ops || !(verbs = device_ops->alloc_context(NULL, fd, NULL)) || !context_ops)
		return -1;
	*context = &verbs->context;
	return 0;
}

/* A queue over `bytes` of the file, and the function that polls it */
struct ibv_cq *host_create_cq(struct ibv_context *context, uint32_t bytes, void **poll_cq)
{
	ring_bytes = bytes;
	*poll_cq = context_ops[OP_POLL_CQ];
	return ((create_cq_fn)context_ops[OP_CREATE_CQ])(context, 1, NULL, 0);
}

#define NOT_HERE(name)                                                                                                 \
	void name(void);                                                                                               \
	void name(void)                                                                                                \
	{                                                                                                              \
		fprintf(stderr, "bench-poll: the provider called " #name "\n");                                        \
		abort();                                                                                               \
	}

NOT_HERE(__verbs_log)
NOT_HERE(ibv_cmd_alloc_mw)
NOT_HERE(ibv_cmd_alloc_pd)
NOT_HERE(ibv_cmd_attach_mcast)
NOT_HERE(ibv_cmd_create_ah)
NOT_HERE(ibv_cmd_create_cq_ex)
NOT_HERE(ibv_cmd_create_qp)
NOT_HERE(ibv_cmd_create_qp_ex2)
NOT_HERE(ibv_cmd_create_srq)
NOT_HERE(ibv_cmd_create_srq_ex)
NOT_HERE(ibv_cmd_dealloc_mw)
NOT_HERE(ibv_cmd_dealloc_pd)
NOT_HERE(ibv_cmd_dereg_mr)
NOT_HERE(ibv_cmd_destroy_ah)
NOT_HERE(ibv_cmd_destroy_cq)
NOT_HERE(ibv_cmd_destroy_qp)
NOT_HERE(ibv_cmd_destroy_srq)
NOT_HERE(ibv_cmd_detach_mcast)
NOT_HERE(ibv_cmd_modify_qp)
NOT_HERE(ibv_cmd_modify_srq)
NOT_HERE(ibv_cmd_query_device_any)
NOT_HERE(ibv_cmd_query_port)
NOT_HERE(ibv_cmd_query_qp)
NOT_HERE(ibv_cmd_query_srq)
NOT_HERE(ibv_cmd_reg_mr)
NOT_HERE(ibv_cmd_req_notify_cq)
NOT_HERE(ibv_cmd_resize_cq)
NOT_HERE(verbs_uninit_context)

/* verbs.h declares these two. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	(void)context, (void)port_num, (void)index, (void)gid;
	abort();
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE],
				uint16_t *vid)
{
	(void)context, (void)attr, (void)eth_mac, (void)vid;
	abort();
}
