/*
 * ends.c - a program that ends in a handler of a signal, wherever that interrupts it: within the C library's allocator, or
 * within a verb that holds a lock.
 *
 *   ends   `exit` is called from each allocation, and from each time that memory is given back, of a run of verbs in turn, which
 *          is where a signal may come. From there on nothing may ask for memory or give it back: the allocator's lock is held.
 *          The process ends with the status that it chose, whatever else its threads do.
 */
#define malloc counted_malloc
#define calloc counted_calloc
#define realloc counted_realloc
#define memalign counted_memalign
#define aligned_alloc counted_aligned_alloc
#define posix_memalign counted_posix_memalign
#define free counted_free
#include "failing.h"
#undef malloc
#undef calloc
#undef realloc
#undef memalign
#undef aligned_alloc
#undef posix_memalign
#undef free

enum { ENDED = 42, ASKED = 43 };

static atomic_long left = -1;
static atomic_bool ends;
static pthread_t at_work;

/* Before each call of the allocator. */
static void interrupt(void)
{
	if (!pthread_equal(pthread_self(), at_work))
		return;
	if (atomic_load(&ends))
		_exit(ASKED);
	if (atomic_load(&left) >= 0 && atomic_fetch_sub(&left, 1) == 0) {
		atomic_store(&ends, true);
		exit(ENDED);
	}
}

void *malloc(size_t size) { interrupt(); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { interrupt(); return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { interrupt(); return __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) { interrupt(); return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **place, size_t alignment, size_t size)
{
	*place = memalign(alignment, size);
	return *place ? 0 : ENOMEM;
}
void free(void *memory)
{
	if (memory)
		interrupt();
	__libc_free(memory);
}

static void *waits(void *none)
{
	pause();
	return none;
}

static void run(void)
{
	static struct endpoint a, b;
	struct ibv_wc wc;

	open_pair(&a, &b, "rxe0", "rxe0");
	/* The second waits for a receive request: the library's own thread tries it again. */
	if (post_recv(&b, 1, 0, 64) || post_send(&a, 2, 0, 64) || post_send(&a, 3, 0, 64) || !next_wc(b.recv_cq, &wc) || wc.status)
		fail("a message");
	endpoint_close(&b);
	endpoint_close(&a);
}

int main(void)
{
	long place = 0, asked = 0, other = 0;
	int status = 0;

	for (;; place++) {
		pthread_t thread;
		pid_t child = fork();

		if (!child) {
			alarm(HANG_S / 15);
			at_work = pthread_self();
			if (pthread_create(&thread, NULL, waits, NULL))
				fail("a thread");
			atomic_store(&left, place);
			run();
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child)
			fail("a child");
		if (!status || other)
			break;
		asked += status == ASKED << 8;
		if (status != ASKED << 8 && status != ENDED << 8) {
			printf("FAIL at call %ld of the allocator: status %#x\n", place, (unsigned)status);
			other++;
		}
	}
	printf("%ld ends, of which %ld asked for memory, %ld otherwise\n", place, asked, other);
	return asked || other || place < 50;
}
