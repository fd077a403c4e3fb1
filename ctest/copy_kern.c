/*
 * copy_kern.c - the conversions between the kernel's structs and the library's that librdmacm uses.
 *
 * Proves: every byte of the result, from sources filled with distinct values.
 */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "setup.h"

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

static void fill(void *p, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		((unsigned char *)p)[i] = (unsigned char)(i * 37 + seed * 11 + 1);
}

static void dump(const void *p, size_t length)
{
	for (size_t i = 0; i < length; i++)
		printf("%02x%s", ((const unsigned char *)p)[i], i % 32 == 31 || i + 1 == length ? "\n" : " ");
}

int main(void)
{
	begin();
	for (unsigned seed = 0; seed < 4; seed++) {
		struct ib_uverbs_qp_attr kernel_qp;
		struct ib_uverbs_ah_attr kernel_ah;
		struct ib_user_path_rec kernel_path;
		struct ibv_qp_attr qp;
		struct ibv_ah_attr ah;
		struct ibv_sa_path_rec path;

		note("seed %u", seed);
		fill(&kernel_qp, sizeof(kernel_qp), seed);
		FILL(qp);
		CALL_VOID(ibv_copy_qp_attr_from_kern(&qp, &kernel_qp));
		dump(&qp, sizeof(qp));
		fill(&kernel_ah, sizeof(kernel_ah), seed);
		FILL(ah);
		CALL_VOID(ibv_copy_ah_attr_from_kern(&ah, &kernel_ah));
		dump(&ah, sizeof(ah));
		fill(&kernel_path, sizeof(kernel_path), seed);
		FILL(path);
		CALL_VOID(ibv_copy_path_rec_from_kern(&path, &kernel_path));
		dump(&path, sizeof(path));
		fill(&path, sizeof(path), seed + 5);
		FILL(kernel_path);
		CALL_VOID(ibv_copy_path_rec_to_kern(&kernel_path, &path));
		dump(&kernel_path, sizeof(kernel_path));
	}
	return end();
}
