/*
 * Opens files of the view as no program should, by every function that opens, and looks for what the kernel says of its own
 * files in sysfs, which only root may open at all and nobody may change. Prints what failed, and counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_HERE "/sys/class/infiniband/soft0/ports/1/state"
#define FOLDER_HERE "/sys/class/infiniband/soft0/ports/1"
#define FILE_THERE "/sys/class/net/lo/ifindex"
#define FOLDER_THERE "/sys/class/net/lo/statistics"

static int passed, failed;

static void result(const char *function, const char *path, const char *how, int found, int expected)
{
	if (found != expected)
		printf("FAILED %s(%s, %s): %s, not %s\n", function, path, how, strerror(found), strerror(expected));
	*(found == expected ? &passed : &failed) += 1;
}

/* 0, or the errno value. */
static int opened(const char *name, const char *path, int flags)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	int fd;

	errno = 0;
	if (strstr(name, "openat"))
		fd = ((int (*)(int, const char *, int, ...))function)(AT_FDCWD, path, flags, 0600);
	else
		fd = ((int (*)(const char *, int, ...))function)(path, flags, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : errno;
}

static int stream(const char *name, const char *path, const char *mode)
{
	FILE *(*function)(const char *, const char *);
	FILE *made;

	*(void **)&function = dlsym(RTLD_DEFAULT, name);
	errno = 0;
	made = function(path, mode);
	if (made)
		fclose(made);
	return made ? 0 : errno;
}

static const struct {
	const char *how;
	int flags;
} ways[] = {
	{ "O_RDONLY", O_RDONLY },
	{ "O_WRONLY", O_WRONLY },
	{ "O_RDWR", O_RDWR },
	{ "O_WRONLY | O_TRUNC", O_WRONLY | O_TRUNC },
	{ "O_RDWR | O_APPEND", O_RDWR | O_APPEND },
	{ "O_RDWR | O_DIRECTORY", O_RDWR | O_DIRECTORY },
	{ "O_WRONLY | O_PATH", O_WRONLY | O_PATH },
	/* Those that take a mode. */
	{ "O_RDONLY | O_CREAT", O_RDONLY | O_CREAT },
	{ "O_WRONLY | O_CREAT", O_WRONLY | O_CREAT },
	{ "O_WRONLY | O_CREAT | O_EXCL", O_WRONLY | O_CREAT | O_EXCL },
};

int main(void)
{
	static const char *const functions[] = { "open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2",
						 "__openat64_2" };
	static const char *const modes[] = { "r", "w", "a", "r+", "w+", "wx", "none" };
	const size_t count = sizeof(ways) / sizeof(ways[0]);

	for (size_t at = 0; at < sizeof(functions) / sizeof(functions[0]); at++) {
		const char *name = functions[at];

		for (size_t way = 0; way < count && !(*name == '_' && ways[way].flags & O_CREAT); way++) {
			const char *how = ways[way].how;
			int flags = ways[way].flags;

			result(name, FILE_HERE, how, opened(name, FILE_HERE, flags), opened(name, FILE_THERE, flags));
			result(name, FOLDER_HERE, how, opened(name, FOLDER_HERE, flags), opened(name, FOLDER_THERE, flags));
		}
		if (*name != '_')
			result(name, FOLDER_HERE, "O_TMPFILE", opened(name, FOLDER_HERE, O_TMPFILE | O_RDWR), EOPNOTSUPP);
		result(name, "/dev/infiniband/uverbs-soft0", "O_RDWR", opened(name, "/dev/infiniband/uverbs-soft0", O_RDWR), 0);
	}
	for (size_t at = 0; at < sizeof(modes) / sizeof(modes[0]); at++)
		for (int wide = 0; wide < 2; wide++) {
			const char *name = wide ? "fopen64" : "fopen";

			result(name, FILE_HERE, modes[at], stream(name, FILE_HERE, modes[at]), stream(name, FILE_THERE, modes[at]));
		}
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
