/*
 * newer_commands.c - the functions for providers that rdma-core 44 has not, or with other arguments: what each gives to the
 * kernel and what it makes of the answer, as `commands` records it of the others.
 */
#include "newer_provider.h"
#include "objects.h"

static struct private_dmah dmah;
static struct ibv_comp_cntr counter;
static struct ibv_srq srq;
static _Alignas(4096) char memory[64];

static void handles(void)
{
	common_handles();
	OF_CONTEXT(srq, context);
	srq.handle = 0x105;
	dmah = (struct private_dmah){.dmah.context = context, .handle = 0x110};
	OF_CONTEXT(counter, context);
	counter.handle = 0x111;
}

static void contexts(void)
{
	static const uint32_t ports[] = {0, 1, 255, 256, UINT32_MAX};
	int open_files[] = {7, 8, 9};
	struct files files = {.first = open_files};
	struct ibv_port_attr port;
	uint64_t speed;

	name(open_files, "open_files");
	name(&files, "files");
	buffers();
	CALL(get_context_65(outer, NULL, 0, NULL, NULL, 0));
	for (files.count = 0; files.count <= 3; files.count++) {
		buffers();
		context->num_comp_vectors = context->async_fd = -1;
		device.core_support = 0;
		CALL(get_context_65(outer, CMD(ib_uverbs_get_context, 12), &files, RESP(ib_uverbs_get_context_resp, 16)));
		printf("  vectors %d async %d core support %#llx\n", context->num_comp_vectors, context->async_fd,
		       (unsigned long long)device.core_support);
		DRIVER(ib_uverbs_get_context_resp, 16);
	}
	context->async_fd = -1;
	for (unsigned i = 0; i < sizeof ports / sizeof *ports; i++) {
		START(port);
		buffers();
		CALL(query_port_65(context, ports[i], &port, CMD(ib_uverbs_query_port, i % 2 ? 8 : 0)));
		SHOW(port);
		START(speed);
		CALL(ibv_cmd_query_port_speed(context, ports[i], &speed));
		SHOW(speed);
	}
}

static void hints(void)
{
	struct ibv_dmah_init_attr attr = {.cpu_id = 0x12345678, .ph = 0xab, .tph_mem_type = 1};
	static const off_t pages[] = {0, 1, 0x123456789, INT64_MAX, -1};

	name(&attr, "attr");
	for (uint32_t mask = 0; mask < 16; mask++) {
		START(dmah);
		attr.comp_mask = mask;
		printf("mask %#x\n", mask);
		CALL(ibv_cmd_alloc_dmah(context, &dmah, &attr));
		show("dmah", &dmah, offsetof(struct private_dmah, handle) + 4);
	}
	attr = (struct ibv_dmah_init_attr){.comp_mask = UINT32_MAX, .cpu_id = UINT32_MAX, .ph = 0, .tph_mem_type = 255};
	CALL(ibv_cmd_alloc_dmah(context, &dmah, &attr));
	handles();
	CALL(ibv_cmd_free_dmah(&dmah));
	for (unsigned i = 0; i < sizeof pages / sizeof *pages; i++)
		CALL(ibv_cmd_export_dmabuf_fd(context, pages[i]));
}

