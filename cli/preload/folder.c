/*
 * Looks at every folder and link by which the view's folder is reached.
 *
 * Who may write to a folder can exchange what is in it, unless the folder is sticky: then its owner and that of the thing
 * alone can. So each level belongs to root or the user, and others may write to none that is not sticky. Where that does not
 * hold (an emptyDir of Kubernetes is not sticky; in a user namespace root's folders are nobody's), the way has no links, and
 * the folder itself, which is the user's, is kept in mind by its number and reached by a descriptor.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "folder.h"

/* By the bare calls: some of these functions are those of the shim, and fstat is one of glibc since 2.33 alone. */
static int open_at(int folder, const char *name, int flags)
{
	return (int)syscall(SYS_openat, folder, name, O_PATH | O_CLOEXEC | flags);
}

static int is_mine(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

static int others_write(const struct stat *st)
{
	return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Whether nobody else can exchange in this folder what is root's or the user's. */
static int is_safe(const struct stat *st)
{
	return is_mine(st) && (!others_write(st) || (st->st_mode & S_ISVTX));
}

static int is_view(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && is_mine(st) && !others_write(st);
}

/* Moves `*at` behind the next name, which ends with a zero then; NULL at the end. */
static char *take_name(char **at)
{
	char *name = *at + strspn(*at, "/");

	*at = name + strcspn(name, "/");
	if (**at != '\0')
		*(*at)++ = '\0';
	return *name ? name : NULL;
}

/* What is left of the path: the rest of it behind the link's target. NULL where it is too long. */
static char *follow(int link, char *rest, size_t room, const char *at)
{
	static char target[PATH_MAX];
	ssize_t length = syscall(SYS_readlinkat, link, "", target, sizeof(target));

	if (length <= 0 || (size_t)length + 1 + strlen(at) + 1 > room)
		return NULL;
	memmove(rest + length + 1, at, strlen(at) + 1);
	memcpy(rest, target, (size_t)length);
	rest[length] = '/';
	return rest;
}

enum ironverbs_way ironverbs_find_folder(const char *path, struct stat *found)
{
	static char rest[2 * PATH_MAX];
	int folder = open_at(AT_FDCWD, "/", O_DIRECTORY), next, safe = 1, links = 0;
	enum ironverbs_way way = IRONVERBS_NO_WAY;
	char *at = rest, *name;

	strcpy(rest, path);
	while (folder >= 0 && syscall(SYS_fstat, folder, found) == 0) {
		safe = safe && is_safe(found);
		name = take_name(&at);
		if (name == NULL) {
			if (is_view(found))
				way = safe ? IRONVERBS_BY_PATH : IRONVERBS_BY_DESCRIPTOR;
			break;
		}
		next = open_at(folder, name, O_NOFOLLOW);
		if (next >= 0 && syscall(SYS_fstat, next, found) == 0 && S_ISLNK(found->st_mode)) {
			/* As many as the kernel follows. */
			at = safe && is_mine(found) && ++links <= 40 ? follow(next, rest, sizeof(rest), at) : NULL;
			syscall(SYS_close, next);
			if (at == NULL)
				break;
			if (*at != '/')
				continue;
			next = open_at(AT_FDCWD, "/", O_DIRECTORY);
		}
		syscall(SYS_close, folder);
		folder = next;
	}
	if (folder >= 0)
		syscall(SYS_close, folder);
	return way;
}

int ironverbs_open_folder(const char *path, const struct stat *found)
{
	int fd = open_at(AT_FDCWD, path, O_DIRECTORY | O_NOFOLLOW), copy = -1;
	struct stat st;

	if (fd < 0)
		return -1;
	if (syscall(SYS_fstat, fd, &st) != 0 || st.st_dev != found->st_dev || st.st_ino != found->st_ino || !is_view(&st)) {
		syscall(SYS_close, fd);
		return -1;
	}
	/* Higher than what select() takes, if the process may have so many. */
	for (int floor = FD_SETSIZE; copy < 0 && floor > 16; floor /= 4)
		copy = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor);
	if (copy < 0)
		return fd;
	syscall(SYS_close, fd);
	return copy;
}
