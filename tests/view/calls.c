/*
 * Names a file by every function of the C library that the shim of `ironverbs run` stands before: a file of the view, one
 * that neither the view nor the machine has, and one of the machine. Prints what failed, and counts.
 *
 *   calls PATH-SHOWN-AS-FILE ITS-FOLDER      both under /sys/class/infiniband
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum kind { FILES, FOLDERS, LINKS };

static int call(const char *name, const char *path)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	static char out[8192];
	struct dirent **names;
	int found;

	if (!function) {
		fprintf(stderr, "%s: not in any library\n", name);
		exit(2);
	}
#define IS(text) (strcmp(name, text) == 0)
#define AS(type, ...) ((type (*)())function)(__VA_ARGS__)
	errno = 0;
	if (IS("open") || IS("open64"))
		found = ((int (*)(const char *, int, ...))function)(path, O_RDONLY);
	else if (IS("openat") || IS("openat64"))
		found = ((int (*)(int, const char *, int, ...))function)(AT_FDCWD, path, O_RDONLY);
	else if (IS("__open_2") || IS("__open64_2"))
		found = AS(int, path, O_RDONLY);
	else if (IS("__openat_2") || IS("__openat64_2"))
		found = AS(int, AT_FDCWD, path, O_RDONLY);
	else if (IS("fopen") || IS("fopen64"))
		found = AS(FILE *, path, "r") ? 0 : -1;
	else if (IS("opendir"))
		found = AS(DIR *, path) ? 0 : -1;
	else if (IS("scandir") || IS("scandir64"))
		found = AS(int, path, &names, NULL, NULL);
	else if (IS("access") || IS("eaccess") || IS("euidaccess"))
		found = AS(int, path, R_OK);
	else if (IS("faccessat"))
		found = AS(int, AT_FDCWD, path, R_OK, 0);
	else if (IS("stat") || IS("stat64") || IS("lstat") || IS("lstat64"))
		found = AS(int, path, out);
	else if (IS("fstatat") || IS("fstatat64"))
		found = AS(int, AT_FDCWD, path, out, 0);
	else if (IS("statx"))
		found = AS(int, AT_FDCWD, path, 0, STATX_TYPE, out);
	else if (IS("__xstat") || IS("__xstat64") || IS("__lxstat") || IS("__lxstat64"))
		found = AS(int, 1, path, out);
	else if (IS("__fxstatat") || IS("__fxstatat64"))
		found = AS(int, 1, AT_FDCWD, path, out, 0);
	else if (IS("readlink"))
		found = AS(ssize_t, path, out, sizeof(out)) >= 0 ? 0 : -1;
	else if (IS("readlinkat"))
		found = AS(ssize_t, AT_FDCWD, path, out, sizeof(out)) >= 0 ? 0 : -1;
	else if (IS("__readlink_chk"))
		found = AS(ssize_t, path, out, sizeof(out), sizeof(out)) >= 0 ? 0 : -1;
	else if (IS("__readlinkat_chk"))
		found = AS(ssize_t, AT_FDCWD, path, out, sizeof(out), sizeof(out)) >= 0 ? 0 : -1;
	else if (IS("realpath"))
		found = AS(char *, path, out) ? 0 : -1;
	else if (IS("__realpath_chk"))
		found = AS(char *, path, out, sizeof(out)) ? 0 : -1;
	else if (IS("canonicalize_file_name"))
		found = AS(char *, path) ? 0 : -1;
	else if (IS("getxattr") || IS("lgetxattr")) {
		/* The file has no such attribute: that is another error than having no such file. */
		found = AS(ssize_t, path, "user.none", out, sizeof(out)) >= 0 || errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
	} else {
		fprintf(stderr, "%s: how it is called is not known here\n", name);
		exit(2);
	}
	return found >= 0;
}

static enum kind kind_of(const char *name)
{
	if (strstr(name, "readlink"))
		return LINKS;
	return strstr(name, "dir") ? FOLDERS : FILES;
}

int main(int argc, char **argv)
{
	/* By kind: in the view, nowhere, on the machine. */
	const char *paths[3][3] = {
		{ NULL, "/sys/class/infiniband/nowhere/file", "/etc/passwd" },
		{ NULL, "/sys/class/infiniband/nowhere", "/etc" },
		{ "/dev/infiniband/uverbs-soft0", "/dev/infiniband/nowhere", "/proc/self/exe" },
	};
	static char too_long[PATH_MAX + 64];
	char line[128];
	int passed = 0, failed = 0;

	if (argc != 3)
		return 2;
	paths[FILES][0] = argv[1];
	paths[FOLDERS][0] = argv[2];
	strcpy(too_long, "/sys/class/infiniband/");
	memset(too_long + strlen(too_long), 'x', PATH_MAX - 32);
	/* The shim's symbols. */
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		const char **path = paths[kind_of(line)];
		const char *wrong = !call(line, path[0]) ? "does not see the view"
			: call(line, path[1]) || errno != ENOENT ? "finds what is not there"
			: !call(line, path[2]) ? "does not see the machine"
			: call(line, too_long) || (errno != ENAMETOOLONG && errno != ENOENT) ? "finds a path that is too long"
			: NULL;
		if (wrong)
			printf("FAILED %s: %s: %s\n", line, wrong, strerror(errno));
		*(wrong ? &failed : &passed) += 1;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}
