/*
 * The first call of every function that the shim stands before, between a dlopen() that fails and the dlerror() that
 * tells why: the reason is still there. Run by tests/view/run.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOWHERE "/nowhere"
#define KEEPS(call)                                                                       \
	do {                                                                              \
		const char *said;                                                         \
                                                                                          \
		dlopen(NOWHERE, RTLD_NOW);                                                \
		(void)!(call);                                                            \
		said = dlerror();                                                         \
		if (said == NULL || strstr(said, NOWHERE) == NULL)                        \
			printf("%s: %s\n", #call, said ? said : "nothing");               \
	} while (0)

int main(void)
{
	char place[16];
	struct stat st;
	struct statx stx;
	struct pollfd none = { -1, 0, 0 };
	struct timespec zero = { 0, 0 };
	struct dirent **names;

	KEEPS(write(-1, "", 0));
	KEEPS(close(-1));
	KEEPS(close_range(~0U, ~0U, 0));
	KEEPS((closefrom(1 << 20), 0));
	KEEPS(dup(-1));
	KEEPS(dup2(-1, -1));
	KEEPS(dup3(-1, -1, 0));
	KEEPS(fcntl(-1, F_GETFD));
	KEEPS(fstat(-1, &st));
	KEEPS(fstatat(-1, "x", &st, 0));
	KEEPS(statx(-1, "x", 0, 0, &stx));
	KEEPS(poll(&none, 1, 0));
	KEEPS(ppoll(&none, 1, &zero, NULL));
	KEEPS(open(NOWHERE, O_RDONLY));
	KEEPS(open64(NOWHERE, O_RDONLY));
	KEEPS(openat(-1, NOWHERE, O_RDONLY));
	KEEPS(fopen(NOWHERE, "r") != NULL);
	KEEPS(opendir(NOWHERE) != NULL);
	KEEPS(scandir(NOWHERE, &names, NULL, NULL));
	KEEPS(access(NOWHERE, F_OK));
	KEEPS(faccessat(-1, NOWHERE, F_OK, 0));
	KEEPS(stat(NOWHERE, &st));
	KEEPS(lstat(NOWHERE, &st));
	KEEPS(readlink(NOWHERE, place, sizeof(place)));
	KEEPS(readlinkat(-1, NOWHERE, place, sizeof(place)));
	KEEPS(realpath(NOWHERE, NULL) != NULL);
	KEEPS(getxattr(NOWHERE, "user.x", place, sizeof(place)));
	return 0;
}
