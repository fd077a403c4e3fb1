/*
 * ours_only_newer.c - verbs that rdma-core 44 has not: what user space alone gives, and the answers of a device without the
 * rest. Declared here, since the headers of rdma-core 44 do not.
 */
#include "setup.h"

#ifndef IBV_DEVICE_CC_DMA_BOUNCE /* headers older than those of rdma-core 65 */
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
int ibv_query_port_speed(struct ibv_context *, uint32_t port, uint64_t *speed);
void *ibv_alloc_buf(struct ibv_pd *, size_t, struct ibv_buf **);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *);
void ibv_free_buf(struct ibv_buf *);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *, struct ibv_buf *, void *, size_t, int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *, struct ibv_mr_init_attr *);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *, struct ibv_dmah_init_attr *);
int _ibv_query_comp_cntr_caps(struct ibv_context *, struct ibv_comp_cntr_caps *, size_t);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *, struct ibv_comp_cntr_init_attr *);
#endif

/* The library that programs are linked with may have none of them. */
#pragma weak ibv_query_port_speed
#pragma weak ibv_alloc_buf
#pragma weak ibv_export_buf_dmabuf_fd
#pragma weak ibv_free_buf
#pragma weak ibv_reg_buf_mr
#pragma weak ibv_reg_mr_ex
#pragma weak ibv_alloc_dmah
#pragma weak _ibv_query_comp_cntr_caps
#pragma weak ibv_create_comp_cntr

int main(void)
{
	struct ibv_context *c;
	struct ibv_pd *pd, *other;
	struct ibv_buf *buf = NULL;
	struct ibv_mr *mr;
	struct ibv_mr_init_attr region = {.length = 4096, .access = IBV_ACCESS_LOCAL_WRITE};
	uint64_t zeros[8] = {0};
	void *attr = zeros;
	char *memory;

	begin();
	c = open_device("rxe0");
	pd = CALL_PTR(ibv_alloc_pd(c));
	other = CALL_PTR(ibv_alloc_pd(c));

	for (uint32_t port = 0; port < 3; port++) {
		uint64_t speed = 77;
		int error = ibv_query_port_speed(c, port, &speed);

		/* Soft-RoCE tells none, and the software device that of its only port. */
		CHECK(error ? (error == EOPNOTSUPP || (error == EINVAL && port != 1)) && speed == 77 : port == 1 && speed == 1000);
	}

	memory = CALL_PTR(ibv_alloc_buf(pd, 10000, &buf));
	CHECK(memory && (uintptr_t)memory % 4096 == 0 && buf);
	memset(memory, 1, 10000);
	mr = CALL_PTR(ibv_reg_buf_mr(pd, buf, memory + 100, 9900, IBV_ACCESS_LOCAL_WRITE));
	CHECK(mr && mr->addr == memory + 100 && mr->length == 9900 && mr->pd == pd && mr->context == c);
	CALL_INT(ibv_dereg_mr(mr));
	CALL_PTR(ibv_reg_buf_mr(pd, buf, memory + 100, 9901, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_buf_mr(pd, buf, memory - 1, 1, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_buf_mr(other, buf, memory, 1, IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_export_buf_dmabuf_fd(buf));

	region.addr = memory;
	region.iova = 0x7000;
	for (unsigned mask = 0; mask < 64; mask++) {
		region.comp_mask = mask;
		region.buf = buf;
		region.fd = -1;
		printf("mask %#x\n", mask);
		mr = CALL_PTR(ibv_reg_mr_ex(pd, &region));
		if (mr) {
			CHECK(mr->addr == memory && mr->length == 4096);
			CALL_INT(ibv_dereg_mr(mr));
		}
	}
	ibv_free_buf(buf);

	CALL_PTR(ibv_alloc_dmah(c, attr));
	CALL_INT(_ibv_query_comp_cntr_caps(c, attr, 16));
	CALL_PTR(ibv_create_comp_cntr(c, attr));
	CALL_INT(ibv_dealloc_pd(other));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
