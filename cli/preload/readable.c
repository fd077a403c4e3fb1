/*
 * Whether memory can be read is asked of the kernel, once for each page, by a call that copies eight bytes from there and goes
 * on to refuse its other argument. That takes 90 ns; another thread may take the memory away meanwhile, as it may from any
 * function of the C library.
 *
 * Nothing outside of the page that was asked for is touched: a string may end where its mapping ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "readable.h"

/*
 * Whether valgrind runs the program: a sequence of instructions that do nothing on a processor (its `valgrind.h`). It has an
 * opinion on what calls read, and says so.
 */
static int on_valgrind(void)
{
	unsigned long request[6] = { 0x1001 }, answer = 0;

#if defined(__x86_64__)
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
			 : "=d"(answer)
			 : "a"(request), "0"(answer)
			 : "cc", "memory");
#elif defined(__aarch64__)
	register unsigned long result __asm__("x3") = answer;
	register unsigned long *asked __asm__("x4") = request;

	__asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10"
			 : "+r"(result)
			 : "r"(asked)
			 : "cc", "memory");
	answer = result;
#else
	(void)request;
#endif
	return answer != 0;
}

/* Whether the byte can be read, and so the others of its page. */
static int is_there(uintptr_t at)
{
	enum { NO_SUCH_WAY = -1, SIZE = 8 }; /* to change the mask; of the kernel's mask, in bytes */
	int before = errno, is;

	if (on_valgrind()) {
		char byte;
		struct iovec local = { &byte, 1 }, remote = { (void *)at, 1 };

		is = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1UL, &remote, 1UL, 0UL) == 1 || errno != EFAULT;
	} else {
		/* As a block of its own size lies in one page. */
		is = syscall(SYS_rt_sigprocmask, NO_SUCH_WAY, at & -(uintptr_t)SIZE, NULL, SIZE) == 0 || errno != EFAULT;
	}
	errno = before;
	return is;
}

/* The beginning of the next page, 0 behind the last one. */
static uintptr_t next_page(uintptr_t at)
{
	return (at | (IRONVERBS_PAGE - 1)) + 1;
}

int ironverbs_is_readable(const void *from, size_t length)
{
	uintptr_t at = (uintptr_t)from, last = at + length - 1;

	if (last < at)
		return 0;
	for (; is_there(at); at = next_page(at))
		if (next_page(at) > last || next_page(at) == 0)
			return 1;
	return 0;
}

int ironverbs_is_path(const char *path)
{
	const char *at = path;

	while (at < path + PATH_MAX && is_there((uintptr_t)at)) {
		const char *next = (const char *)next_page((uintptr_t)at);

		if (memchr(at, '\0', (size_t)(next - at)))
			return 1;
		at = next;
	}
	return 0;
}
