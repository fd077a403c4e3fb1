/*
 * Channels of the connection manager: the descriptors that a program got for /dev/infiniband/rdma_cm.
 *
 * A channel is an epoll descriptor, so poll(), O_NONBLOCK and dup() mean what they mean for the kernel's file.
 * What it lacks is written here: commands by write() and writev(), the kind of file that fstat() says, and an end at the
 * last close(). Every other descriptor costs a look at one word as long as the process has no channel, and a
 * look into a table then.
 *
 * A program may close a descriptor past these functions: by fclose() of the C library's own, by the bare system call. Its
 * number is another file's then, so a number that is marked is looked at before it is taken for what it was.
 *
 * A child of fork() has the descriptors and none of the ids: the kernel, too, takes no commands from it
 * (EACCES). A child of vfork() shares this memory, where it must change nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ucma.h"
#include "behind.h"
#include "readable.h"

enum kind {
	OTHER,
	CHANNEL,
	/* The library's own, which the program is not to close. */
	KEPT,
	/* The same of the process that forked this one. */
	INHERITED_CHANNEL,
	INHERITED_KEPT,
};

EXPORT uint64_t ironverbs_service_threads[IRONVERBS_SERVICE_THREADS];

/* Descriptors that have a place in the table; a channel gets no higher one. */
#define PLACES (1 << 20)

/* Untouched pages cost nothing. */
static unsigned char kinds[PLACES];
/* Which one it is of those that had the number one after the other. */
static unsigned int turns[PLACES];
/* By what the file is known: a channel by the member of its epoll set that no other set has, another by what fstat() says. */
static unsigned int signs[PLACES];
/* Channels that were opened for reading alone: they take no commands. */
static unsigned char read_only[PLACES];
/* Places that are not OTHER; one above the highest that ever was so. */
static unsigned int marked, above_all;
/* Whose the channels are, and the rest is inherited. */
static pid_t owner;

static const struct ironverbs_ucma *ucma;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static enum kind kind_of(int fd)
{
	if (__atomic_load_n(&marked, __ATOMIC_RELAXED) == 0 || fd < 0 || fd >= PLACES)
		return OTHER;
	return (enum kind)__atomic_load_n(&kinds[fd], __ATOMIC_ACQUIRE);
}

