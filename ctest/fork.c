/*
 * fork.c - what fork support says, and memory that a child must not share.
 *
 * Proves: the status before and after asking; asking too late; the counts of nested ranges as the kernel shows them in
 * /proc/self/smaps; that a child has no mapping of registered memory, and has it again after deregistration; the same
 * with huge pages, known and unknown to the library.
 * Each case runs in a process of its own, because the answer is given once per process.
 *
 * Fact: With RDMAV_HUGEPAGES_SAFE ranges are kept from a child in whole huge pages.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "setup.h"

/* Exported without a declaration in verbs.h. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#define PAGE 4096
#define LENGTH (8 * PAGE)

static unsigned char *memory(void)
{
	unsigned char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("memory");
	memset(p, 1, LENGTH);
	return p;
}

/* Which of up to eight pages a child would not get: "dc" among the flags of its mapping. */
static void print_mapping(const unsigned char *p, size_t page_size, int count)
{
	char line[512], pages[] = "????????";
	unsigned long from = 0, to = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
			from = a, to = b;
		if (strncmp(line, "VmFlags:", 8))
			continue;
		for (int i = 0; i < count; i++) {
			unsigned long page = (unsigned long)p + i * page_size;

			if (page >= from && page < to)
				pages[i] = strstr(line, " dc") ? '-' : '+';
		}
	}
	if (f)
		fclose(f);
	pages[count] = 0;
	note("    pages for a child: %s", pages);
}

static void print_pages(const unsigned char *p)
{
	print_mapping(p, PAGE, LENGTH / PAGE);
}

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
	static void (*const cases[])(void) = {ranges, nothing_there, hole, regions, too_late, twice, rdmav, ibv, huge,
					      real_huge, unknown_huge};
	static const char *const names[] = {"ranges", "nothing there", "hole", "regions", "too late", "twice", "RDMAV", "IBV",
					    "told of huge pages", "huge pages", "huge pages unknown"};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int status;

		note("== %s", names[i]);
		fflush(stdout);
		if (fork() == 0) {
			cases[i]();
			fflush(stdout);
			_exit(0);
		}
		wait(&status);
		transcript_calls += 10;
		if (status)
			note("process ended with status 0x%x", status);
	}
	return end();
}
