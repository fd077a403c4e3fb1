/*
 * asleep.h - a thread that waits until the main thread sleeps in a call.
 */
#ifndef CTEST_ASLEEP_H
#define CTEST_ASLEEP_H

#include "setup.h"

/* Until the main thread has slept each time that it was looked at, for a tenth of a second. */
static inline void wait_until_main_sleeps(void)
{
	uint64_t hang = now_ms() + HANG_MS;
	char path[64], line[512];
	int slept = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (slept < 50) {
		FILE *stat = fopen(path, "r");
		char *name_ends = stat && fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;

		if (!name_ends || now_ms() > hang)
			die("the main thread does not sleep");
		fclose(stat);
		slept = name_ends[2] == 'S' ? slept + 1 : 0;
		usleep(2000);
	}
}

#endif