static int mark(int fd, enum kind kind, unsigned int sign)
{
	unsigned int highest = __atomic_load_n(&above_all, __ATOMIC_RELAXED);

	if (fd < 0 || fd >= PLACES)
		return EMFILE;
	while ((unsigned int)fd >= highest &&
	       !__atomic_compare_exchange_n(&above_all, &highest, (unsigned int)fd + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	read_only[fd] = 0;
	__atomic_store_n(&signs[fd], sign, __ATOMIC_RELAXED);
	__atomic_fetch_add(&turns[fd], 1, __ATOMIC_RELEASE);
	if (__atomic_exchange_n(&kinds[fd], (unsigned char)kind, __ATOMIC_ACQ_REL) == OTHER)
		__atomic_fetch_add(&marked, 1, __ATOMIC_RELAXED);
	return 0;
}

static void unmark(int fd)
{
	if (__atomic_exchange_n(&kinds[fd], OTHER, __ATOMIC_ACQ_REL) != OTHER)
		__atomic_fetch_sub(&marked, 1, __ATOMIC_RELAXED);
}

/* Whether a number that is marked as a channel's is still that channel's, and no other file's by now; `errno` says why not. */
static int is_still_channel(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = IRONVERBS_UCMA_MEMBER };

	/* Changes nothing: no other set has this member. */
	return syscall(SYS_epoll_ctl, fd, EPOLL_CTL_MOD, __atomic_load_n(&signs[fd], __ATOMIC_RELAXED), &event) == 0;
}

/* By what a file is known that is no channel. Those of the kernel that have no inode of their own, such as timers, are all alike. */
static unsigned int sign_of(int fd)
{
	struct stat st;
	int before = errno;

	if (syscall(SYS_fstat, fd, &st) != 0)
		st.st_dev = st.st_ino = 0;
	errno = before;
	return (unsigned int)(st.st_ino ^ st.st_ino >> 32 ^ st.st_dev << 20);
}

static int keep(int fd)
{
	return mark(fd, KEPT, sign_of(fd));
}

static void release(int fd)
{
	unsigned int sign = __atomic_load_n(&signs[fd], __ATOMIC_RELAXED);

	unmark(fd);
	/* Whatever the program has in its place is the program's. */
	if (sign_of(fd) == sign)
		syscall(SYS_close, fd);
}

/* Whether this is no child of vfork(), which uses its parent's memory and has descriptors of its own. */
static int is_owner(void)
{
	return owner == (pid_t)syscall(SYS_getpid);
}

/*
 * The process whose memory this is, in a page that a child with a copy of it finds empty: such a child is told apart from one of
 * vfork() also where nobody was told of its birth. NULL where there is no such page.
 */
static pid_t *memory_of;

static void copied(void)
{
	if (memory_of != NULL)
		*memory_of = (pid_t)syscall(SYS_getpid);
}

__attribute__((constructor)) static void begin(void)
{
	int before = errno;
	void *page = mmap(NULL, IRONVERBS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && (madvise(page, IRONVERBS_PAGE, MADV_WIPEONFORK) != 0 || pthread_atfork(NULL, NULL, copied) != 0)) {
		munmap(page, IRONVERBS_PAGE);
		page = MAP_FAILED;
	}
	memory_of = page == MAP_FAILED ? NULL : page;
	copied();
	errno = before;
}

/* Whether this is a child of vfork(), as far as is known. */
static int is_borrower(void)
{
	return memory_of != NULL && *memory_of != 0 && *memory_of != (pid_t)syscall(SYS_getpid);
}

static void forked(void)
{
	unsigned int end = above_all;

	for (unsigned int fd = 0; fd < end; fd++) {
		if (kinds[fd] == CHANNEL)
			kinds[fd] = INHERITED_CHANNEL;
		else if (kinds[fd] == KEPT)
			kinds[fd] = INHERITED_KEPT;
	}
	owner = (pid_t)syscall(SYS_getpid);
	ucma->forked();
}

/*
 * With its last channel a child has no use for the rest that it inherited, and peers are to see when the parent
 * ends.
 */
static void forget_inherited(void)
{
	unsigned int end = __atomic_load_n(&above_all, __ATOMIC_RELAXED);

	for (unsigned int fd = 0; fd < end; fd++)
		if (kinds[fd] == INHERITED_CHANNEL && is_still_channel((int)fd))
			return;
	for (unsigned int fd = 0; fd < end; fd++)
		if (kinds[fd] == INHERITED_KEPT)
			release((int)fd);
}

/* The library beside this one. */
static void load(void)
{
	static const char name[] = "libironverbs_ucma.so";
	static const struct ironverbs_shim shim = { IRONVERBS_UCMA_VERSION, keep, release, ironverbs_service_threads };
	char path[PATH_MAX];
	ironverbs_ucma_function *function = NULL;
	const struct ironverbs_ucma *found;
	Dl_info self;
	void *library;
	char *slash;

	if (!dladdr((void *)load, &self) || self.dli_fname == NULL || strlen(self.dli_fname) + sizeof(name) > sizeof(path))
		return;
	strcpy(path, self.dli_fname);
	slash = strrchr(path, '/');
	/* A name by another folder may mean somebody else's library by now. */
	if (slash == NULL || path[0] != '/')
		return;
	strcpy(slash + 1, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (library != NULL)
		*(void **)&function = dlsym(library, "ironverbs_ucma");
	found = function ? function(&shim) : NULL;
	if (found != NULL && pthread_atfork(NULL, NULL, forked) == 0)
		ucma = found;
}

/* What a thread had set before it went into the library. */
struct outside {
	int cancel;
	sigset_t signals;
};

/*
 * No frame of the library is left but by its end: a thread is cancelled before or after it, and signals wait, since a
 * handler may give a command itself, for which it would wait on the thread that it interrupted, or never return. What
 * the thread itself does wrong waits for nobody.
 */
static struct outside enter(void)
{
	struct outside before = { .cancel = PTHREAD_CANCEL_ENABLE };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel);
	ironverbs_hold_signals(&before.signals);
	return before;
}

void ironverbs_hold_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGTRAP);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

int ironverbs_let_signals_in(const sigset_t *mask)
{
	BEHIND(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *));
	const struct timespec none = { 0, 0 };

	return function && function(NULL, 0, &none, mask) < 0 && errno == EINTR;
}

static void leave(const struct outside *before)
{
	int state;

	pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
	pthread_setcancelstate(before->cancel, &state);
}

