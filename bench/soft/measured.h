/*
 * measured.h - two sides on two processors, and medians of what they took.
 */
#ifndef SOFT_MEASURED_H
#define SOFT_MEASURED_H

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Nanoseconds of a clock that runs on. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Puts a side, 0 or 1, on the first or second processor that the process has; false where there is one alone. */
static inline bool settle(int side)
{
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && found++ == side)
			CPU_SET(cpu, &one);
	return CPU_COUNT(&one) && !sched_setaffinity(0, sizeof(one), &one);
}

static inline int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Sorts them. */
static inline double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), ascending);
	return values[count / 2];
}

#endif
