/*
 * random_newer.h - random calls of what came after rdma-core 44. Needs headers of rdma-core 65.
 */
#ifndef CTEST_RANDOM_NEWER_H
#define CTEST_RANDOM_NEWER_H

#include "random_rare.h"

/* Buffers of the library's own, and regions in them. */
static inline void buffers(struct room *r)
{
	struct ibv_pd *pd = live(&r->pds), *other = live(&r->pds);
	struct ibv_buf *buf = NULL;
	size_t size = chance(90) ? rnd(20000) : rnd(2) * SIZE_MAX, length = rnd(25000);
	struct ibv_mr_init_attr attr = {.access = chance(80) ? (int)rnd(32) : (int)bits()};
	struct ibv_mr *mr;
	unsigned char *memory;

	if (!pd)
		return;
	memory = MADE("alloc_buf", ibv_alloc_buf(pd, size, &buf));
	if (memory) {
		note("    aligned %d", (uintptr_t)memory % 4096 == 0);
		mr = MADE("reg_buf_mr", ibv_reg_buf_mr(chance(80) ? pd : other, buf, memory + rnd(100), length, attr.access));
		if (mr)
			RESULT("dereg_mr", ibv_dereg_mr(mr));
		RESULT("export_buf_dmabuf_fd", ibv_export_buf_dmabuf_fd(buf));
	}
	attr.comp_mask = chance(80) ? rnd(64) : bits();
	attr.addr = memory && chance(50) ? memory : arena;
	/* What is mapped behind a buffer differs from run to run. */
	attr.length = attr.addr == memory && length > size ? size : length;
	attr.iova = rnd(1 << 30);
	attr.fd = -1;
	attr.buf = memory ? buf : NULL;
	if (!attr.buf)
		attr.comp_mask &= ~(uint64_t)IBV_REG_MR_MASK_BUF;
	attr.comp_mask &= ~(uint64_t)IBV_REG_MR_MASK_DMAH; /* nobody gives such a handle */
	mr = MADE("reg_mr_ex", ibv_reg_mr_ex(pd, &attr));
	note("    mask 0x%" PRIx64, attr.comp_mask);
	if (mr) {
		PRINT_MR(mr, pd, attr.addr, attr.length);
		RESULT("dereg_mr", ibv_dereg_mr(mr));
	}
	if (memory)
		VOID("free_buf", ibv_free_buf(buf));
}

static inline void newer_calls(struct room *r)
{
	struct ibv_context *c = r->context;
	struct ibv_dmah_init_attr dmah_init = {bits(), rnd(4), (uint8_t)rnd(3), (uint8_t)rnd(3)};
	struct ibv_dmah dmah = {.context = c};
	struct ibv_dm dm = {.context = c};
	struct ibv_comp_cntr_caps caps;
	struct ibv_comp_cntr_init_attr init = {bits(), rnd(3), bits()};
	struct ibv_comp_cntr counter = {.context = c, .handle = rnd(20)};
	struct ibv_qp_attach_comp_cntr_attr attach = {bits(), rnd(64)};
	struct ibv_qp *qp = live(&r->qps);
	uint64_t value = 5;
	size_t size = chance(70) ? sizeof(caps) : rnd(sizeof(caps));

	switch (rnd(18)) {
	case 0: RESULT("query_port_speed", ibv_query_port_speed(c, rnd(4), &value)); break;
	case 1: MADE("alloc_dmah", ibv_alloc_dmah(c, &dmah_init)); break;
	case 2: RESULT("dealloc_dmah", ibv_dealloc_dmah(&dmah)); break;
	case 3: RESULT("dm_export_dmabuf_fd", ibv_dm_export_dmabuf_fd(&dm)); break;
	case 4:
		FILL(caps);
		RESULT("query_comp_cntr_caps", _ibv_query_comp_cntr_caps(c, &caps, size));
		print_bytes(&caps, sizeof(caps));
		break;
	case 5: MADE("create_comp_cntr", ibv_create_comp_cntr(c, &init)); break;
	case 6: RESULT("destroy_comp_cntr", ibv_destroy_comp_cntr(&counter)); break;
	case 7: RESULT("set_comp_cntr", ibv_set_comp_cntr(&counter, rnd(100))); break;
	case 8: RESULT("set_err_comp_cntr", ibv_set_err_comp_cntr(&counter, rnd(100))); break;
	case 9: RESULT("inc_comp_cntr", ibv_inc_comp_cntr(&counter, rnd(100))); break;
	case 10: RESULT("inc_err_comp_cntr", ibv_inc_err_comp_cntr(&counter, rnd(100))); break;
	case 11: RESULT("read_comp_cntr", ibv_read_comp_cntr(&counter, &value)); break;
	case 12: RESULT("read_err_comp_cntr", ibv_read_err_comp_cntr(&counter, &value)); break;
	case 13:
		if (qp)
			RESULT("qp_attach_comp_cntr", ibv_qp_attach_comp_cntr(qp, &counter, &attach));
		break;
	default: buffers(r);
	}
	note("    value %" PRIu64, value);
}

#endif
