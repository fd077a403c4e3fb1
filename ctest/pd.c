/*
 * pd.c - protection domains: several per context, their fields, and the refusal to free one that is in use.
 */
#include "setup.h"

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0"), *other = open_device("rxe1");
	struct ibv_pd *a = CALL_PTR(ibv_alloc_pd(c)), *b = CALL_PTR(ibv_alloc_pd(c));
	struct ibv_pd *d = CALL_PTR(ibv_alloc_pd(other));
	static char buffer[4096];

	CHECK(a->context == c && b->context == c && d->context == other);
	CHECK(a != b && a->handle != b->handle);

	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(a, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_dealloc_pd(a)); /* a region is in it */
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dealloc_pd(a));

	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(b, &init));
	CALL_INT(ibv_dealloc_pd(b)); /* a shared receive queue is in it */
	CALL_INT(ibv_dealloc_pd(b)); /* and it was not freed */
	CALL_INT(ibv_destroy_srq(srq));
	CALL_INT(ibv_dealloc_pd(b));
	CALL_INT(ibv_dealloc_pd(d));

	struct ibv_pd *many[64];
	for (int i = 0; i < 64; i++)
		if (!(many[i] = ibv_alloc_pd(c)))
			note("allocation %d failed: %s", i, errno_name(errno));
	for (int i = 0; i < 64; i++)
		if (many[i] && ibv_dealloc_pd(many[i]))
			note("freeing %d failed", i);
	CALL_INT(ibv_close_device(other));
	CALL_INT(ibv_close_device(c));
	return end();
}
