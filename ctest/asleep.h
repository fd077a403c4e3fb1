/*
 * asleep.h - who waits until another sleeps in a call.
 */
#ifndef CTEST_ASLEEP_H
#define CTEST_ASLEEP_H

#include "setup.h"

/* Until a process's main thread was in that state (S, or D where no signal ends it) whenever it was looked at, for 0.1 s. */
static inline void wait_until_asleep(pid_t pid, char state)
{
	uint64_t hang = now_ms() + HANG_MS;
	char path[64], line[512];
	int slept = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, pid);
	while (slept < 50) {
		FILE *stat = fopen(path, "r");
		char *name_ends = stat && fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;

		if (!name_ends || now_ms() > hang)
			die("process %d does not sleep", pid);
		fclose(stat);
		slept = name_ends[2] == state ? slept + 1 : 0;
		usleep(2000);
	}
}

#endif
