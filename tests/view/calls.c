/*
 * Names a file by every function of the C library that the shim of `ironverbs run` stands before: files of the view, of the
 * machine, of neither, by paths that try to leave the view, by planted links, by paths that are too long, and by memory that is
 * not there. Prints what failed, and counts. The functions' names come on standard input; tests/view/run makes the view.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PAGE 4096

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
	else if (IS("chdir"))
		found = AS(int, path);
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

#define VIEWED "/sys/class/infiniband/soft0/ports"
#define NOWHERE "ironverbs-secret"

/* Of each kind, in the order of `enum kind`. */
static const struct {
	const char *paths[3];
	int error; /* that there must be; 0: it is found */
	const char *wrong;
} cases[] = {
	{ { VIEWED "/1/state", VIEWED "/1", "/dev/infiniband/uverbs-soft0" }, 0, "does not see the view" },
	{ { "/sys/class/infiniband/nowhere/file", "/sys/class/infiniband/nowhere", "/dev/infiniband/nowhere" }, ENOENT,
	  "finds what is not there" },
	{ { "/etc/passwd", "/etc", "/proc/self/exe" }, 0, "does not see the machine" },
	/* Names that mean no step, and steps back. */
	{ { "/sys//class/./infiniband//soft0/./ports/1/state", "//sys/class/infiniband/./soft0/ports/1/.",
	    "/dev/.//infiniband/./uverbs-soft0" }, 0, "does not see the view by empty names" },
	{ { "/sys/../sys/class/../class/infiniband/../infiniband/soft0/../soft0/ports/../ports/1/state", VIEWED "/1/..",
	    "/dev/infiniband/../infiniband/uverbs-soft0" }, 0, "does not see the view by steps back" },
	{ { "/../sys/class/infiniband/soft0/ports/1/state", "/sys/class/infiniband/soft0/../../infiniband/soft0/ports",
	    "/../../dev/infiniband/uverbs-soft0" }, 0, "does not see the view by the root" },
	/* What lies in the view's folder, and beside it, is no path of the kernel. */
	{ { "/sys/class/infiniband/../../../" NOWHERE "/file", "/sys/class/infiniband/../../../" NOWHERE,
	    "/dev/infiniband/../../" NOWHERE "/link" }, ENOENT, "leaves the shown folders for the view's own" },
	{ { "/sys/class/infiniband/soft0/../../../../../" NOWHERE "/file", VIEWED "/../../../../../../" NOWHERE,
	    "/dev/infiniband/../../../" NOWHERE "/link" }, ENOENT, "leaves the view for the folder around it" },
	{ { "/sys/class/infiniband/../" NOWHERE "/file", "/sys/class/infiniband/soft0/../../" NOWHERE,
	    "/dev/infiniband/../" NOWHERE "/link" }, ENOENT, "finds in the view what is not in a shown folder" },
	{ { "/sys/class/infiniband/../../../etc/passwd", "/sys/class/infiniband/soft0/../../../../etc",
	    "/dev/infiniband/../../proc/self/exe" }, 0, "does not come back to the machine" },
	{ { "/sys/class/infiniband/../net/lo/ifindex", "/sys/class/infiniband/soft0/../../net/lo/",
	    "/sys/class/infiniband/../net/lo" }, 0, "does not come to the kernel's other folders" },
	/* A link of the kernel leads elsewhere than its name looks. */
	{ { "/sys/class/net/lo/../../infiniband/soft0/ports/1/state", "/sys/class/net/lo/../../infiniband/soft0",
	    "/sys/class/infiniband/../net/lo/../../infiniband/uverbs-soft0" }, ENOENT, "takes a link of the kernel for a folder" },
	/* Links that somebody put there. */
	{ { "/sys/class/infiniband/planted-file", "/sys/class/infiniband/planted-folder", "/sys/class/infiniband/planted-file" },
	  ENOENT, "follows a planted link" },
	{ { "/sys/class/infiniband/planted-folder/passwd", "/sys/class/infiniband/planted-folder/..",
	    "/sys/class/infiniband/planted-root/proc/self/exe" }, ENOENT, "goes on behind a planted link" },
	/* A file is no folder. */
	{ { VIEWED "/1/state/", VIEWED "/1/state", VIEWED "/1/state/" }, ENOTDIR, "takes a file for a folder" },
	{ { VIEWED "/1/state/../state", VIEWED "/1/state/..", VIEWED "/1/state/../state" }, ENOTDIR, "steps back from a file" },
	{ { "/dev/infiniband/uverbs-soft0/", "/dev/infiniband/uverbs-soft0/..", "/dev/infiniband/uverbs-soft0/" }, ENOTDIR,
	  "takes a device for a folder" },
};

