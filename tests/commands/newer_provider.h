/*
 * newer_provider.h - the private ABI as providers of rdma-core 65 see it, where rdma-core 44 has it not, or otherwise
 * (provider.h); and the methods of the uverbs ioctl that came since, by their numbers in Linux' <rdma/ib_user_ioctl_cmds.h>.
 */
#ifndef COMMANDS_NEWER_PROVIDER_H
#define COMMANDS_NEWER_PROVIDER_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

enum {
	DMAH_OBJECT = 17, DMABUF_OBJECT, COMP_CNTR_OBJECT,
	QUERY_PORT_SPEED = 7, QUERY_COMP_CNTR_CAPS, /* of the device */
	QP_ATTACH_COMP_CNTR = 2, REG_MR = 5
};

#define LATER_METHODS                                                                                                  \
	{UVERBS_OBJECT_DEVICE, QUERY_PORT_SPEED, NO_COMMAND, {OUT(1)}},                                                       \
	{UVERBS_OBJECT_DEVICE, QUERY_COMP_CNTR_CAPS, NO_COMMAND, {OUT(0), OUT(1), OUT(2)}},                                   \
	{UVERBS_OBJECT_QP, QP_ATTACH_COMP_CNTR, NO_COMMAND, {0}},                                                             \
	{UVERBS_OBJECT_MR, REG_MR, COMMAND(REG_MR), {OUT_OBJ(0), OUT(9), OUT(10)}},                                           \
	{DMAH_OBJECT, 0, NO_COMMAND, {OUT_OBJ(0)}},                                                                    \
	{DMAH_OBJECT, 1, NO_COMMAND, {0}},                                                                             \
	{DMABUF_OBJECT, 0, NO_COMMAND, {OUT_OBJ(0)}},                                                                  \
	{COMP_CNTR_OBJECT, 0, NO_COMMAND, {OUT_OBJ(0)}},                                                               \
	{COMP_CNTR_OBJECT, 1, NO_COMMAND, {0}},                                                                        \
	{COMP_CNTR_OBJECT, 2, NO_COMMAND, {0}},                                                                        \
	{COMP_CNTR_OBJECT, 3, NO_COMMAND, {OUT(2)}},

#include "calls.h"

struct private_dmah { struct ibv_dmah dmah; uint32_t handle; };
/* Memory that a provider brings for a completion queue, of the process or of a dma-buf. */
struct cq_memory { uint64_t length; union { void *address; struct { uint64_t offset; int fd; } dmabuf; }; };
enum { TIMESTAMP_IGNORED = 1, MEMORY_OF_PROCESS = 2, MEMORY_OF_DMABUF = 4 };
struct files { int *first; uint32_t count; };

BIND(_verbs_init_and_alloc_context, 65);
#define COMMAND_65(name, ...) int name(__VA_ARGS__); BIND(name, 65)
COMMAND_65(ibv_cmd_query_port_speed, struct ibv_context *, uint32_t, uint64_t *);
COMMAND_65(ibv_cmd_export_dmabuf_fd, struct ibv_context *, off_t);
COMMAND_65(ibv_cmd_alloc_dmah, struct ibv_context *, struct private_dmah *, struct ibv_dmah_init_attr *);
COMMAND_65(ibv_cmd_free_dmah, struct private_dmah *);
COMMAND_65(ibv_cmd_reg_mr_ex, struct ibv_pd *, struct private_mr *, struct ibv_mr_init_attr *);
COMMAND_65(ibv_cmd_query_comp_cntr_caps, struct ibv_context *, struct ibv_comp_cntr_caps *, size_t);
COMMAND_65(ibv_cmd_create_comp_cntr, struct ibv_context *, struct ibv_comp_cntr *, struct command_buffer *);
COMMAND_65(ibv_cmd_destroy_comp_cntr, struct ibv_comp_cntr *);
COMMAND_65(ibv_cmd_set_comp_cntr, struct ibv_comp_cntr *, uint64_t);
COMMAND_65(ibv_cmd_set_err_comp_cntr, struct ibv_comp_cntr *, uint64_t);
COMMAND_65(ibv_cmd_inc_comp_cntr, struct ibv_comp_cntr *, uint64_t);
COMMAND_65(ibv_cmd_inc_err_comp_cntr, struct ibv_comp_cntr *, uint64_t);
COMMAND_65(ibv_cmd_read_comp_cntr, struct ibv_comp_cntr *, uint64_t *);
COMMAND_65(ibv_cmd_read_err_comp_cntr, struct ibv_comp_cntr *, uint64_t *);
COMMAND_65(ibv_cmd_qp_attach_comp_cntr, struct ibv_qp *, struct ibv_comp_cntr *, struct ibv_qp_attach_comp_cntr_attr *);

/* Those whose arguments were others in rdma-core 44. */
#define COMMAND_AS(function, name, ...) int function(__VA_ARGS__); BIND_AS(function, name, 65)
COMMAND_AS(get_context_65, ibv_cmd_get_context, struct verbs_context *, void *, size_t, struct files *, void *, size_t);
COMMAND_AS(query_port_65, ibv_cmd_query_port, struct ibv_context *, uint8_t, struct ibv_port_attr *, void *, size_t);
COMMAND_AS(reg_dmabuf_mr_65, ibv_cmd_reg_dmabuf_mr, struct ibv_pd *, uint64_t, size_t, uint64_t, int, int,
	   struct private_mr *, struct command_buffer *);
COMMAND_AS(create_cq_ex_65, ibv_cmd_create_cq_ex, struct ibv_context *, const struct ibv_cq_init_attr_ex *,
	   struct cq_memory *, struct ibv_cq *, void *, size_t, void *, size_t, uint32_t);
COMMAND_AS(create_cq_ex2_65, ibv_cmd_create_cq_ex2, struct ibv_context *, const struct ibv_cq_init_attr_ex *,
	   struct cq_memory *, struct ibv_cq *, void *, size_t, void *, size_t, uint32_t, struct command_buffer *);
COMMAND_AS(create_qp_ex2_65, ibv_cmd_create_qp_ex2, struct ibv_context *, void *, struct ibv_qp_init_attr_ex *, void *,
	   size_t, void *, size_t, struct command_buffer *);

#endif
