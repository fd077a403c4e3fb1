/*
 * fork.c - what fork support says, and memory that a child must not share.
 *
 * Proves: the status before and after asking; asking too late; the counts of nested ranges as the kernel shows them in
 * /proc/self/smaps; that a child has no mapping of registered memory, and has it again after deregistration.
 */
#include "fork_pages.h"

static void ranges(void)
{
	unsigned char *p = memory();

	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_is_fork_initialized());
	print_pages(p);
	CALL_INT(ibv_dontfork_range(p, PAGE));
	print_pages(p);
	CALL_INT(ibv_dontfork_range(p + PAGE + 100, PAGE));
	print_pages(p);
	CALL_INT(ibv_dontfork_range(p, LENGTH));
	print_pages(p);
	CALL_INT(ibv_dofork_range(p, LENGTH));
	print_pages(p);
	CALL_INT(ibv_dofork_range(p + PAGE + 100, PAGE));
	print_pages(p);
	CALL_INT(ibv_dofork_range(p, PAGE));
	print_pages(p);
	CALL_INT(ibv_dontfork_range(p + 3 * PAGE, 0));
	CALL_INT(ibv_dontfork_range(NULL, PAGE));
	print_pages(p);
	for (int i = 0; i < 8; i++)
		CALL_INT(ibv_dontfork_range(p + i * PAGE, 1));
	print_pages(p);
	for (int i = 0; i < 8; i += 2)
		CALL_INT(ibv_dofork_range(p + i * PAGE, 1));
	print_pages(p);
	for (int i = 1; i < 8; i += 2)
		CALL_INT(ibv_dofork_range(p + i * PAGE, 1));
	print_pages(p);
}

/* What cannot be done: the answer of the first such call; rdma-core loses count of the ranges afterwards. */
static void nothing_there(void)
{
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_dontfork_range((void *)16, 4096));
}

static void hole(void)
{
	unsigned char *p = memory();

	CALL_INT(ibv_fork_init());
	munmap(p + 4 * PAGE, PAGE);
	CALL_INT(ibv_dontfork_range(p + 2 * PAGE, 4 * PAGE));
}

static void regions(void)
{
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_mr *a, *b;
	unsigned char *p = memory();
	int status;

	CALL_INT(ibv_fork_init());
	c = open_device("rxe0");
	pd = ibv_alloc_pd(c);
	a = CALL_PTR(ibv_reg_mr(pd, p, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE));
	b = CALL_PTR(ibv_reg_mr(pd, p + PAGE, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE));
	print_pages(p);
	CALL_PTR(ibv_reg_mr(pd, p, LENGTH, 1 << 7 | 1 << 8)); /* refused: the range is free again */
	print_pages(p);
	if (fork() == 0) {
		_exit(p[4 * PAGE] == 1 ? 7 : 8);
	}
	wait(&status);
	note("    child without registered pages: exit %d signal %d", WEXITSTATUS(status), WTERMSIG(status));
	if (fork() == 0)
		_exit(p[0]);
	wait(&status);
	note("    child that reads a registered page: signal %d", WTERMSIG(status));
	CALL_INT(ibv_dereg_mr(a));
	print_pages(p);
	CALL_INT(ibv_dereg_mr(b));
	print_pages(p);
	if (fork() == 0)
		_exit(p[0] + 40);
	wait(&status);
	note("    child after deregistration: exit %d", WEXITSTATUS(status));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
}

static void too_late(void)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	unsigned char *p = memory();
	struct ibv_mr *mr;

	CALL_INT(ibv_is_fork_initialized());
	mr = CALL_PTR(ibv_reg_mr(pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE));
	print_pages(p);
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_is_fork_initialized());
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_is_fork_initialized());
}

static void twice(void)
{
	CALL_INT(ibv_is_fork_initialized());
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_is_fork_initialized());
}

/* The variables that ask for it without a call. */
static void by_environment(const char *name)
{
	unsigned char *p = memory();

	setenv(name, "1", 1);
	note("%s=1", name);
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	CALL_INT(ibv_is_fork_initialized());
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(pd, p + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE));
	print_pages(p);
	CALL_INT(ibv_dereg_mr(mr));
	print_pages(p);
}

static void rdmav(void)
{
	by_environment("RDMAV_FORK_SAFE");
}

static void ibv(void)
{
	by_environment("IBV_FORK_SAFE");
}

static void huge(void)
{
	setenv("RDMAV_HUGEPAGES_SAFE", "1", 1);
	ranges();
}

int main(void)
{
	static const struct fork_case cases[] = {
		{"ranges", ranges},
		{"nothing there", nothing_there},
		{"hole", hole},
		{"regions", regions},
		{"too late", too_late},
		{"twice", twice},
		{"RDMAV", rdmav},
		{"IBV", ibv},
		{"told of huge pages", huge},
	};

	begin();
	run_cases(cases, sizeof(cases) / sizeof(*cases));
	return end();
}
