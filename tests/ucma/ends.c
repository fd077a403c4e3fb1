/*
 * A process that ends in a signal handler, which interrupted the C library's allocator: nothing of its ids is left for others to
 * see, and nothing asks for memory, or gives any back, while that allocator's lock is held.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "ucma.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

enum { ASKED = 43 };

static atomic_bool ends;

static void look(void)
{
	if (atomic_load(&ends))
		_exit(ASKED);
}

void *malloc(size_t size) { look(); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { look(); return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { look(); return __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { look(); return __libc_memalign(alignment, size); }
int posix_memalign(void **place, size_t alignment, size_t size)
{
	look();
	*place = __libc_memalign(alignment, size);
	return *place ? 0 : ENOMEM;
}
void free(void *memory)
{
	if (memory)
		look();
	__libc_free(memory);
}

static void handle(int number)
{
	(void)number;
	atomic_store(&ends, true);
	exit(0);
}

/* Has a bound id and a listener, and ends. */
static void run(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	int64_t bound = create_id(fd, 1), listens = create_id(fd, 2);

	if (fd < 0 || bound < 0 || listens < 0 || bind_id(fd, (uint32_t)bound, INADDR_LOOPBACK, 0) < 0 ||
	    bind_id(fd, (uint32_t)listens, INADDR_LOOPBACK, 0) < 0 || simple(fd, 7, (uint32_t)listens, 2, 5) < 0)
		_exit(1);
	if (signal(SIGUSR1, handle) != SIG_ERR)
		raise(SIGUSR1);
	_exit(1);
}

int main(int argc, char **argv)
{
	char pattern[300];
	glob_t found;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		alarm(LONG_MS / 1000);
		run();
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != ASKED);
	CHECK(status == 0);
	snprintf(pattern, sizeof(pattern), "%.200s/cm-*", argc > 1 ? argv[1] : "");
	CHECK(glob(pattern, 0, NULL, &found) == GLOB_NOMATCH);
	return end();
}
