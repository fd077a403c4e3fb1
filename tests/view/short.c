/*
 * Names files by paths that memory ends with, or that lie in memory which nobody has set: what valgrind has to say of a call is
 * said of it alone, and not of what looks at its path.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	static const char *const paths[] = { "/", ".", "", "/dev", "/sys/class/infiniband/soft0" };

	for (size_t at = 0; at < sizeof(paths) / sizeof(paths[0]); at++) {
		size_t length = strlen(paths[at]) + 1;
		char *path = malloc(length), *behind = malloc(length + 16);
		struct stat st;
		int fd;

		memcpy(path, paths[at], length);
		memcpy(behind + 3, paths[at], length);
		if ((access(path, F_OK) == 0) != (stat(behind + 3, &st) == 0))
			return 1;
		if ((fd = open(path, O_RDONLY)) >= 0)
			close(fd);
		free(path);
		free(behind);
	}
	return 0;
}
