/*
 * empty.c - a process without verbs: what start.c measures is beyond its time.
 *
 *   empty --measured START
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec now;
	uint64_t spent;

	if (argc < 3)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &now);
	spent = now.tv_sec * 1000000000ull + now.tv_nsec - strtoull(argv[2], NULL, 10);
	return write(STDOUT_FILENO, &spent, sizeof spent) != sizeof spent;
}
