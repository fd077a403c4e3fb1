/*
 * Functions that became glibc's own: stat() and its kin in 2.33, which were code in the caller before; gettid() in 2.30.
 * They are system calls here: the kernel's struct stat is the C library's on these machines.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

#ifdef BASE
HIDDEN int fstatat(int dir, const char *path, struct stat *into, int flags)
{
	return syscall(SYS_newfstatat, dir, path, into, flags);
}

HIDDEN int stat(const char *path, struct stat *into)
{
	return fstatat(AT_FDCWD, path, into, 0);
}

HIDDEN int lstat(const char *path, struct stat *into)
{
	return fstatat(AT_FDCWD, path, into, AT_SYMLINK_NOFOLLOW);
}

HIDDEN int fstat(int fd, struct stat *into)
{
	return syscall(SYS_fstat, fd, into);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct for both names");

HIDDEN int stat64(const char *path, struct stat64 *into)
{
	return fstatat(AT_FDCWD, path, (struct stat *)into, 0);
}

HIDDEN int lstat64(const char *path, struct stat64 *into)
{
	return fstatat(AT_FDCWD, path, (struct stat *)into, AT_SYMLINK_NOFOLLOW);
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

/* Rust's standard library asks whether it is there, and does without. */
__asm__(".weak posix_spawn_file_actions_addchdir_np\n"
	".hidden posix_spawn_file_actions_addchdir_np\n"
	".set posix_spawn_file_actions_addchdir_np, 0\n");
#endif
