/*
 * bare.c - what the kernel's copy between two processes costs by itself, with nothing around it.
 *
 *   bare bandwidth SIZE COUNT   MiB/s of COUNT calls of process_vm_writev in a row
 *   bare latency SIZE COUNT     microseconds of half a round trip: each side writes into the other, which looks at its memory
 *   bare typical SIZE COUNT     the same, the median of the round trips in place of their average
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measured.h"

static void put(pid_t pid, void *to, void *from, size_t size)
{
	struct iovec local = {from, size}, remote = {to, size};

	if (process_vm_writev(pid, &local, 1, &remote, 1, 0) != (ssize_t)size) {
		perror("process_vm_writev");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	size_t size = argc > 3 ? strtoul(argv[2], NULL, 0) : 0, length = (size + 4095) & ~4095ul;
	long count = argc > 3 ? atol(argv[3]) : 0;
	pid_t parent = getpid(), child;
	unsigned char *memory, *source;
	volatile uint64_t *seen;
	double *trip = calloc((size_t)count + 1, sizeof(*trip)), start, before;

	if (!trip || !size || size % 8) {
		fprintf(stderr, "usage: bare bandwidth|latency|typical SIZE COUNT\n");
		return 2;
	}
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	source = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen = (volatile uint64_t *)(memory + size - 8);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	child = fork();
	memset(memory, 0, length);
	memset(source, 1, length);
	settle(!child);
	if (!strcmp(argv[1], "bandwidth")) {
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
		usleep(10000);
		for (long i = 0; i < count / 10; i++)
			put(child, memory, source, size);
		start = now();
		for (long i = 0; i < count; i++)
			put(child, memory, source, size);
		printf("%.2f\n", (double)count * (double)size / (now() - start) * 1e9 / (1 << 20));
		kill(child, SIGKILL);
	} else {
		if (!child)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(10000);
		start = before = now();
		for (long i = 1; i <= count; i++) {
			uint64_t number = (uint64_t)i;

			memcpy(source + size - 8, &number, 8);
			if (child)
				put(child, memory, source, size);
			while (*seen < number)
				;
			if (!child)
				put(parent, memory, source, size);
			trip[i - 1] = now() - before;
			before += trip[i - 1];
		}
		if (child && count)
			printf("%.3f\n", (strcmp(argv[1], "typical") ? (before - start) / (double)count : median(trip, (int)count)) / 2e3);
	}
	if (child)
		waitpid(child, NULL, 0);
	return 0;
}
