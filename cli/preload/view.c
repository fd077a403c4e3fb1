/*
 * Shows a software device to programs that look for it behind the library's back.
 *
 * `ironverbs run` preloads this and names in IRONVERBS_VIEW a folder that has the files which a kernel device of that name
 * would have. A path under one of three folders is answered from there if it is there; any other call goes on as it
 * came. Nothing is made up here: the folder's files and links are all there is.
 *
 * A path is walked as the kernel would walk it, name by name, so that `..` never leads out of the view into the folders
 * around it: above the three folders a path is the kernel's again. Of links, three kinds have a meaning: to /dev/null, which a
 * device file is here, to a file of the kernel that has nothing to read (EINVAL), as that of an empty place in a table has, and
 * those that stand for the kernel's own files, which the kernel is asked for. Whatever else somebody put there is not shown.
 *
 * Where others may exchange the folder, each call opens it anew, looks whether it is the one that it was, and goes by that
 * descriptor: what stays open could be closed by the program, or be found in its way.
 *
 * Calls that name a file by its full path are seen, whatever width of file offset they were compiled for; who goes into a
 * folder of the view's sysfs finds names there relative to it. Not seen are paths relative to a folder of the kernel,
 * glob(), and programs that call the kernel without the C library.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "behind.h"
#include "folder.h"
#include "readable.h"
#include "ucma.h"

static const char *const folders[] = {
	"/sys/class/infiniband",
	"/sys/class/infiniband_verbs",
	"/sys/class/misc/rdma_cm",
	"/dev/infiniband",
};

/* The device file of the connection manager, which another library answers for. */
static const char channels[] = "/dev/infiniband/rdma_cm";

/* What stands above them: real folders of the kernel, so that `..` there may be taken by the letter. */
static const char *const above[] = { "", "/sys", "/sys/class", "/sys/class/misc", "/dev" };

/* What links in the view may lead to: what takes and gives nothing, and what can be opened and not read. */
static const char *const targets[] = { "/dev/null", "/proc/self/ns/net" };

/* The folder's name, and what stands before a path that it shows: this name, or a descriptor, written in the same length at all times. */
static char view_folder[PATH_MAX], view[PATH_MAX];
static size_t view_length;
static struct stat identity;
static int by_descriptor;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

/* What a thread holds while a function goes on with a path of the view. */
struct held {
	int folder, cancel;
};

/* Whether the process has just the rights of who started it, whose the environment is. */
static int callers_rights(void)
{
	return getauxval(AT_SECURE) == 0 && getuid() == geteuid() && getgid() == getegid();
}

static void look(void)
{
	/* Room for the number of any descriptor; slashes are as good as one. */
	static const char descriptors[] = "/proc/thread-self/fd" "///////////";
	const char *named = secure_getenv("IRONVERBS_VIEW");
	size_t length = named ? strlen(named) : 0;
	enum ironverbs_way way;
	int before = errno;

	if (length == 0 || length >= sizeof(view_folder) || named[0] != '/' || !callers_rights())
		return;
	/* Nobody else is to say what this process sees: the folder is the user's or root's, and only the owner writes there. */
	memcpy(view_folder, named, length + 1);
	way = ironverbs_find_folder(view_folder, &identity);
	by_descriptor = way == IRONVERBS_BY_DESCRIPTOR;
	strcpy(view, by_descriptor ? descriptors : view_folder);
	view_length = way == IRONVERBS_NO_WAY ? 0 : strlen(view);
	errno = before;
}

/*
 * Writes what stands before a path; it leads nowhere when the folder is another one by now. Until let_go() the thread is not
 * cancelled.
 */
static void hold(char *place, struct held *held)
{
	char *digit = place + view_length;

	memcpy(place, view, view_length + 1);
	held->folder = -1;
	if (!by_descriptor)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held->cancel);
	held->folder = ironverbs_open_folder(view_folder, &identity);
	for (int rest = held->folder; rest > 0; rest /= 10)
		*--digit = (char)('0' + rest % 10);
}

