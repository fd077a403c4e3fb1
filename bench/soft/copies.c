/*
 * copies.c - what a message takes that is copied into memory of both processes and out of it again, with nothing around that.
 *
 *   copies SIZE COUNT   microseconds of half a round trip, the median of COUNT
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measured.h"

enum { SLOTS = 64, LONGEST = 8192, APART = 256 };

/* What one side is sent. A slot is used again after all others, as where senders do not wait for each message to be taken. */
struct side {
	_Alignas(APART) atomic_long sent;
	_Alignas(APART) unsigned char slots[SLOTS][LONGEST];
};

static void give(struct side *to, long number, const void *from, size_t size)
{
	memcpy(to->slots[number % SLOTS], from, size);
	atomic_store_explicit(&to->sent, number, memory_order_release);
}

static void take(struct side *own, long number, void *to, size_t size)
{
	while (atomic_load_explicit(&own->sent, memory_order_acquire) != number)
		;
	memcpy(to, own->slots[number % SLOTS], size);
}

int main(int argc, char **argv)
{
	size_t size = argc > 2 ? strtoul(argv[1], NULL, 0) : 0;
	long count = argc > 2 ? atol(argv[2]) : 0;
	double *trip = calloc((size_t)count + 1, sizeof(*trip)), before;
	unsigned char *from = calloc(1, LONGEST), *to = calloc(1, LONGEST);
	struct side *sides, *own, *other;
	pid_t child;

	if (!trip || !from || !to || !size || size > LONGEST) {
		fprintf(stderr, "usage: copies SIZE COUNT, of at most %d bytes\n", LONGEST);
		return 2;
	}
	sides = mmap(NULL, 2 * sizeof(*sides), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sides == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memset(sides, 0, 2 * sizeof(*sides));
	child = fork();
	own = &sides[!child], other = &sides[!!child];
	settle(!child);
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	before = now();
	for (long i = 1; i <= count; i++) {
		if (child)
			give(other, i, from, size);
		take(own, i, to, size);
		if (!child)
			give(other, i, from, size);
		trip[i - 1] = now() - before;
		before += trip[i - 1];
	}
	if (!child)
		return 0;
	if (count)
		printf("%.3f\n", median(trip, (int)count) / 2e3);
	waitpid(child, NULL, 0);
	return 0;
}
