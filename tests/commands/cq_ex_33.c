/*
 * cq_ex_33.c - ibv_cmd_create_cq_ex as plugins of rdma-core 33 to 35 call it: without flags of the command.
 */
#include "cq_ex.h"

int create_cq_ex_33(struct ibv_context *, struct ibv_cq_init_attr_ex *, struct ibv_cq *, void *, size_t, void *, size_t);
BIND_AS(create_cq_ex_33, ibv_cmd_create_cq_ex, 33);
BIND(_verbs_init_and_alloc_context, 33);

static void with_bytes(unsigned bytes)
{
	CALL(create_cq_ex_33(context, &attr, &cq, EXCMD(ib_uverbs_ex_create_cq, bytes),
			     RESP(ib_uverbs_ex_create_cq_resp, bytes)));
	show("cq", &cq, 32);
	DRIVER(ib_uverbs_ex_create_cq_resp, bytes);
}

static void queues(void)
{
	each_kind("bytes", 8, 24, ~0U, with_bytes);
	CALL(create_cq_ex_33(context, &attr, &cq, NULL, 0, NULL, 0));
	attr.comp_mask = 0;
	CALL(create_cq_ex_33(context, &attr, &cq, NULL, 0, NULL, 0));
}