static int passed, failed;

static void result(const char *name, int good, const char *wrong)
{
	if (!good)
		printf("FAILED %s: %s: %s\n", name, wrong, strerror(errno));
	*(good ? &passed : &failed) += 1;
}

static void examine(const char *name)
{
	static char long_name[PATH_MAX + 64], too_long[2 * PATH_MAX], close_to[PATH_MAX];

	for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
		int found = call(name, cases[at].paths[kind_of(name)]);
		result(name, found ? cases[at].error == 0 : errno == cases[at].error, cases[at].wrong);
	}
	strcpy(long_name, "/sys/class/infiniband/");
	memset(long_name + strlen(long_name), 'x', PATH_MAX - 32);
	/* Dots count, though there would be room for what is left without them. */
	strcpy(too_long, "/sys/class/infiniband/");
	while (strlen(too_long) < PATH_MAX)
		strcat(too_long, "./");
	strcat(too_long, "soft0/ports/1/state");
	/* The kernel would take it; with the view's folder in front it is too long. */
	strcpy(close_to, "/sys/class/infiniband/");
	while (strlen(close_to) < PATH_MAX - 8)
		strcat(close_to, "./");
	strcat(close_to, "soft0");
	const char *const paths[] = { long_name, too_long, close_to };
	for (size_t at = 0; at < 3; at++)
		result(name, !call(name, paths[at]) && (errno == ENAMETOOLONG || errno == ENOENT), "finds a path that is too long");
}

/* Two pages and none behind them. */
static char *pages(void)
{
	char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + 2 * PAGE, PAGE, PROT_NONE) != 0)
		exit(2);
	return memory;
}

/* Paths where memory ends, and where there is none. */
static void examine_memory(const char *name)
{
	static const char *const begun[] = { "", "/", "/sys/class/infiniband/", "relative/" };
	static char *memory;
	const char *viewed = cases[0].paths[kind_of(name)];
	char *end;

	if (!memory)
		memory = pages();
	end = memory + 2 * PAGE;
	strcpy(end - strlen(viewed) - 1, viewed);
	result(name, call(name, end - strlen(viewed) - 1), "reads behind the end of a path");
	strcpy(end - PAGE - strlen(viewed) / 2, viewed);
	result(name, call(name, end - PAGE - strlen(viewed) / 2), "does not see a path in two pages");
	/* Of the C library these read the path themselves, and die of it. */
	if (strstr(name, "realpath") || IS("canonicalize_file_name") || IS("opendir") || strstr(name, "scandir"))
		return;
	for (size_t at = 0; at < sizeof(begun) / sizeof(begun[0]); at++) {
		strcpy(end - strlen(begun[at]) - 1, begun[at]);
		memmove(end - strlen(begun[at]), end - strlen(begun[at]) - 1, strlen(begun[at]));
		result(name, !call(name, end - strlen(begun[at])) && errno == EFAULT, "takes a path without an end");
	}
	result(name, !call(name, (const char *)8) && errno == EFAULT, "takes an address that is nobody's");
	result(name, !call(name, (const char *)~7UL) && errno == EFAULT, "takes an address that is the kernel's");
	result(name, !call(name, (const char *)(1UL << 63)) && errno == EFAULT, "takes what is no address");
}

int main(void)
{
	char line[128];

	/* The shim's symbols. */
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		examine(line);
		examine_memory(line);
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}
