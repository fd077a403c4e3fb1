/*
 * older.h - for rdma-core before 34, which lacks a verb: the program does without it on both libraries.
 */
#include <errno.h>
#include <infiniband/verbs.h>

static inline struct ibv_mr *absent(void)
{
	errno = ENOSYS;
	return NULL;
}

#define ibv_reg_dmabuf_mr(...) absent()
