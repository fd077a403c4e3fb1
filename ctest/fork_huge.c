/*
 * fork_huge.c - memory in huge pages that a child must not share.
 *
 * Proves: what is kept from a child, in huge pages known and unknown to the library.
 *
 * Fact: With RDMAV_HUGEPAGES_SAFE ranges are kept from a child in whole huge pages.
 */
#include "fork_pages.h"

#define HUGE_PAGE (2 << 20)
#define HUGE_PAGES 4

static unsigned char *huge_memory(void)
{
	/* As the administrator would. */
	if (system("test $(cat /proc/sys/vm/nr_hugepages) -ge 8 || echo 8 > /proc/sys/vm/nr_hugepages"))
		die("huge pages");
	unsigned char *p = mmap(NULL, HUGE_PAGES * HUGE_PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p == MAP_FAILED)
		die("huge pages: %s", errno_name(errno));
	memset(p, 1, HUGE_PAGES * HUGE_PAGE);
	return p;
}

/* The kernel changes whole huge pages only, so a range is widened to them: by the variable alone. */
static void real_huge(void)
{
	unsigned char *p = huge_memory();

	setenv("RDMAV_HUGEPAGES_SAFE", "1", 1);
	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_dontfork_range(p + HUGE_PAGE + 5 * PAGE, 100));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	CALL_INT(ibv_dontfork_range(p + 2 * HUGE_PAGE - 1, 2));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	CALL_INT(ibv_dofork_range(p + HUGE_PAGE, 1));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	CALL_INT(ibv_dofork_range(p + HUGE_PAGE, HUGE_PAGE + 1));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	unsigned char *small = memory(); /* with pages of the usual size beside it */
	CALL_INT(ibv_dontfork_range(small + PAGE, PAGE));
	print_pages(small);
	CALL_INT(ibv_dofork_range(small + PAGE, PAGE));
	print_pages(small);

	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_mr *a = CALL_PTR(ibv_reg_mr(pd, p + 100, PAGE, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *b = CALL_PTR(ibv_reg_mr(pd, p + 3 * PAGE, HUGE_PAGE, IBV_ACCESS_LOCAL_WRITE));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	int status;
	if (fork() == 0)
		_exit(p[HUGE_PAGE]);
	wait(&status);
	note("    child that reads a registered huge page: signal %d", WTERMSIG(status));
	CALL_INT(ibv_dereg_mr(b));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	CALL_INT(ibv_dereg_mr(a));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
}

/* Without the variable the range keeps its usual pages, which the kernel refuses inside a huge one. */
static void unknown_huge(void)
{
	unsigned char *p = huge_memory();

	CALL_INT(ibv_fork_init());
	CALL_INT(ibv_dontfork_range(p + PAGE, PAGE));
	print_mapping(p, HUGE_PAGE, HUGE_PAGES);
}

int main(void)
{
	static const struct fork_case cases[] = {
		{"huge pages", real_huge},
		{"huge pages unknown", unknown_huge},
	};

	begin();
	run_cases(cases, sizeof(cases) / sizeof(*cases));
	return end();
}
