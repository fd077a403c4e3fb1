/*
 * cq_ex.h - completion queues with extended attributes, for which plugins of several releases ask by functions of
 * their own.
 */
#ifndef COMMANDS_CQ_EX_H
#define COMMANDS_CQ_EX_H

#include "calls.h"

static struct ibv_comp_channel channel;
static struct ibv_cq cq;
static struct ibv_cq_init_attr_ex attr;

/*
 * Calls `create` for each kind of queue and each value of `what` below `end`. A value with one of the bits
 * `with_channel` brings a channel.
 */
static void each_kind(const char *what, unsigned step, unsigned end, unsigned with_channel, void (*create)(unsigned))
{
	static const struct { uint64_t wc_flags; uint32_t mask, flags; } kinds[] = {
		{0, 0, 0}, {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0, 0}, {IBV_WC_EX_WITH_BYTE_LEN, 1, 2},
		{0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
		{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, {0, 4, 0}};

	open_context();
	channel = (struct ibv_comp_channel){.context = context, .fd = 33};
	attr = (struct ibv_cq_init_attr_ex){.cqe = 77, .comp_vector = 2};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (unsigned value = 0; value < end; value += step) {
			attr.wc_flags = kinds[i].wc_flags;
			attr.comp_mask = kinds[i].mask;
			attr.flags = kinds[i].flags;
			attr.channel = value & with_channel ? &channel : NULL;
			printf("kind %u %s %u\n", i, what, value);
			START(cq);
			buffers();
			create(value);
		}
}

static void queues(void);

int main(void)
{
	/* The library learns the kernel's version of the commands here. */
	ibv_free_device_list(ibv_get_device_list(NULL));

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	name(&device, "device"); name(&channel, "channel"); name(&cq, "cq");
	over_each_kernel(queues);
	return 0;
}

#endif
