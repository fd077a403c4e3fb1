/*
 * soft_only_dmabuf.c - regions of dma-bufs on the software device, as far as a machine without an exporter of them shows.
 *
 * Proves: what is no dma-buf is refused by the errno of a kernel device, in the order in which one looks, and a refusal
 * leaves nothing in the protection domain. tests/dmabuf has real ones.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "setup.h"

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

int main(void)
{
	struct ibv_context *c;
	struct ibv_pd *pd;
	int none = -1, closed, file, null, ends[2];

	begin();
	c = open_device("rxe0");
	pd = CALL_PTR(ibv_alloc_pd(c));
	file = memfd_create("a file", MFD_CLOEXEC);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (file < 0 || ftruncate(file, 65536) || null < 0 || pipe(ends))
		die("files");
	closed = dup(null);
	close(closed);

	note("files");
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, closed, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, INT32_MIN, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, file, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, file, 0));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, null, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, ends[0], RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, c->async_fd, RIGHTS));

	note("what is wrong whatever the file is");
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 1, 4096, 0, none, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 1, none, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, UINT64_MAX - 4095, 4096, 0, none, RIGHTS));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, IBV_ACCESS_REMOTE_WRITE));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, IBV_ACCESS_REMOTE_ATOMIC));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS | IBV_ACCESS_MW_BIND));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS | IBV_ACCESS_ZERO_BASED));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS | IBV_ACCESS_ON_DEMAND));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS | IBV_ACCESS_HUGETLB));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, RIGHTS | 1 << 31));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, none, ~0));
	CALL_PTR(ibv_reg_dmabuf_mr(NULL, 0, 4096, 0, file, RIGHTS));

	note("what is right with every file that is a dma-buf");
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 4097, 1, 1, none, RIGHTS | IBV_ACCESS_RELAXED_ORDERING));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, SIZE_MAX, 0, none, 0));

	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