static void let_go(const struct held *held)
{
	int before = errno, state;

	if (!by_descriptor)
		return;
	if (held->folder >= 0)
		syscall(SYS_close, held->folder);
	pthread_setcancelstate(held->cancel, &state);
	errno = before;
}

static int is_under(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static int is_target(const char *link, size_t length)
{
	for (size_t at = 0; at < sizeof(targets) / sizeof(targets[0]); at++)
		if (strlen(targets[at]) == length && memcmp(targets[at], link, length) == 0)
			return 1;
	return 0;
}

/* Whether a path without `.`, `..` and doubled slashes is one of the folders that are shown, or below one. */
static int is_shown(const char *path)
{
	for (size_t at = 0; at < sizeof(folders) / sizeof(folders[0]); at++)
		if (is_under(path, folders[at]))
			return 1;
	return 0;
}

static int is_above(const char *path)
{
	for (size_t at = 0; at < sizeof(above) / sizeof(above[0]); at++)
		if (strcmp(path, above[at]) == 0)
			return 1;
	return 0;
}

/* The next name in the path behind `*at`, which moves behind it; its length, 0 at the end. */
static size_t next_name(const char **at, const char **name)
{
	*at += strspn(*at, "/");
	*name = *at;
	*at += strcspn(*at, "/");
	return (size_t)(*at - *name);
}

static int is_dots(const char *name, size_t length, size_t dots)
{
	return length == dots && memcmp(name, "..", dots) == 0;
}

/*
 * Adds a name to a path of `length` bytes without `.`, `..` and doubled slashes, or takes the last one away; the length then.
 * There is room for a slash and the name.
 */
static size_t step(char *path, size_t length, const char *name, size_t name_length)
{
	if (is_dots(name, name_length, 1))
		return length;
	if (is_dots(name, name_length, 2)) {
		while (length > 0 && path[--length] != '/')
			;
	} else {
		path[length++] = '/';
		memcpy(path + length, name, name_length);
		length += name_length;
	}
	path[length] = '\0';
	return length;
}

/* The bytes that showing `path` needs on the stack; 0 when it comes by none of the folders that are shown. */
static size_t room_for(const char *path)
{
	/* Longer than any path above or of the shown folders. */
	char front[64] = "";
	const char *at = path, *name;
	size_t length = 0, name_length, room;

	/* What cannot be read is for the kernel to refuse. */
	if (path == NULL || !ironverbs_is_path(path) || path[0] != '/')
		return 0;
	while (!is_shown(front)) {
		name_length = next_name(&at, &name);
		if (name_length == 0 || length + 1 + name_length >= sizeof(front) || !is_above(front))
			return 0;
		length = step(front, length, name, name_length);
	}
	pthread_once(&looked, look);
	/* The walk asks with a slash behind, and the kernel refuses a path that is too long however much of it is dots. */
	room = strlen(path);
	return view_length && room < PATH_MAX && view_length + room + 2 <= PATH_MAX ? view_length + room + 2 : 0;
}

enum thing {
	FOLDER, /* of the view, or of the kernel above the view */
	FILE_HERE, /* of the view, and no folder */
	ELSEWHERE, /* the kernel's, if it is anywhere */
};

/*
 * What the view has at `place`, whose end is `path`, of `length` bytes, what it stands for. Asks the kernel itself: the functions for it are
 * this file's.
 */
static __attribute__((noinline)) enum thing look_at(const char *place, char *path, size_t length)
{
	/* With room for more than the longest of the targets. */
	char target[32];
	ssize_t target_length;
	int folder;

	if (!is_shown(path))
		return is_above(path) ? FOLDER : ELSEWHERE;
	target_length = syscall(SYS_readlinkat, AT_FDCWD, place, target, sizeof(target));
	if (target_length >= 0)
		return is_target(target, (size_t)target_length) ? FILE_HERE : ELSEWHERE;
	if (errno != EINVAL) /* it is not there, or nobody may look */
		return ELSEWHERE;
	memcpy(path + length, "/", 2);
	folder = syscall(SYS_faccessat, AT_FDCWD, place, F_OK) == 0;
	path[length] = '\0';
	return folder ? FOLDER : FILE_HERE;
}

/*
 * The path to use for `path` until let_go(), written to `place`: where it is in the view, or what it is for the kernel. What lies behind a
 * name that is no folder of the view stays as it was written: there `..` is the kernel's to take, who knows its links.
 */
static __attribute__((noinline)) const char *shown(const char *path, char *place, struct held *held)
{
	int before = errno;
	char *walked = place + view_length;
	const char *at = path, *name;
	size_t length = 0, name_length;
	enum thing thing = FOLDER;

	hold(place, held);
	while (thing == FOLDER && (name_length = next_name(&at, &name)) > 0) {
		length = step(walked, length, name, name_length);
		thing = look_at(place, walked, length);
	}
	strcpy(walked + length, at);
	errno = before;
	if (thing == FILE_HERE || (thing == FOLDER && is_shown(walked)))
		return place;
	return *walked ? walked : "/";
}

/*
 * 0, or the errno value with which a file at `place`, which stands for `path`, is not opened so. The view is what all programs of
 * the user see: as a file of sysfs it is there to be read, and root is refused as well. A folder is the kernel's to refuse, but for
 * what sysfs does not have.
 */
static __attribute__((noinline)) int refusal(const char *place, const char *path, int flags)
{
	struct stat st;
	int before = errno, is_file;

	if (!is_under(path, "/sys") || (flags & O_PATH))
		return 0;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return EOPNOTSUPP;
	if (((flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC)) || (flags & O_DIRECTORY) ||
	    (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return 0;
	is_file = syscall(SYS_newfstatat, AT_FDCWD, place, &st, 0) == 0 && !S_ISDIR(st.st_mode);
	errno = before;
	return is_file ? EACCES : 0;
}

static void *look_up(struct ironverbs_behind *known)
{
	/* Of the interfaces that old programs were linked to, the C library has no default version. */
	static const char *const versions[] = { "GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.17" };
	void *function = dlsym(RTLD_NEXT, known->name);

	for (size_t at = 0; function == NULL && at < sizeof(versions) / sizeof(versions[0]); at++)
		function = dlvsym(RTLD_NEXT, known->name, versions[at]);
	__atomic_store_n(&known->function, function, __ATOMIC_RELAXED);
	return function;
}

void *ironverbs_behind(struct ironverbs_behind *known)
{
	void *function = __atomic_load_n(&known->function, __ATOMIC_RELAXED);

	if (function == NULL && (function = look_up(known)) == NULL)
		errno = ENOSYS;
	return function;
}

/* The linker says where the table is. */
extern struct ironverbs_behind __start_ironverbs_functions[], __stop_ironverbs_functions[];

__attribute__((constructor)) static void look_up_all(void)
{
	int before = errno;

	for (struct ironverbs_behind *known = __start_ironverbs_functions; known < __stop_ironverbs_functions; known++)
		if (known->function == NULL)
			look_up(known);
	/* What an old C library does not have is nothing that the program should hear of. */
	dlerror();
	errno = before;
}

/*
 * The end of a function whose argument `path` may be shown elsewhere. Only then does it take room on the stack, which a
 * signal handler may have little of.
 */
#define GO_ON(type, name, failure, types, arguments)                          \
	{                                                                     \
		BEHIND(type, name, types);                                    \
		size_t bytes = room_for(path);                                \
		struct held held;                                             \
		type answer;                                                  \
                                                                              \
		if (bytes == 0)                                               \
			return function ? function arguments : (failure);     \
		path = shown(path, alloca(bytes), &held);                     \
		answer = function ? function arguments : (failure);           \
		let_go(&held);                                                \
		return answer;                                                \
	}

/* As GO_ON for a file that is opened. */
#define OPEN_ON(name, types, arguments)                                       \
	{                                                                     \
		BEHIND(int, name, types);                                     \
		size_t bytes = room_for(path);                                \
		struct held held;                                             \
		char *place;                                                  \
		int answer, refused;                                          \
                                                                              \
		if (bytes == 0)                                               \
			return function ? function arguments : -1;            \
		place = alloca(bytes);                                        \
		path = shown(path, place, &held);                             \
		if (path == place && strcmp(place + view_length, channels) == 0) { \
			let_go(&held);                                        \
			return ironverbs_open_channel(flags);                 \
		}                                                             \
		refused = path == place ? refusal(place, place + view_length, flags) : 0; \
		if (refused) {                                                \
			let_go(&held);                                        \
			errno = refused;                                      \
			return -1;                                            \
		}                                                             \
		answer = function ? function arguments : -1;                  \
		let_go(&held);                                                \
		return answer;                                                \
	}

/*
 * As GO_ON for a path that a program goes on with later. Where it could lead elsewhere by then, it is the one that the program
 * sees: of a path of the view nothing but the device behind its last name is another one.
 */
#define REALPATH_ON(name, types, arguments)                                   \
	{                                                                     \
		BEHIND(char *, name, types);                                  \
		size_t bytes = room_for(path);                                \
		struct held held;                                             \
		char *place, *answer;                                         \
                                                                              \
		if (bytes == 0)                                               \
			return function ? function arguments : NULL;          \
		place = alloca(bytes);                                        \
		path = shown(path, place, &held);                             \
		answer = function ? function arguments : NULL;                \
		let_go(&held);                                                \
		return path == place && by_descriptor ? as_seen(answer, place + view_length, out) : answer; \
	}

static char *as_seen(char *answer, const char *seen, char *out)
{
	if (answer == NULL || strcmp(answer, targets[0]) == 0)
		return answer;
	if (out != NULL)
		return strcpy(out, seen);
	free(answer);
	return strdup(seen);
}

/* The mode, which is there only where a file may be made. */
#define TAKE_MODE(flags)                                                      \
	mode_t mode = 0;                                                      \
	if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {               \
		va_list rest;                                                 \
		va_start(rest, flags);                                        \
		mode = va_arg(rest, mode_t);                                  \
		va_end(rest);                                                 \
	}

#define OPEN(name)                                                            \
	EXPORT int name(const char *path, int flags, ...)                     \
	{                                                                     \
		TAKE_MODE(flags)                                              \
		OPEN_ON(name, (const char *, int, ...), (path, flags, mode)) \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                          \
	EXPORT int name(int folder, const char *path, int flags, ...)         \
	{                                                                     \
		TAKE_MODE(flags)                                              \
		OPEN_ON(name, (int, const char *, int, ...), (folder, path, flags, mode)) \
	}
OPENAT(openat)
OPENAT(openat64)

#define OPEN_2(name)                                                          \
	EXPORT int name(const char *path, int flags);                         \
	EXPORT int name(const char *path, int flags)                          \
	OPEN_ON(name, (const char *, int), (path, flags))
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                                        \
	EXPORT int name(int folder, const char *path, int flags);             \
	EXPORT int name(int folder, const char *path, int flags)              \
	OPEN_ON(name, (int, const char *, int), (folder, path, flags))
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

/* The flags that a stream's mode stands for, or -1 where it is none. */
static int flags_of(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;

	if (*mode != 'r' && *mode != 'w' && *mode != 'a')
		return -1;
	return flags | (*mode == 'r' ? 0 : strchr(mode, 'x') ? O_CREAT | O_EXCL : O_CREAT);
}

/* A stream of a channel. What it writes by itself is no command, for which the kernel answers EINVAL. */
static FILE *open_stream(const char *mode)
{
	int flags = flags_of(mode), fd;
	FILE *stream;

	if (flags < 0) {
		errno = EINVAL;
		return NULL;
	}
	fd = ironverbs_open_channel(strchr(mode, 'e') ? flags | O_CLOEXEC : flags);
	stream = fd < 0 ? NULL : fdopen(fd, mode);
	if (stream == NULL && fd >= 0) {
		int failure = errno;

		close(fd);
		errno = failure;
	}
	return stream;
}

#define FOPEN(name)                                                           \
	EXPORT FILE *name(const char *path, const char *mode)                 \
	{                                                                     \
		BEHIND(FILE *, name, (const char *, const char *));           \
		size_t bytes = room_for(path);                                \
		struct held held;                                             \
		char *place;                                                  \
		FILE *answer;                                                 \
		int flags, refused = 0;                                       \
                                                                              \
		if (bytes == 0)                                               \
			return function ? function(path, mode) : NULL;        \
		place = alloca(bytes);                                        \
		path = shown(path, place, &held);                             \
		if (path == place && (flags = flags_of(mode)) >= 0)           \
			refused = refusal(place, place + view_length, flags); \
		if (path == place && strcmp(place + view_length, channels) == 0) \
			answer = open_stream(mode);                           \
		else                                                          \
			answer = function && !refused ? function(path, mode) : NULL; \
		let_go(&held);                                                \
		if (refused)                                                  \
			errno = refused;                                      \
		return answer;                                                \
	}
FOPEN(fopen)
FOPEN(fopen64)

EXPORT DIR *opendir(const char *path)
GO_ON(DIR *, opendir, NULL, (const char *), (path))

EXPORT int scandir(const char *path, struct dirent ***names, int (*filter)(const struct dirent *),
		   int (*order)(const struct dirent **, const struct dirent **))
GO_ON(int, scandir, -1, (const char *, struct dirent ***, int (*)(const struct dirent *),
      int (*)(const struct dirent **, const struct dirent **)), (path, names, filter, order))

EXPORT int scandir64(const char *path, struct dirent64 ***names, int (*filter)(const struct dirent64 *),
		     int (*order)(const struct dirent64 **, const struct dirent64 **))
GO_ON(int, scandir64, -1, (const char *, struct dirent64 ***, int (*)(const struct dirent64 *),
      int (*)(const struct dirent64 **, const struct dirent64 **)), (path, names, filter, order))

#define ACCESS(name)                                                          \
	EXPORT int name(const char *path, int mode)                           \
	GO_ON(int, name, -1, (const char *, int), (path, mode))
ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

EXPORT int faccessat(int folder, const char *path, int mode, int flags)
GO_ON(int, faccessat, -1, (int, const char *, int, int), (folder, path, mode, flags))

#define STAT(name, buffer)                                                    \
	EXPORT int name(const char *path, struct buffer *out)                 \
	GO_ON(int, name, -1, (const char *, struct buffer *), (path, out))
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

/* Whether a channel of the connection manager was asked for by its descriptor alone, in a call that found it: the path can be read. */
static int is_itself(int folder, const char *path, int flags)
{
	return (flags & AT_EMPTY_PATH) && ironverbs_is_channel(folder) && (path == NULL || *path == '\0');
}

#define fstat_stat fstat
#define fstat_stat64 fstat64

#define FSTATAT(name, buffer)                                                 \
	static int name##_behind(int folder, const char *path, struct buffer *out, int flags) \
	GO_ON(int, name, -1, (int, const char *, struct buffer *, int), (folder, path, out, flags)) \
                                                                              \
	EXPORT int name(int folder, const char *path, struct buffer *out, int flags) \
	{                                                                     \
		int answer = name##_behind(folder, path, out, flags);         \
                                                                              \
		return answer == 0 && is_itself(folder, path, flags) ? fstat_##buffer(folder, out) : answer; \
	}
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

static int statx_behind(int folder, const char *path, int flags, unsigned int mask, struct statx *out)
GO_ON(int, statx, -1, (int, const char *, int, unsigned int, struct statx *), (folder, path, flags, mask, out))

EXPORT int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *out)
{
	int answer = statx_behind(folder, path, flags, mask, out);

	if (answer == 0 && is_itself(folder, path, flags)) {
		out->stx_mode = S_IFCHR | 0666;
		ironverbs_device_number(&out->stx_rdev_major, &out->stx_rdev_minor);
	}
	return answer;
}

/* What programs call that were linked to a C library before 2.33. */
#define XSTAT(name, buffer)                                                   \
	EXPORT int name(int version, const char *path, struct buffer *out);   \
	EXPORT int name(int version, const char *path, struct buffer *out)    \
	GO_ON(int, name, -1, (int, const char *, struct buffer *), (version, path, out))
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)

#define fxstat_stat __fxstat
#define fxstat_stat64 __fxstat64
extern int __fxstat(int version, int fd, struct stat *out), __fxstat64(int version, int fd, struct stat64 *out);

#define FXSTATAT(name, buffer)                                                \
	static int name##_behind(int version, int folder, const char *path, struct buffer *out, int flags) \
	GO_ON(int, name, -1, (int, int, const char *, struct buffer *, int), (version, folder, path, out, flags)) \
                                                                              \
	EXPORT int name(int version, int folder, const char *path, struct buffer *out, int flags); \
	EXPORT int name(int version, int folder, const char *path, struct buffer *out, int flags) \
	{                                                                     \
		int answer = name##_behind(version, folder, path, out, flags); \
                                                                              \
		return answer == 0 && is_itself(folder, path, flags) ? fxstat_##buffer(version, folder, out) : answer; \
	}
FXSTATAT(__fxstatat, stat)
FXSTATAT(__fxstatat64, stat64)

EXPORT ssize_t readlink(const char *path, char *out, size_t size)
GO_ON(ssize_t, readlink, -1, (const char *, char *, size_t), (path, out, size))

EXPORT ssize_t readlinkat(int folder, const char *path, char *out, size_t size)
GO_ON(ssize_t, readlinkat, -1, (int, const char *, char *, size_t), (folder, path, out, size))

EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room)
GO_ON(ssize_t, __readlink_chk, -1, (const char *, char *, size_t, size_t), (path, out, size, room))

EXPORT ssize_t __readlinkat_chk(int folder, const char *path, char *out, size_t size, size_t room);
EXPORT ssize_t __readlinkat_chk(int folder, const char *path, char *out, size_t size, size_t room)
GO_ON(ssize_t, __readlinkat_chk, -1, (int, const char *, char *, size_t, size_t), (folder, path, out, size, room))

EXPORT char *realpath(const char *path, char *out)
REALPATH_ON(realpath, (const char *, char *), (path, out))

EXPORT char *__realpath_chk(const char *path, char *out, size_t room);
EXPORT char *__realpath_chk(const char *path, char *out, size_t room)
REALPATH_ON(__realpath_chk, (const char *, char *, size_t), (path, out, room))

EXPORT char *canonicalize_file_name(const char *path)
{
	char *const out = NULL;

	REALPATH_ON(canonicalize_file_name, (const char *), (path))
}

/*
 * ibstatus goes into the folder of devices. That of device files stays the kernel's: opened by a name relative to it, a file
 * would be the /dev/null behind it, which takes every command and answers none.
 */
EXPORT int chdir(const char *path)
{
	BEHIND(int, chdir, (const char *));
	size_t bytes = room_for(path);
	struct held held;
	const char *found;
	char *place;
	int answer;

	if (bytes == 0)
		return function ? function(path) : -1;
	place = alloca(bytes);
	found = shown(path, place, &held);
	if (found != place || strcmp(place + view_length, "/dev/infiniband") != 0)
		path = found;
	answer = function ? function(path) : -1;
	let_go(&held);
	return answer;
}

/* ls -l asks, and takes a path that is not there for an error. */
#define GETXATTR(name)                                                        \
	EXPORT ssize_t name(const char *path, const char *attribute, void *out, size_t size) \
	GO_ON(ssize_t, name, -1, (const char *, const char *, void *, size_t), (path, attribute, out, size))
GETXATTR(getxattr)
GETXATTR(lgetxattr)
