/*
 * failing.h - allocations of the process that fail when they are told to, also those of the libraries that it loads.
 */
#ifndef PROCESS_FAILING_H
#define PROCESS_FAILING_H

#include <stdatomic.h>
#include <sys/syscall.h>

#include "../soft/peer.h"

/* This program's functions come before the C library's, for the library as well. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

/* Calls since they began to be counted; the first that fails, or -1, and the one behind the last; what is allocated. */
static atomic_long calls, fail_from = -1, fail_to, used;

/* The calls from `from` on fail, `width` of them; none of them where `from` is negative. */
static inline void fail_calls(long from, long width)
{
	atomic_store(&calls, 0);
	atomic_store(&fail_to, from + width);
	atomic_store(&fail_from, from);
}

static bool fails(void)
{
	long from = atomic_load_explicit(&fail_from, memory_order_relaxed);

	if (from < 0)
		return false;
	long call = atomic_fetch_add(&calls, 1);
	if (call < from || call >= atomic_load(&fail_to))
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *memory)
{
	if (memory)
		atomic_fetch_add(&used, 1);
	return memory;
}

void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : counted(__libc_calloc(count, size)); }
void *realloc(void *old, size_t size)
{
	if (fails())
		return NULL;
	return old ? __libc_realloc(old, size) : counted(__libc_realloc(old, size));
}
void *memalign(size_t alignment, size_t size) { return fails() ? NULL : counted(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **place, size_t alignment, size_t size)
{
	void *memory = memalign(alignment, size);

	if (!memory)
		return ENOMEM;
	*place = memory;
	return 0;
}
void free(void *memory)
{
	if (memory)
		atomic_fetch_sub(&used, 1);
	__libc_free(memory);
}
void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (fails())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

#endif
