/*
 * cq_ex2_34.c - ibv_cmd_create_cq_ex2 as plugins of rdma-core 36 to 58 call it: with attributes of the driver, without memory
 * that the provider brings.
 */
#include "calls.h"

int ibv_cmd_create_cq_ex2(struct ibv_context *, const struct ibv_cq_init_attr_ex *, struct ibv_cq *, void *, size_t, void *,
			  size_t, uint32_t, struct command_buffer *);

static struct ibv_comp_channel channel;
static struct ibv_cq cq;

static void queues(void)
{
	static const struct { uint64_t wc_flags; uint32_t mask, flags; } kinds[] = {
		{0, 0, 0}, {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0, 0}, {IBV_WC_EX_WITH_BYTE_LEN, 1, 2},
		{0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
		{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, {0, 4, 0}};
	struct ibv_cq_init_attr_ex attr = {.cqe = 77, .comp_vector = 2};

	open_context();
	channel = (struct ibv_comp_channel){.context = context, .fd = 33};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (unsigned flags = 0; flags < 4; flags++) {
			attr.wc_flags = kinds[i].wc_flags;
			attr.comp_mask = kinds[i].mask;
			attr.flags = kinds[i].flags;
			attr.channel = flags & 2 ? &channel : NULL;
			printf("kind %u flags %u\n", i, flags);
			START(cq);
			buffers();
			CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, EXCMD(ib_uverbs_ex_create_cq, 16),
						   RESP(ib_uverbs_ex_create_cq_resp, 8), flags & 1,
						   flags ? driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) : NULL));
			show("cq", &cq, 32);
			DRIVER(ib_uverbs_ex_create_cq_resp, 8);
			SHOW(far_out);
		}
	attr.comp_mask = 0;
	CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, NULL, 0, NULL, 0, 0, NULL));
	CALL(ibv_cmd_create_cq_ex2(context, &attr, &cq, NULL, 0, NULL, 0, 1,
				   driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)));
}

int main(void)
{
	/* The library learns the kernel's version of the commands here. */
	ibv_free_device_list(ibv_get_device_list(NULL));

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	name(&device, "device"); name(&channel, "channel"); name(&cq, "cq");
	over_each_kernel(queues);
	return 0;
}
