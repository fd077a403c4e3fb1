/*
 * Functions that became glibc's own: stat() and its kin in 2.33, gettid() in 2.30. The former were code in the caller before,
 * which called what is called here, and what libraries that put themselves in front of glibc (umockdev, fakechroot) know, too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

#ifdef BASE
/* The version of struct stat, which the caller of these named. */
#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

#define OLD(name, version, ...)                 \
	extern int old_##name(int, __VA_ARGS__);  \
	__asm__(".symver old_" #name ", " #name "@" version)

OLD(__xstat, BASE, const char *, struct stat *);
OLD(__lxstat, BASE, const char *, struct stat *);
OLD(__fxstat, BASE, int, struct stat *);
OLD(__fxstatat, BASE_2_4, int, const char *, struct stat *, int);

HIDDEN int fstatat(int dir, const char *path, struct stat *into, int flags)
{
	return old___fxstatat(STAT_VERSION, dir, path, into, flags);
}

HIDDEN int stat(const char *path, struct stat *into)
{
	return old___xstat(STAT_VERSION, path, into);
}

HIDDEN int lstat(const char *path, struct stat *into)
{
	return old___lxstat(STAT_VERSION, path, into);
}

HIDDEN int fstat(int fd, struct stat *into)
{
	return old___fxstat(STAT_VERSION, fd, into);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct for both names");

HIDDEN int stat64(const char *path, struct stat64 *into)
{
	return stat(path, (struct stat *)into);
}

HIDDEN int lstat64(const char *path, struct stat64 *into)
{
	return lstat(path, (struct stat *)into);
}

HIDDEN int fstat64(int fd, struct stat64 *into)
{
	return fstat(fd, (struct stat *)into);
}

HIDDEN int fstatat64(int dir, const char *path, struct stat64 *into, int flags)
{
	return fstatat(dir, path, (struct stat *)into, flags);
}

HIDDEN pid_t gettid(void)
{
	return syscall(SYS_gettid);
}

/*
 * Rust's standard library asks whether it is there, and does without: hidden, and nobody's. An absolute 0 in its place is
 * what linkers refuse where they make the question shorter.
 */
extern char posix_spawn_file_actions_addchdir_np[] __attribute__((weak, visibility("hidden")));
HIDDEN char *floor_asks = posix_spawn_file_actions_addchdir_np;
#endif
