/*
 * floor.c - how far the first two processors are from each other: what it takes to hand a cache line over and back.
 *
 *   floor         nanoseconds there and back, and the placement, a word, that they show
 *   floor names   what the words mean
 *
 * No message between two processors is answered sooner. A virtual machine does not say where its processors are, and its host
 * moves them, so this is measured beside each figure that hangs on it. It is a median of batches, each so short that most of
 * them see neither a move nor another process's turn, however many processes want the processors.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "measured.h"

enum { BATCHES = 301, TRIPS = 32, APART = 256 };

/* The last of them that the floor does not exceed. Where this was measured, they took 27 to 40, 73 to 135 and 260 to 430. */
static const struct {
	double most; /* nanoseconds */
	const char *name, *means;
} placements[] = {
	{55, "core", "the threads of one core"},
	{190, "near", "two cores that share a cache"},
	{INFINITY, "far", "two cores that share none"},
};

/* Nothing else is in it, nor in its neighbour, which processors fetch along. */
static struct {
	_Alignas(APART) atomic_uint count;
	char rest[APART - sizeof(atomic_uint)];
} line;

static inline void await(unsigned int count)
{
	while (atomic_load_explicit(&line.count, memory_order_acquire) != count)
		;
}

static inline void hand_over(unsigned int count)
{
	atomic_store_explicit(&line.count, count, memory_order_release);
}

/* Makes each odd number even. */
static void *answer(void *unused)
{
	settle(1);
	for (unsigned int count = 1; count < 2 * BATCHES * TRIPS; count += 2) {
		await(count);
		hand_over(count + 1);
	}
	return unused;
}

static void explain(void)
{
	double least = 0;

	for (size_t i = 0; i < sizeof(placements) / sizeof(*placements); i++) {
		printf("%s: %s, ", placements[i].name, placements[i].means);
		if (placements[i].most < INFINITY)
			printf("up to %.0f ns\n", placements[i].most);
		else
			printf("more than %.0f ns\n", least);
		least = placements[i].most;
	}
	puts("alone: one processor for both sides");
}

int main(int argc, char **argv)
{
	unsigned int count = 0;
	double batch[BATCHES];
	cpu_set_t processors;
	pthread_t other;
	size_t i = 0;

	if (argc > 1) {
		if (!strcmp(argv[1], "names"))
			explain();
		else
			fprintf(stderr, "usage: floor [names]\n");
		return strcmp(argv[1], "names") ? 2 : 0;
	}
	if (!sched_getaffinity(0, sizeof(processors), &processors) && CPU_COUNT(&processors) == 1) {
		puts("0 alone");
		return 0;
	}
	if (pthread_create(&other, NULL, answer, NULL)) {
		fprintf(stderr, "floor: no thread\n");
		return 1;
	}
	settle(0);
	for (int b = 0; b < BATCHES; b++) {
		double start = now();

		for (int trip = 0; trip < TRIPS; trip++) {
			hand_over(count + 1);
			await(count += 2);
		}
		batch[b] = (now() - start) / TRIPS;
	}
	pthread_join(other, NULL);
	batch[0] = median(batch, BATCHES);
	while (batch[0] > placements[i].most)
		i++;
	printf("%.0f %s\n", batch[0], placements[i].name);
	return 0;
}