int ironverbs_open_channel(int flags)
{
	int before = errno, fd = -ENODEV, full, member = -1;
	struct outside outside;

	/* A device file is there, and it is no folder. */
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) || (flags & O_DIRECTORY)) {
		errno = flags & O_DIRECTORY ? ENOTDIR : EEXIST;
		return -1;
	}
	/* A child that shares its parent's memory, or that nobody told of its birth, would take the parent's channels. */
	if (is_borrower() || (__atomic_load_n(&marked, __ATOMIC_RELAXED) != 0 && !is_owner())) {
		errno = EACCES;
		return -1;
	}
	outside = enter();
	pthread_once(&loaded, load);
	if (ucma != NULL) {
		owner = (pid_t)syscall(SYS_getpid);
		fd = ucma->open(flags, &member);
		full = fd < 0 ? 0 : mark(fd, CHANNEL, (unsigned int)member);
		if (fd >= 0 && !full)
			read_only[fd] = (flags & O_ACCMODE) == O_RDONLY;
		if (full) {
			ucma->closed(fd);
			syscall(SYS_close, fd);
			fd = -full;
		}
	}
	leave(&outside);
	errno = fd < 0 ? -fd : before;
	return fd < 0 ? -1 : fd;
}

/* What had this number is closed: the program did that, or is about to. */
static void forget(int fd, enum kind kind)
{
	struct outside outside = enter();

	unmark(fd);
	if (kind == CHANNEL)
		ucma->closed(fd);
	else if (kind == INHERITED_CHANNEL)
		forget_inherited();
	leave(&outside);
}

int ironverbs_is_channel(int fd)
{
	enum kind kind = kind_of(fd);
	int before = errno, is = 1;
	unsigned int turn;

	if (kind != CHANNEL && kind != INHERITED_CHANNEL)
		return 0;
	turn = __atomic_load_n(&turns[fd], __ATOMIC_ACQUIRE);
	if (!is_still_channel(fd)) {
		is = 0;
		/* It is another file. One that is nobody's may become a channel's at any time. */
		if ((errno == EINVAL || errno == ENOENT) && is_owner() && __atomic_load_n(&turns[fd], __ATOMIC_ACQUIRE) == turn)
			forget(fd, kind);
	}
	errno = before;
	return is;
}

int ironverbs_has_channels(void)
{
	return __atomic_load_n(&marked, __ATOMIC_RELAXED) != 0;
}

int ironverbs_has_event(int fd)
{
	int answer, before = errno;
	struct outside outside;

	/* A child asks for nothing: it could not take the event. */
	if (kind_of(fd) != CHANNEL || !is_owner())
		return 1;
	outside = enter();
	answer = ucma->has_event(fd);
	leave(&outside);
	errno = before;
	return answer;
}

void ironverbs_device_number(unsigned int *major_number, unsigned int *minor_number)
{
	static const char file[] = "/sys/class/misc/rdma_cm/dev";
	char line[32];
	unsigned int numbers[2] = { 0, 0 }, at = 0;
	int before = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : syscall(SYS_read, fd, line, sizeof(line));

	/* Those of /dev/null, which stands for device files in the view. */
	*major_number = 1;
	*minor_number = 3;
	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = before;
	for (ssize_t place = 0; place < length && line[place] != '\n'; place++) {
		if (line[place] == ':' && at == 0)
			at = 1;
		else if (line[place] >= '0' && line[place] <= '9')
			numbers[at] = numbers[at] * 10 + (unsigned int)(line[place] - '0');
		else
			return;
	}
	if (at == 1) {
		*major_number = numbers[0];
		*minor_number = numbers[1];
	}
}

/*
 * What poll() ended with is to end the command: a handler ran that was installed without SA_RESTART. Which one
 * it was nobody says, so one such handler decides for all.
 */
