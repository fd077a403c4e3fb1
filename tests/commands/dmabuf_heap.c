/*
 * dmabuf_heap.c - what providers of rdma-core 65 call for memory that a confidential guest shares with its host: which file
 * they open, what they ask of it, how they map what they get, and what they give back. The program plays the heap; a dma-buf
 * is a file in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "provider.h"

enum { HEAP_FD = 1000, DMABUF_FD = 1001 };

struct heap;
struct heap *ibv_dmabuf_heap_cc_shared_init(void);
void ibv_dmabuf_heap_destroy(struct heap *);
void *ibv_dmabuf_heap_alloc(struct heap *, size_t, int *);
void ibv_dmabuf_heap_free(void *, size_t, int);
BIND(ibv_dmabuf_heap_cc_shared_init, 65);
BIND(ibv_dmabuf_heap_destroy, 65);
BIND(ibv_dmabuf_heap_alloc, 65);
BIND(ibv_dmabuf_heap_free, 65);

/* What the kernel of this run does. */
static int open_fails, alloc_fails, map_fails, dmabuf_fd;
static void *mapped; /* where the last allocation is */

static int make_file(const char *path, int number)
{
	int fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR) : syscall(SYS_memfd_create, "dma-buf", 0);

	if (fd < 0 || (fd != number && (dup2(fd, number) < 0 || syscall(SYS_close, fd)))) {
		perror("a file");
		exit(1);
	}
	return number;
}

static int open_file(int folder, const char *path, int flags, mode_t mode)
{
	if (strncmp(path, "/dev/dma_heap/", 14))
		return syscall(SYS_openat, folder, path, flags, mode);
	printf("  open %s flags %#x\n", path, flags & ~O_LARGEFILE);
	if (open_fails) {
		errno = open_fails;
		return -1;
	}
	return make_file("/dev/null", HEAP_FD);
}

#define OPEN(name)                                                                                                     \
	int name(const char *path, int flags, ...)                                                                     \
	{                                                                                                              \
		va_list arguments;                                                                                     \
		mode_t mode;                                                                                           \
                                                                                                                       \
		va_start(arguments, flags);                                                                            \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;                                  \
		va_end(arguments);                                                                                     \
		return open_file(AT_FDCWD, path, flags, mode);                                                         \
	}
OPEN(open)
OPEN(open64)

int ioctl(int fd, unsigned long request, ...)
{
	struct { uint64_t length; uint32_t fd, fd_flags; uint64_t heap_flags; } *allocation;
	va_list arguments;

	va_start(arguments, request);
	allocation = va_arg(arguments, void *);
	va_end(arguments);
	if (fd != HEAP_FD)
		return syscall(SYS_ioctl, fd, request, allocation);
	printf("  ioctl type %c number %lu direction %lu size %lu: length %#llx fd %u flags %#x heap flags %#llx\n",
	       (int)_IOC_TYPE(request), _IOC_NR(request), _IOC_DIR(request), _IOC_SIZE(request),
	       (unsigned long long)allocation->length, allocation->fd, allocation->fd_flags,
	       (unsigned long long)allocation->heap_flags);
	if (alloc_fails) {
		errno = alloc_fails;
		return -1;
	}
	allocation->fd = make_file(NULL, dmabuf_fd);
	if (allocation->length < 1 << 30 && ftruncate(dmabuf_fd, allocation->length)) {
		perror("ftruncate");
		exit(1);
	}
	return 0;
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	void *place;

	if (fd != dmabuf_fd)
		return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
	printf("  mmap address %p length %#zx protection %d flags %#x offset %lld\n", address, length, protection, flags,
	       (long long)offset);
	if (map_fails) {
		errno = map_fails;
		return MAP_FAILED;
	}
	place = (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
	if (place != MAP_FAILED)
		mapped = place;
	return place;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return map(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	return map(address, length, protection, flags, fd, offset);
}

int munmap(void *address, size_t length)
{
	if (address && address == mapped)
		printf("  munmap length %#zx\n", length);
	return syscall(SYS_munmap, address, length);
}

int close(int fd)
{
	if (fd == HEAP_FD || fd == dmabuf_fd)
		printf("  close %s\n", fd == HEAP_FD ? "heap" : "dma-buf");
	return syscall(SYS_close, fd);
}

static struct heap *start(void)
{
	struct heap *heap;
	int error;

	puts("ibv_dmabuf_heap_cc_shared_init");
	errno = 0;
	heap = ibv_dmabuf_heap_cc_shared_init();
	error = errno;
	printf("  = %s errno %d\n", heap ? "heap" : "NULL", error);
	return heap;
}

static void allocate(struct heap *heap, size_t size)
{
	int fd = -77, error;
	char *memory;

	mapped = NULL;
	printf("ibv_dmabuf_heap_alloc size %#zx\n", size);
	errno = 0;
	memory = ibv_dmabuf_heap_alloc(heap, size, &fd);
	error = errno;
	printf("  = %s errno %d, dma-buf %s\n", !memory ? "NULL" : memory == mapped ? "what is mapped" : "another address",
	       error, fd == -77 ? "as before" : fd == dmabuf_fd ? "given" : "another");
	if (!memory)
		return;
	memory[0] = 'x';
	memory[size - 1] = 'y';
	char ends[2] = {0};
	if (pread(fd, ends, 1, 0) != 1 || pread(fd, ends + 1, 1, size - 1) != 1)
		puts("  the file is shorter");
	printf("  the file has %c and %c\n", ends[0], ends[1]);
	puts("ibv_dmabuf_heap_free");
	errno = 0;
	ibv_dmabuf_heap_free(memory, size, fd);
	error = errno;
	printf("  errno %d, open %d\n", error, fcntl(fd, F_GETFD) >= 0);
}

int main(void)
{
	static const int errors[] = {ENOENT, EACCES, EMFILE, EINTR};
	static const size_t sizes[] = {4096, 2, 12345, 1 << 20, 0, SIZE_MAX, 1ull << 62};
	struct heap *heap;

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	dmabuf_fd = DMABUF_FD;
	for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
		open_fails = errors[i];
		start();
	}
	open_fails = 0;
	heap = start();
	if (!heap)
		return 1;
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		allocate(heap, sizes[i]);
	for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
		alloc_fails = errors[i];
		allocate(heap, 4096);
		alloc_fails = 0;
		map_fails = errors[i];
		allocate(heap, 4096);
		map_fails = 0;
	}
	puts("the dma-buf is file 0");
	dmabuf_fd = 0;
	allocate(heap, 4096);
	puts("ibv_dmabuf_heap_destroy");
	ibv_dmabuf_heap_destroy(heap);
	printf("  open %d\n", fcntl(HEAP_FD, F_GETFD) >= 0);
	return 0;
}
