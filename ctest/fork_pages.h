/*
 * fork_pages.h - which pages of a process a child would get, and cases that each run in a process of their own, because the
 * answer on fork support is given once per process.
 */
#ifndef CTEST_FORK_PAGES_H
#define CTEST_FORK_PAGES_H

#include <sys/mman.h>
#include <sys/wait.h>

#include "setup.h"

/* Exported without a declaration in verbs.h. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#define PAGE 4096
#define LENGTH (8 * PAGE)

static inline unsigned char *memory(void)
{
	unsigned char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("memory");
	memset(p, 1, LENGTH);
	return p;
}

/* Which of up to eight pages a child would not get: "dc" among the flags of its mapping. */
static inline void print_mapping(const unsigned char *p, size_t page_size, int count)
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

static inline void print_pages(const unsigned char *p)
{
	print_mapping(p, PAGE, LENGTH / PAGE);
}

struct fork_case {
	const char *name;
	void (*run)(void);
};

static inline void run_cases(const struct fork_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int status;

		note("== %s", cases[i].name);
		fflush(stdout);
		if (fork() == 0) {
			cases[i].run();
			fflush(stdout);
			_exit(0);
		}
		wait(&status);
		transcript_calls += 10;
		if (status)
			note("process ended with status 0x%x", status);
	}
}

#endif
