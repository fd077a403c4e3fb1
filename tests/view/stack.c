/*
 * Opens a file where the stack is as small as a signal handler's may be: 2 KiB, and no page behind them.
 *
 *   stack PATH
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096
#define STACK 2048

static ucontext_t outside, inside;
static const char *path;
static int found;

static void look(void)
{
	static struct stat st;
	int fd = open(path, O_RDONLY);

	found = fd >= 0 && stat(path, &st) == 0 && access(path, R_OK) == 0;
	close(fd);
}

int main(int argc, char **argv)
{
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (argc != 2 || pages == MAP_FAILED || mprotect(pages, PAGE, PROT_NONE))
		return 2;
	path = argv[1];
	/* The first call of a function looks up the one that it stands before, which takes more. */
	look();
	getcontext(&inside);
	inside.uc_stack.ss_sp = pages + PAGE;
	inside.uc_stack.ss_size = STACK;
	inside.uc_link = &outside;
	makecontext(&inside, look, 0);
	swapcontext(&outside, &inside);
	puts(found ? "found" : "not found");
	return 0;
}