static int interrupts(const sigset_t *blocked)
{
	struct sigaction action;

	for (int signal = 1; signal <= SIGRTMAX; signal++)
		if (sigismember(blocked, signal) == 0 && sigaction(signal, NULL, &action) == 0 &&
		    action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return 1;
	return 0;
}

static uint64_t microseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/*
 * Looks for an event for a moment: peers answer within some tens of microseconds, and to be woken takes as long again.
 * Others get the processor between the looks. Where they keep it, the machine has other work, and the process's next
 * waits sleep at once. So do threads of other policies, which give the processor away for longer, or to nobody.
 */
static void look(struct pollfd *channel)
{
	enum { LOOKS = 100, KEPT = 500, REST = 100 }; /* microseconds, microseconds, waits */
	static unsigned int rest;
	const struct timespec none = { 0, 0 };
	unsigned int left = __atomic_load_n(&rest, __ATOMIC_RELAXED);
	uint64_t begun, before, now;

	if (left != 0) {
		__atomic_store_n(&rest, left - 1, __ATOMIC_RELAXED);
		return;
	}
	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	begun = now = microseconds();
	while (now < begun + LOOKS && syscall(SYS_ppoll, channel, 1, &none, NULL, 0) == 0) {
		before = now;
		sched_yield();
		now = microseconds();
		if (now >= before + KEPT)
			__atomic_store_n(&rest, REST, __ATOMIC_RELAXED);
	}
}

/* Whether the program has another file by this number now, or none, than the channel that had it in its turn. */
static int is_over(int fd, unsigned int turn)
{
	return kind_of(fd) != CHANNEL || __atomic_load_n(&turns[fd], __ATOMIC_ACQUIRE) != turn || !is_still_channel(fd);
}

/*
 * A command, which waits here for an event if it has to: as the kernel's write() a place where a thread may be cancelled.
 *
 * Another thread may close the channel meanwhile. The kernel's file lives on for who waits in it, and no event
 * comes there any more; programs that end so take an error for a failure.
 */
static ssize_t command(int fd, const void *body, size_t length)
{
	BEHIND(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *));
	struct pollfd channel = { .fd = fd, .events = POLLIN };
	unsigned int turn = __atomic_load_n(&turns[fd], __ATOMIC_ACQUIRE);
	int flags = (int)syscall(SYS_fcntl, fd, F_GETFL), closed = 0, looked = 0, waited = 0, now, before = errno, state, failure;
	struct outside outside;
	ssize_t answer;

	pthread_testcancel();
	if (kind_of(fd) == INHERITED_CHANNEL || !is_owner()) {
		errno = EACCES;
		return -1;
	}
	outside = enter();
	for (;;) {
		answer = closed ? -IRONVERBS_UCMA_WAIT : ucma->command(fd, body, length, waited);
		if (answer != -IRONVERBS_UCMA_WAIT)
			break;
		waited = 1;
		closed |= is_over(fd, turn);
		now = closed ? -1 : (int)syscall(SYS_fcntl, fd, F_GETFL);
		flags = now < 0 ? flags : now;
		if (function == NULL || flags & O_NONBLOCK) {
			answer = -EAGAIN;
			ucma->given_up(fd, body, length, EAGAIN);
			break;
		}
		/* Peers who wake the channel on and on have it look no more. */
		if (!looked)
			look(&channel);
		looked = 1;
		/* A signal that came since the command began ends the wait, too. */
		pthread_setcancelstate(outside.cancel, &state);
		failure = function(&channel, closed ? 0 : 1, NULL, &outside.signals) < 0 ? errno : 0;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		/* Peers who wake the channel on and on hold up no signal. */
		if (!failure && ironverbs_let_signals_in(&outside.signals))
			failure = EINTR;
		if (failure && (failure != EINTR || interrupts(&outside.signals))) {
			answer = -failure;
			ucma->given_up(fd, body, length, failure);
			break;
		}
		closed |= is_over(fd, turn);
	}
	leave(&outside);
	errno = answer < 0 ? (int)-answer : before;
	return answer < 0 ? -1 : answer;
}

/* The most bytes that the kernel takes at once; what is beyond it leaves off. */
#define BYTES_MAX ((size_t)(INT_MAX & -IRONVERBS_PAGE))

/* Whether bytes lie where no program has memory: the upper half of all addresses is the kernel's. */
static int is_outside(const void *from, size_t length)
{
	uintptr_t end = (uintptr_t)from + length;

	return (intptr_t)from < 0 || (intptr_t)end < 0 || end < length;
}

EXPORT ssize_t write(int fd, const void *body, size_t length)
{
	BEHIND(ssize_t, write, (int, const void *, size_t));

	if (!ironverbs_is_channel(fd))
		return function ? function(fd, body, length) : syscall(SYS_write, fd, body, length);
	if (read_only[fd] || is_outside(body, length)) {
		errno = read_only[fd] ? EBADF : EFAULT;
		return -1;
	}
	return command(fd, body, length < BYTES_MAX ? length : BYTES_MAX);
}

