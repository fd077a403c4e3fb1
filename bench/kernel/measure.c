/*
 * measure.c - what calls of a library cost, over the kernel of tests/kernel. Prints a line for each measurement: what, the
 * least and the median of many rounds, for one operation.
 *
 *   measure DEVICE one|several [PART...]
 *
 * several: the process has a second thread, which sleeps
 * PART: polling, posting, objects, devices; all where none is named
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

void report(const char *name, unsigned rounds, uint64_t (*round)(void *), void *argument, double count)
{
	uint64_t spent[1024];

	MUST(rounds <= 1024);
	round(argument); /* what is touched for the first time */
	for (unsigned i = 0; i < rounds; i++)
		spent[i] = round(argument);
	qsort(spent, rounds, sizeof *spent, by_size);
	printf("%s\t%.3f\t%.3f\n", name, spent[0] / count, spent[rounds / 2] / count);
}

static void *sleep_on(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*measure)(struct ibv_context *); } parts[] = {
		{"polling", measure_polling}, {"posting", measure_posting}, {"objects", measure_objects},
		{"devices", measure_devices},
	};
	struct ibv_context *context;
	pthread_t thread;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[2], "several"))
		MUST(!pthread_create(&thread, NULL, sleep_on, NULL));
	context = open_named(argv[1]);
	for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
		bool asked = argc == 3;

		for (int j = 3; j < argc; j++)
			asked |= !strcmp(argv[j], parts[i].name);
		if (asked)
			parts[i].measure(context);
	}
	return fflush(stdout) ? 1 : 0;
}
