/*
 * cq_ex_33.c - ibv_cmd_create_cq_ex as plugins of rdma-core 33 to 35 call it: without flags of the command.
 */
#include "calls.h"

int create_cq_ex_33(struct ibv_context *, struct ibv_cq_init_attr_ex *, struct ibv_cq *, void *, size_t, void *, size_t);
BIND_AS(create_cq_ex_33, ibv_cmd_create_cq_ex, 33);
BIND(_verbs_init_and_alloc_context, 33);

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
		for (int bytes = 0; bytes <= 16; bytes += 8) {
			attr.wc_flags = kinds[i].wc_flags;
			attr.comp_mask = kinds[i].mask;
			attr.flags = kinds[i].flags;
			attr.channel = bytes ? &channel : NULL;
			printf("kind %u bytes %d\n", i, bytes);
			START(cq);
			buffers();
			CALL(create_cq_ex_33(context, &attr, &cq, EXCMD(ib_uverbs_ex_create_cq, bytes),
					     RESP(ib_uverbs_ex_create_cq_resp, bytes)));
			show("cq", &cq, 32);
			DRIVER(ib_uverbs_ex_create_cq_resp, bytes);
		}
	CALL(create_cq_ex_33(context, &attr, &cq, NULL, 0, NULL, 0));
	attr.comp_mask = 0;
	CALL(create_cq_ex_33(context, &attr, &cq, NULL, 0, NULL, 0));
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
