/*
 * What the program has of descriptors is what it would have without the shim: nothing stays open, a file gets the lowest
 * number, and a thread that is cancelled leaves nothing. Run by tests/view/run.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/sys/class/infiniband/soft0/ports/1"
#define FILE_IN FOLDER "/state"

static int opened = -1;

static int count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	if (folder == NULL)
		exit(2);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void *cancelled(void *none)
{
	pthread_cancel(pthread_self());
	opened = open(FILE_IN, O_RDONLY);
	pthread_testcancel();
	return none;
}

static void look_around(void)
{
	char place[64];
	struct stat st;
	DIR *folder = opendir(FOLDER);
	FILE *file = fopen(FILE_IN, "r");

	if (folder == NULL || file == NULL || stat(FILE_IN, &st) || access(FILE_IN, R_OK) ||
	    readlink("/dev/infiniband/uverbs-soft0", place, sizeof(place)) != 9)
		puts("not shown");
	closedir(folder);
	fclose(file);
	(void)!open("/sys/class/infiniband/nowhere", O_RDONLY);
	free(realpath(FILE_IN, NULL));
}

int main(void)
{
	int before, fd, lowest;
	pthread_t thread;
	void *end;

	/* What the shim looks at once, it has looked at by now. */
	look_around();
	before = count();
	for (int round = 0; round < 100; round++)
		look_around();
	if (count() != before)
		puts("descriptors stay open");
	lowest = dup(0);
	close(lowest);
	fd = open(FILE_IN, O_RDONLY);
	if (fd != lowest)
		printf("%d in the place of %d\n", fd, lowest);
	close(fd);
	if (pthread_create(&thread, NULL, cancelled, NULL) || pthread_join(thread, &end))
		return 2;
	if (end != PTHREAD_CANCELED)
		puts("not cancelled");
	if (opened >= 0)
		close(opened);
	if (count() != before)
		puts("a thread that was cancelled left a descriptor");
	closefrom(3);
	look_around();
	return 0;
}
