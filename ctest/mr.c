/*
 * mr.c - memory regions.
 *
 * Proves: registration with every combination of access flags, by all three calls; lengths and addresses that
 * cannot be registered; optional flags; on-demand and dma-buf registration, which soft-RoCE lacks; every refusal of
 * ibv_rereg_mr; advice; and that a region still works where the struct says so.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "setup.h"

static unsigned char *buffer;
#define LENGTH 65536

static void access_flags(struct ibv_pd *pd)
{
	for (int access = 0; access < 256; access++) {
		struct ibv_mr *mr;

		note("access 0x%x", access);
		mr = CALL_PTR(ibv_reg_mr(pd, buffer, LENGTH, access));
		if (mr) {
			PRINT_MR(mr, pd, buffer, LENGTH);
			CALL_INT(ibv_dereg_mr(mr));
		}
	}
	static const unsigned more[] = {1 << 8, 1 << 9, 1 << 19, IBV_ACCESS_RELAXED_ORDERING,
					IBV_ACCESS_RELAXED_ORDERING | 1, 1 << 21, 1 << 29, 1 << 30, 1u << 31};

	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
		struct ibv_mr *mr;

		note("access 0x%x", more[i]);
		mr = CALL_PTR(ibv_reg_mr_iova2(pd, buffer, LENGTH, (uintptr_t)buffer, more[i]));
		if (mr)
			CALL_INT(ibv_dereg_mr(mr));
	}
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(pd, buffer, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
}

static void ranges(struct ibv_pd *pd)
{
	static const size_t lengths[] = {0, 1, 4095, 4096, 4097, LENGTH};
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		note("length %zu", lengths[i]);
		mr = CALL_PTR(ibv_reg_mr(pd, buffer, lengths[i], IBV_ACCESS_LOCAL_WRITE));
		if (mr) {
			PRINT_MR(mr, pd, buffer, lengths[i]);
			CALL_INT(ibv_dereg_mr(mr));
		}
		mr = CALL_PTR(ibv_reg_mr(pd, buffer + 13, lengths[i], 0));
		if (mr)
			CALL_INT(ibv_dereg_mr(mr));
	}
	CALL_PTR(ibv_reg_mr(pd, NULL, 4096, IBV_ACCESS_LOCAL_WRITE));
	mr = CALL_PTR(ibv_reg_mr(pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	CALL_PTR(ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
	CALL_PTR(ibv_reg_mr(pd, buffer, LENGTH, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_mr(pd, (void *)16, 4096, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_mr(pd, buffer, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_mr(pd, buffer, SIZE_MAX - 8192, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_reg_mr(pd, (void *)UINTPTR_MAX, 4096, 0));

	void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = CALL_PTR(ibv_reg_mr(pd, read_only, 4096, IBV_ACCESS_LOCAL_WRITE));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	mr = CALL_PTR(ibv_reg_mr(pd, read_only, 4096, IBV_ACCESS_REMOTE_READ));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	mr = CALL_PTR(ibv_reg_mr(pd, nothing, 4096, 0)); /* nothing can be read there, but pages are only pinned */
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	munmap(nothing, 4096);
	CALL_PTR(ibv_reg_mr(pd, nothing, 4096, IBV_ACCESS_LOCAL_WRITE));
	munmap(read_only, 4096);
}

static void iova(struct ibv_pd *pd)
{
	static const uint64_t bases[] = {0, 0x1000, 0x1001, 0x7fffffff0000, UINT64_MAX, UINT64_MAX - LENGTH};

	for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++) {
		struct ibv_mr *mr;

		note("iova 0x%" PRIx64, bases[i]);
		mr = CALL_PTR(ibv_reg_mr_iova(pd, buffer, LENGTH, bases[i], IBV_ACCESS_LOCAL_WRITE));
		if (mr) {
			PRINT_MR(mr, pd, buffer, LENGTH);
			CALL_INT(ibv_dereg_mr(mr));
		}
	}
}

static void rereg(struct ibv_pd *pd, struct ibv_pd *other)
{
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(pd, buffer, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	static unsigned char second[8192];

	CALL_INT(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0));
	CALL_INT(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0));
	CALL_INT(ibv_rereg_mr(mr, -1, NULL, NULL, 0, 0));
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0));
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, 0, 0));
	CALL_INT(ibv_rereg_mr(mr, 0, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	PRINT_MR(mr, pd, buffer, LENGTH);
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ));
	CALL_INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, sizeof(second), 0));
	CALL_INT(ibv_rereg_mr(mr, 7, other, second, sizeof(second), IBV_ACCESS_LOCAL_WRITE));
	PRINT_MR(mr, pd, buffer, LENGTH);
	CALL_INT(ibv_dereg_mr(mr));
}

static void advice(struct ibv_pd *pd)
{
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(pd, buffer, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = {(uintptr_t)buffer, 4096, mr->lkey};

	CALL_INT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	CALL_INT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1));
	CALL_INT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0));
	CALL_INT(ibv_advise_mr(pd, 77, 0xffff, &sge, 1));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_PTR(ibv_alloc_null_mr(pd));
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	int fd = open("/dev/null", O_RDWR);
	CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE));
	close(fd);
}

/* Many regions over one range, freed in another order: counts of the range must not be mixed up. */
static void overlapping(struct ibv_pd *pd)
{
	struct ibv_mr *mr[16];

	for (int i = 0; i < 16; i++)
		mr[i] = CALL_PTR(ibv_reg_mr(pd, buffer + i * 1000, 3000 + i * 1000, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < 16; i++)
		for (int k = 0; k < i; k++)
			if (mr[i]->lkey == mr[k]->lkey)
				note("regions %d and %d share a key", i, k);
	for (int i = 0; i < 16; i++)
		CALL_INT(ibv_dereg_mr(mr[(i * 7) % 16]));
}

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c), *other = ibv_alloc_pd(c);

	if (posix_memalign((void **)&buffer, 4096, LENGTH))
		die("memory");
	memset(buffer, 1, LENGTH);
	access_flags(pd);
	ranges(pd);
	iova(pd);
	rereg(pd, other);
	advice(pd);
	overlapping(pd);
	CALL_INT(ibv_dealloc_pd(other));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
