/*
 * objects.c - what it costs to create and destroy each kind of object, to list the devices, and to open one. The kernel's
 * part is that of the kernel in the process, which is less than a real one's, and the same for both libraries.
 */
#include "bench.h"

#include <stdio.h>

enum { MADE = 8 };

struct making {
	const struct kind *kind;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	void *made[MADE];
	uint64_t destroying;
};

struct kind {
	const char *name;
	void *(*create)(struct making *making);
	int (*destroy)(void *object);
	bool siw; /* whether soft-iWARP has it */
};

static unsigned char buffer[4096];

#define KIND(name, create_it, type, destroy_it)                                                \
	static void *create_##name(struct making *m) { (void)m; return create_it; }            \
	static int destroy_##name(void *object) { return destroy_it((struct type *)object); }

static struct ibv_qp_init_attr_ex qp_attr(struct making *m)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = m->cq, .recv_cq = m->cq, .qp_type = IBV_QPT_RC, .pd = m->pd,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND};
}

static struct ibv_qp *new_qp(struct making *m)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(m);

	return ibv_create_qp(m->pd, (struct ibv_qp_init_attr *)&attr);
}

static struct ibv_qp *new_qp_ex(struct making *m)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(m);

	return ibv_create_qp_ex(m->context, &attr);
}

static struct ibv_cq *new_cq_ex(struct making *m)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 63, .wc_flags = IBV_WC_STANDARD_FLAGS};

	return ibv_cq_ex_to_cq(ibv_create_cq_ex(m->context, &attr));
}

static struct ibv_ah *new_ah(struct making *m)
{
	/* A link-local address on the same link, whose hardware address follows from it. */
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	attr.grh.dgid = (union ibv_gid){.raw = {0xfe, 0x80, [8] = 2, 0x50, 0xb6, 0xff, 0xfe, 0, 0, 1}};
	return ibv_create_ah(m->pd, &attr);
}

KIND(pd, ibv_alloc_pd(m->context), ibv_pd, ibv_dealloc_pd)
KIND(mr, ibv_reg_mr(m->pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE), ibv_mr, ibv_dereg_mr)
KIND(mw, ibv_alloc_mw(m->pd, IBV_MW_TYPE_1), ibv_mw, ibv_dealloc_mw)
KIND(ah, new_ah(m), ibv_ah, ibv_destroy_ah)
KIND(comp_channel, ibv_create_comp_channel(m->context), ibv_comp_channel, ibv_destroy_comp_channel)
KIND(cq, ibv_create_cq(m->context, 63, NULL, NULL, 0), ibv_cq, ibv_destroy_cq)
KIND(cq_ex, new_cq_ex(m), ibv_cq, ibv_destroy_cq)
KIND(srq, ibv_create_srq(m->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 63, .max_sge = 1}}), ibv_srq, ibv_destroy_srq)
KIND(qp, new_qp(m), ibv_qp, ibv_destroy_qp)
KIND(qp_ex, new_qp_ex(m), ibv_qp, ibv_destroy_qp)

static const struct kind kinds[] = {
#define ROW(name, siw) {#name, create_##name, destroy_##name, siw}
	ROW(pd, true), ROW(mr, true), ROW(mw, false), ROW(ah, false),
	ROW(comp_channel, true), ROW(cq, true), ROW(cq_ex, false), ROW(srq, true), ROW(qp, true), ROW(qp_ex, false),
};

/* What is made first is destroyed last. */
static uint64_t create(void *argument)
{
	struct making *making = argument;
	uint64_t start = ticks(), middle;

	for (int i = 0; i < MADE; i++)
		if (!(making->made[i] = making->kind->create(making)))
			die(making->kind->name);
	middle = ticks();
	for (int i = MADE - 1; i >= 0; i--)
		if (making->kind->destroy(making->made[i]))
			die(making->kind->name);
	making->destroying = ticks() - middle;
	return middle - start;
}

static uint64_t destroy(void *argument)
{
	struct making *making = argument;

	create(argument);
	return making->destroying;
}

static uint64_t list(void *argument)
{
	uint64_t start = ticks();
	struct ibv_device **devices = ibv_get_device_list(NULL);

	(void)argument;
	ibv_free_device_list(devices);
	return ticks() - start;
}

static uint64_t open_device(void *device)
{
	uint64_t start = ticks();
	struct ibv_context *context = ibv_open_device(device);

	MUST(context && !ibv_close_device(context));
	return ticks() - start;
}

void measure_objects(struct ibv_context *context)
{
	struct making making = {.context = context};
	char name[64];

	making.pd = ibv_alloc_pd(context);
	making.cq = ibv_create_cq(context, 63, NULL, NULL, 0);
	MUST(making.pd && making.cq);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		making.kind = &kinds[i];
		if (is_siw && !kinds[i].siw)
			continue;
		snprintf(name, sizeof name, "create %s", kinds[i].name);
		report(name, 60, create, &making, MADE);
		snprintf(name, sizeof name, "destroy %s", kinds[i].name);
		report(name, 60, destroy, &making, MADE);
	}
	MUST(!ibv_destroy_cq(making.cq) && !ibv_dealloc_pd(making.pd));
}

void measure_devices(struct ibv_context *context)
{
	report("list and free devices", 40, list, NULL, 1);
	report("open and close a device", 40, open_device, context->device, 1);
}
