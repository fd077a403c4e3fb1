/*
 * cq_ex2_34.c - ibv_cmd_create_cq_ex2 as plugins of rdma-core 36 to 58 call it: with attributes of the driver, without memory
 * that the provider brings.
 */
#include "cq_ex.h"

int ibv_cmd_create_cq_ex2(struct ibv_context *, const struct ibv_cq_init_attr_ex *, struct ibv_cq *, void *, size_t, void *,
			  size_t, uint32_t, struct command_buffer *);

static void with_flags(unsigned flags)
{
	CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, EXCMD(ib_uverbs_ex_create_cq, 16),
				   RESP(ib_uverbs_ex_create_cq_resp, 8), flags & 1,
				   flags ? driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) : NULL));
	show("cq", &cq, 32);
	DRIVER(ib_uverbs_ex_create_cq_resp, 8);
	SHOW(far_out);
}

static void queues(void)
{
	each_kind("flags", 1, 4, 2, with_flags);
	attr.comp_mask = 0;
	CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, NULL, 0, NULL, 0, 0, NULL));
	CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, NULL, 0, NULL, 0, 1,
				   driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)));
}