/* What the kernel says of segments before it takes any of them: their bytes, or -1 and `errno`. */
static ssize_t bytes_of(const struct iovec *segments, int count)
{
	size_t bytes = 0;

	if (count < 0 || count > IOV_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (count > 0 && !ironverbs_is_readable(segments, (size_t)count * sizeof(*segments))) {
		errno = EFAULT;
		return -1;
	}
	for (int at = 0; at < count; at++) {
		if ((ssize_t)segments[at].iov_len < 0) {
			errno = EINVAL;
			return -1;
		}
	}
	for (int at = 0; at < count; at++) {
		size_t left = BYTES_MAX - bytes, length = segments[at].iov_len < left ? segments[at].iov_len : left;

		if (is_outside(segments[at].iov_base, length)) {
			errno = EFAULT;
			return -1;
		}
		bytes += length;
	}
	return (ssize_t)bytes;
}

/*
 * The kernel has one function for this file, which takes a command, and calls it for each segment; one that fails ends
 * the rest. Of empty segments it leaves out those behind another one.
 */
EXPORT ssize_t writev(int fd, const struct iovec *segments, int count)
{
	BEHIND(ssize_t, writev, (int, const struct iovec *, int));
	size_t done = 0, left;
	ssize_t bytes, answer;
	int before = errno;

	if (!ironverbs_is_channel(fd))
		return function ? function(fd, segments, count) : syscall(SYS_writev, fd, segments, count);
	if (read_only[fd]) {
		errno = EBADF;
		return -1;
	}
	bytes = bytes_of(segments, count);
	for (int at = 0; at < count && bytes > 0 && done < (size_t)bytes; at++) {
		left = (size_t)bytes - done;
		left = segments[at].iov_len < left ? segments[at].iov_len : left;
		if (left == 0 && at > 0)
			continue;
		answer = command(fd, segments[at].iov_base, left);
		if (answer < 0 && done == 0)
			return -1;
		if (answer < 0)
			break;
		done += (size_t)answer;
	}
	if (bytes >= 0)
		errno = before;
	return bytes < 0 ? -1 : (ssize_t)done;
}

/* Before a descriptor is closed, or becomes another file's. 0, or the errno value with which that fails. */
static int before_close(int fd)
{
	enum kind kind = kind_of(fd);
	int before = errno;

	/* What a child of vfork() closes stays open in its parent. */
	if (kind == OTHER || !is_owner())
		return 0;
	if (kind == KEPT && sign_of(fd) == __atomic_load_n(&signs[fd], __ATOMIC_RELAXED))
		return EBADF;
	forget(fd, kind);
	errno = before;
	return 0;
}

EXPORT int close(int fd)
{
	BEHIND(int, close, (int));
	int failure = before_close(fd);

	if (failure) {
		errno = failure;
		return -1;
	}
	return function ? function(fd) : (int)syscall(SYS_close, fd);
}

/* The C library closes the file's descriptor by a function of its own. */
EXPORT int fclose(FILE *file)
{
	BEHIND(int, fclose, (FILE *));
	int before = errno;

	if (ironverbs_has_channels() && ironverbs_is_channel(fileno(file)))
		before_close(fileno(file));
	errno = before;
	return function ? function(file) : EOF;
}

/* What the program has in a range of descriptors, and none of the library's own. */
static int close_those(unsigned int first, unsigned int last, int flags)
{
	BEHIND(int, close_range, (unsigned int, unsigned int, int));
	unsigned int end = __atomic_load_n(&above_all, __ATOMIC_RELAXED), fd = first;
	int answer = 0;

	if (function == NULL) {
		errno = ENOSYS;
		return -1;
	}
	/* Only closes at exec, or is a child of vfork(). */
	if (first > last || (flags & ~CLOSE_RANGE_UNSHARE) || __atomic_load_n(&marked, __ATOMIC_RELAXED) == 0 || !is_owner())
		return function(first, last, flags);
	for (; fd <= last && fd < end; fd++) {
		if (before_close((int)fd) == 0)
			continue;
		if (fd > first)
			answer |= function(first, fd - 1, flags);
		first = fd + 1;
	}
	return first <= last ? answer | function(first, last, flags) : answer;
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	return close_those(first, last, flags);
}

EXPORT void closefrom(int first)
{
	BEHIND(void, closefrom, (int));

	if (__atomic_load_n(&marked, __ATOMIC_RELAXED) == 0 || close_those(first < 0 ? 0 : (unsigned int)first, ~0U, 0) != 0)
		if (function)
			function(first);
}

/* `copy` was made of `fd`, or is -1. */
static int after_copy(int fd, int copy)
{
	enum kind kind = kind_of(fd);
	struct outside outside;
	int failure;

	if (copy < 0 || !ironverbs_is_channel(fd) || !is_owner())
		return copy;
	outside = enter();
	failure = mark(copy, kind, __atomic_load_n(&signs[fd], __ATOMIC_RELAXED));
	if (!failure)
		read_only[copy] = read_only[fd];
	if (!failure && kind == CHANNEL)
		failure = -ucma->duplicated(fd, copy);
	if (failure) {
		if (kind_of(copy) != OTHER)
			unmark(copy);
		syscall(SYS_close, copy);
	}
	leave(&outside);
	if (failure)
		errno = failure;
	return failure ? -1 : copy;
}

EXPORT int dup(int fd)
{
	BEHIND(int, dup, (int));

	return after_copy(fd, function ? function(fd) : (int)syscall(SYS_dup, fd));
}

/* Before `copy` becomes a copy of `fd`; 0, or an errno value. What the kernel will refuse changes nothing. */
static int before_copy(int fd, int copy, int flags)
{
	struct rlimit limit;

	if (kind_of(copy) == OTHER || fd == copy || (flags & ~O_CLOEXEC) || (int)syscall(SYS_fcntl, fd, F_GETFD) < 0)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)copy >= limit.rlim_cur)
		return 0;
	/* The number is taken as long as the library needs it. */
	return before_close(copy) ? EBUSY : 0;
}