static void counters(void)
{
	static const uint64_t values[] = {0, 1, 1ull << 32, UINT64_MAX};
	struct { struct ibv_comp_cntr_caps caps; char more[8]; } room;
	struct ibv_qp_attach_comp_cntr_attr attach = {0};
	uint64_t value;

	name(&value, "value");
	for (int more = -1; more <= 1; more++) {
		START(room);
		CALL(ibv_cmd_query_comp_cntr_caps(context, &room.caps, sizeof room.caps + more));
		SHOW(room.caps.max_value);
		SHOW(room.caps.max_counters);
		SHOW(room.caps.supported_qp_attach_ops);
		SHOW(room.more);
	}
	CALL(ibv_cmd_query_comp_cntr_caps(context, &room.caps, 0));
	START(counter);
	CALL(ibv_cmd_create_comp_cntr(context, &counter, NULL));
	SHOW(counter);
	START(counter);
	CALL(ibv_cmd_create_comp_cntr(context, &counter, driver(COMP_CNTR_OBJECT, 0)));
	SHOW(counter);
	SHOW(far_out);
	handles();
	for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
		CALL(ibv_cmd_set_comp_cntr(&counter, values[i]));
		CALL(ibv_cmd_set_err_comp_cntr(&counter, values[i]));
		CALL(ibv_cmd_inc_comp_cntr(&counter, values[i]));
		CALL(ibv_cmd_inc_err_comp_cntr(&counter, values[i]));
	}
	START(value);
	CALL(ibv_cmd_read_comp_cntr(&counter, &value));
	SHOW(value);
	START(value);
	CALL(ibv_cmd_read_err_comp_cntr(&counter, &value));
	SHOW(value);
	for (int bit = -1; bit <= 8; bit++) {
		attach.op_mask = bit < 0 ? 0 : 1u << bit;
		attach.comp_mask = bit == 8;
		CALL(ibv_cmd_qp_attach_comp_cntr(&qp.qp, &counter, &attach));
	}
	attach.op_mask = UINT32_MAX;
	CALL(ibv_cmd_qp_attach_comp_cntr(&qp.qp, &counter, &attach));
	CALL(ibv_cmd_destroy_comp_cntr(&counter));
}

static void regions(void)
{
	static const struct { uintptr_t addr; size_t length; unsigned access; int fd; } places[] = {
		{(uintptr_t)memory, 64, 5, 17}, {0, 0, 0, 0}, {(uintptr_t)memory, SIZE_MAX, IBV_ACCESS_ON_DEMAND, -1},
		{0, SIZE_MAX, IBV_ACCESS_ON_DEMAND, INT32_MIN}, {(uintptr_t)memory, SIZE_MAX, 1, 1},
		{UINTPTR_MAX, 4096, IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_ON_DEMAND, INT32_MAX}};
	enum { IN_MEMORY = IBV_REG_MR_MASK_ADDR, IN_FILE = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA };
	struct ibv_mr_init_attr attr = {.iova = 0x7000, .fd_offset = 0x3000, .dmah = &dmah.dmah};

	name(&dmah, "dmah");
	/* Every mask at the first place. */
	for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
		for (unsigned mask = 0; mask < 64; mask++) {
			if (i && mask != IN_MEMORY && mask != (IN_MEMORY | IBV_REG_MR_MASK_DMAH) && mask != IN_FILE)
				continue;
			attr.addr = (void *)places[i].addr;
			attr.length = places[i].length;
			attr.access = places[i].access;
			attr.fd = places[i].fd;
			attr.comp_mask = mask;
			printf("place %u mask %#x\n", i, mask);
			START(mr);
			CALL(ibv_cmd_reg_mr_ex(&pd, &mr, &attr));
			SHOW(mr);
		}
	attr.comp_mask |= 1ull << 40;
	CALL(ibv_cmd_reg_mr_ex(&pd, &mr, &attr));
	for (int link = 0; link < 2; link++) {
		START(mr);
		CALL(reg_dmabuf_mr_65(&pd, 0x2000, 0x3000, 0x4000, 17, 5, &mr, link ? driver(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR) : NULL));
		show("mr", &mr, 44);
		show("mr type and access", &mr.mr_type, 8);
		SHOW(far_out);
	}
	CALL(reg_dmabuf_mr_65(&pd, UINT64_MAX, SIZE_MAX, UINT64_MAX, -1, -1, &mr, NULL));
	handles();
}