EXPORT int dup2(int fd, int copy)
{
	BEHIND(int, dup2, (int, int));
	int failure = before_copy(fd, copy, 0);

	if (failure || function == NULL) {
		errno = failure ? failure : ENOSYS;
		return -1;
	}
	return fd == copy ? function(fd, copy) : after_copy(fd, function(fd, copy));
}

EXPORT int dup3(int fd, int copy, int flags)
{
	BEHIND(int, dup3, (int, int, int));
	int failure = before_copy(fd, copy, flags);

	if (failure || function == NULL) {
		errno = failure ? failure : ENOSYS;
		return -1;
	}
	return after_copy(fd, function(fd, copy, flags));
}

/* Whatever the argument is, it is passed as a word. */
#define FCNTL(name)                                                           \
	EXPORT int name(int fd, int what, ...)                                \
	{                                                                     \
		BEHIND(int, name, (int, int, ...));                           \
		va_list rest;                                                 \
		void *argument;                                               \
		int answer;                                                   \
                                                                              \
		va_start(rest, what);                                         \
		argument = va_arg(rest, void *);                              \
		va_end(rest);                                                 \
		answer = function ? function(fd, what, argument) : (int)syscall(SYS_fcntl, fd, what, argument); \
		if (what == F_DUPFD || what == F_DUPFD_CLOEXEC)               \
			return after_copy(fd, answer);                        \
		return answer;                                                \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

/* An epoll descriptor has no type; the device file is a character device. */
#define SHOW(out)                                                             \
	do {                                                                  \
		unsigned int major_number, minor_number;                      \
		ironverbs_device_number(&major_number, &minor_number);        \
		(out)->st_mode = S_IFCHR | 0666;                              \
		(out)->st_rdev = makedev(major_number, minor_number);         \
	} while (0)

#define FSTAT(name, buffer)                                                   \
	EXPORT int name(int fd, struct buffer *out)                           \
	{                                                                     \
		BEHIND(int, name, (int, struct buffer *));                    \
		int answer = function ? function(fd, out) : -1;               \
                                                                              \
		if (answer == 0 && ironverbs_is_channel(fd))                  \
			SHOW(out);                                            \
		return answer;                                                \
	}
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FXSTAT(name, buffer)                                                  \
	EXPORT int name(int version, int fd, struct buffer *out);             \
	EXPORT int name(int version, int fd, struct buffer *out)              \
	{                                                                     \
		BEHIND(int, name, (int, int, struct buffer *));               \
		int answer = function ? function(version, fd, out) : -1;      \
                                                                              \
		if (answer == 0 && ironverbs_is_channel(fd))                  \
			SHOW(out);                                            \
		return answer;                                                \
	}
FXSTAT(__fxstat, stat)
FXSTAT(__fxstat64, stat64)

__attribute__((destructor)) static void end(void)
{
	if (ucma != NULL && owner == (pid_t)syscall(SYS_getpid))
		ucma->ending();
}