static void completion_queues(void)
{
	static const struct { uint64_t wc_flags; uint32_t mask, flags; } kinds[] = {
		{0, 0, 0}, {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0, 0}, {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 2, 0},
		{0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, {0, 4, 0}, {0, 3, 2}};
	struct cq_memory of_process = {.length = 0x5000, .address = memory};
	struct cq_memory of_file = {.length = 0x6000, .dmabuf = {.offset = 0x1000, .fd = 19}};
	struct ibv_cq_init_attr_ex attr = {.cqe = 77, .comp_vector = 2};

	name(&of_process, "of_process");
	name(&of_file, "of_file");
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (unsigned flags = 0; flags < (i ? 3 : 16); flags++) {
			struct cq_memory *place = flags & MEMORY_OF_PROCESS ? &of_process : &of_file;

			attr.wc_flags = kinds[i].wc_flags;
			attr.comp_mask = kinds[i].mask;
			attr.flags = kinds[i].flags;
			attr.channel = flags & TIMESTAMP_IGNORED ? &channel : NULL;
			printf("kind %u flags %#x\n", i, flags);
			START(cq);
			buffers();
			CALL(create_cq_ex_65(context, &attr, flags & 8 ? NULL : place, &cq, EXCMD(ib_uverbs_ex_create_cq, 16),
					     RESP(ib_uverbs_ex_create_cq_resp, 8), flags & 7));
			show("cq", &cq, 32);
			DRIVER(ib_uverbs_ex_create_cq_resp, 8);
			START(cq);
			buffers();
			CALL(create_cq_ex2_65(context, &attr, flags & 8 ? NULL : place, &cq, EXCMD(ib_uverbs_ex_create_cq, 8),
					      RESP(ib_uverbs_ex_create_cq_resp, 8), flags & 7,
					      flags & 1 ? driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) : NULL));
			show("cq", &cq, 32);
			SHOW(far_out);
		}
	attr.channel = NULL;
	CALL(create_cq_ex2_65(context, &attr, NULL, &cq, NULL, 0, NULL, 0, 0,
			      driver(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)));
	handles();
}

static void queue_pairs(void)
{
	static const int types[] = {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER, 99};
	static const uint32_t masks[] = {IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0, 1 << 10};
	struct ibv_qp_init_attr_ex attr;

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		for (unsigned at = 0; at < 2 * sizeof masks / sizeof *masks; at++) {
			memset(&attr, 0, sizeof attr);
			attr.qp_context = &device;
			attr.send_cq = attr.recv_cq = &cq;
			attr.srq = i % 2 ? &srq : NULL;
			attr.cap = (struct ibv_qp_cap){10, 20, 3, 4, 50};
			attr.qp_type = types[i];
			attr.comp_mask = masks[at / 2];
			attr.pd = &pd;
			attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
			printf("type %d mask %#x\n", types[i], attr.comp_mask);
			memset(&qp, 0, sizeof qp);
			buffers();
			CALL(create_qp_ex2_65(context, &qp, &attr, EXCMD(ib_uverbs_ex_create_qp, 16),
					      RESP(ib_uverbs_ex_create_qp_resp, 16),
					      at % 2 ? driver(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) : NULL));
			/* With an unknown bit in the mask, the context of the queue pair that is not made does not matter. */
			if (at < 6)
				show("qp", &qp, 160);
			show("cap", &attr.cap, sizeof attr.cap);
			DRIVER(ib_uverbs_ex_create_qp_resp, 16);
			SHOW(far_out);
		}
	handles();
}

static void everything(void)
{
	open_context();
	contexts();
	handles();
	hints();
	handles();
	counters();
	handles();
	regions();
	completion_queues();
	queue_pairs();
}

/* Every function that destroys something on a device that is gone. */
static void gone(void)
{
	handles();
	CALL(ibv_cmd_free_dmah(&dmah));
	CALL(ibv_cmd_destroy_comp_cntr(&counter));
}

int main(void)
{
	/* The library learns the kernel's version of the commands here. */
	ibv_free_device_list(ibv_get_device_list(NULL));

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	name(&device, "device"); name(&pd, "pd"); name(&mr, "mr"); name(&dmah, "dmah"); name(&counter, "counter");
	name(&channel, "channel"); name(&cq, "cq"); name(&srq, "srq"); name(&qp, "qp"); name(memory, "memory");

	over_each_kernel(everything);
	puts("== every command is unknown");
	kernel.ioctl = kernel.methods = true;
	kernel.fails = EPROTONOSUPPORT;
	everything();
	without_device(gone);
	return 0;
}
