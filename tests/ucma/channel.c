/*
 * The descriptors of the connection manager's device: what stat, poll, dup, fork, exec and close make of them,
 * and with which errno commands fail that nobody should write. Run by tests/ucma/run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "ucma.h"

#define LOCALHOST 0x7f000001

static int opened(int flags)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC | flags);
}

static int readable(int fd, int timeout)
{
	struct pollfd asked = { fd, POLLIN, 0 };

	return poll(&asked, 1, timeout) == 1 && asked.revents == POLLIN;
}

static void files(void)
{
	struct stat st;
	struct statx stx;
	int fd = opened(0), other;

	CHECK(fd >= 0);
	CHECK(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev != 0);
	CHECK(fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISCHR(st.st_mode));
	CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx) == 0 && S_ISCHR(stx.stx_mode));
	CHECK(stat(DEVICE, &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(access(DEVICE, R_OK | W_OK) == 0);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	FAILS(read(fd, &st, sizeof(st)), EINVAL);
	CHECK((other = openat(AT_FDCWD, "/dev//infiniband/../infiniband/rdma_cm", O_RDWR)) >= 0);
	CHECK(fstat(other, &st) == 0 && S_ISCHR(st.st_mode) && fcntl(other, F_GETFD) == 0);
	CHECK(close(other) == 0 && close(fd) == 0);
	FAILS(close(fd), EBADF);
	FAILS(open(DEVICE, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
	FAILS(open(DEVICE, O_RDWR | O_DIRECTORY), ENOTDIR);
	CHECK((fd = open(DEVICE, O_RDONLY)) >= 0 && (other = dup(fd)) >= 0);
	FAILS(create_id(fd, 1), EBADF);
	FAILS(create_id(other, 1), EBADF);
	CHECK(close(other) == 0 && close(fd) == 0);
	CHECK((other = opened(O_NONBLOCK)) == fd && create_id(other, 1) >= 0 && (fcntl(other, F_GETFL) & O_NONBLOCK));
	close(other);
}

/* A stream of the device file is one of a channel; what goes through its buffer is no command, and the program hears of it. */
static void streams(void)
{
	FILE *stream = fopen(DEVICE, "r+e");
	struct command made = command(0, 24, 4);
	struct stat st;

	CHECK(stream && fstat(fileno(stream), &st) == 0 && S_ISCHR(st.st_mode) && fcntl(fileno(stream), F_GETFD) == FD_CLOEXEC);
	CHECK(stream && create_id(fileno(stream), 1) == 0);
	errno = 0;
	CHECK(stream && setvbuf(stream, NULL, _IONBF, 0) == 0 && fwrite(&made, 32, 1, stream) == 0 && errno == EINVAL);
	CHECK(stream && fclose(stream) == 0);
	CHECK((stream = fopen(DEVICE, "r")) != NULL);
	FAILS(create_id(fileno(stream), 1), EBADF);
	CHECK(fclose(stream) == 0);
	errno = 0;
	CHECK(fopen(DEVICE, "wx") == NULL && errno == EEXIST);
	errno = 0;
	CHECK(fopen(DEVICE, "none") == NULL && errno == EINVAL);
}

/* The kernel leaves off what is too long, and takes nothing from where no program has memory. */
static void lengths(void)
{
	static struct command made;
	static uint32_t id;
	static const size_t outside[] = { ~0UL, 1UL << 63 };
	/* The compiler knows what no program should ask for. */
	ssize_t (*volatile give_all)(int, const void *, size_t) = write;
	int fd = opened(O_NONBLOCK);

	made = command(0, 24, 4);
	PUT(&made, 8, uint64_t, (uintptr_t)&id);
	PUT(&made, 16, uint16_t, 0x0106);
	PUT(&made, 18, uint8_t, 2);
	for (size_t at = 0; at < sizeof(outside) / sizeof(outside[0]); at++)
		FAILS(give_all(fd, &made, outside[at]), EFAULT);
	FAILS(give_all(fd, (void *)~7UL, 4), EFAULT);
	FAILS(give_all(fd, (void *)(1UL << 63), 0), EFAULT);
	/* None of them was a command. */
	CHECK(give_all(fd, &made, 0x7ffff000) == 0x7ffff000 && id == 0);
	CHECK(give_all(fd, &made, 0x7ffff001) == 0x7ffff000 && id == 1);
	CHECK(give_all(fd, &made, 1UL << 40) == 0x7ffff000 && id == 2);
	close(fd);
}

/* Where there is no memory, the kernel says so, whatever is asked of a channel. */
static void addresses(void)
{
	extern int __poll_chk(struct pollfd *, nfds_t, int, size_t);
	extern int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
	int (*fxstatat)(int, int, const char *, struct stat *, int);
	struct timespec none = { 0, 0 };
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *const bad[] = { (void *)8, pages + 4096, pages + 4092, (void *)(~0UL - 7), (void *)(1UL << 63) };
	struct pollfd *last = (struct pollfd *)(pages + 4096) - 1;
	volatile nfds_t too_many = ~0UL;
	int fd = opened(0);
	struct stat st;
	struct statx stx;

	CHECK(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
	*(void **)&fxstatat = dlsym(RTLD_DEFAULT, "__fxstatat");
	CHECK(fxstatat && fxstatat(1, fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISCHR(st.st_mode) && st.st_rdev != 0);
	for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++) {
		FAILS(poll(bad[at], 1, 0), EFAULT);
		FAILS(ppoll(bad[at], 1, &none, NULL), EFAULT);
		FAILS(__poll_chk(bad[at], 1, 0, 8), EFAULT);
		FAILS(__ppoll_chk(bad[at], 1, &none, NULL, 8), EFAULT);
		FAILS(fstat(fd, bad[at]), EFAULT);
		FAILS(fstatat(fd, "", bad[at], AT_EMPTY_PATH), EFAULT);
		FAILS(statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, bad[at]), EFAULT);
		FAILS(fxstatat(1, fd, "", bad[at], AT_EMPTY_PATH), EFAULT);
		/* Here there is a path, without more. */
		if (bad[at] == pages + 4092)
			continue;
		FAILS(fstatat(fd, bad[at], &st, AT_EMPTY_PATH), EFAULT);
		FAILS(statx(fd, bad[at], AT_EMPTY_PATH, STATX_TYPE, &stx), EFAULT);
		FAILS(fxstatat(1, fd, bad[at], &st, AT_EMPTY_PATH), EFAULT);
	}
	/* The channel is there, and what follows is not; what is there is enough. */
	*last = (struct pollfd){ fd, POLLIN, 0 };
	FAILS(poll(last, 2, 0), EFAULT);
	CHECK(poll(last, 1, 0) == 0);
	FAILS(ppoll(last, 1, &none, bad[0]), EFAULT);
	FAILS(poll(last, too_many, 0), EINVAL);
	*pages = '\0';
	CHECK(fstatat(fd, pages, &st, AT_EMPTY_PATH) == 0 && S_ISCHR(st.st_mode));
	CHECK(mprotect(pages, 4096, PROT_READ) == 0);
	FAILS(poll(last, 1, 0), EFAULT);
	munmap(pages, 8192);
	close(fd);
}

/* In the order in which Linux checks. */
static void refused(void)
{
	int fd = opened(O_NONBLOCK), other = opened(0), null = open("/dev/null", O_RDWR);
	struct command made = command(0, 24, 4);
	struct event event;
	int64_t id;
	char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(gone + 4096, 4096);
	FAILS(write(fd, &made, 7), EINVAL);
	FAILS(write(fd, gone + 4096, 8), EFAULT);
	made.number = 25;
	FAILS(give(fd, &made), EINVAL);
	made.number = 0xffffffff;
	FAILS(give(fd, &made), EINVAL);
	made.number = 0;
	FAILS(write(fd, &made, 31), EINVAL);
	made.number = 13;
	FAILS(give(fd, &made), ENOSYS);
	made = command(0, 24, 3);
	FAILS(give(fd, &made), ENOSPC);
	made.out = 4;
	FAILS(give(fd, &made), EINVAL); /* the port space */
	PUT(&made, 16, uint16_t, 0x0106);
	FAILS(give(fd, &made), EFAULT); /* nowhere to store the answer */
	memcpy(gone + 4096 - 16, &made, 16);
	FAILS(write(fd, gone + 4096 - 16, 32), EFAULT);
	for (uint32_t number = 1; number < 25; number++) {
		static const int bodies[25] = { 24, 16, 40, 64, 8, 16, 288, 8, 296, 264, 4, 16, 8, 0, 24, 8, 48, 16, 16, 16, 136, 272, 152, 88, 320 };

		if (number == 12 || number == 13)
			continue;
		made = command(number, (uint16_t)bodies[number], 65535);
		memset(made.body, 0xff, sizeof(made.body));
		errno = 0;
		CHECK(give(fd, &made) == -1 && (errno == EINVAL || errno == ENOENT || errno == EFAULT || errno == ENOSYS));
	}
	CHECK((id = create_id(fd, 7)) >= 0);
	FAILS(simple(other, 10, (uint32_t)id, 1, 0), EINVAL); /* another file's */
	FAILS(simple(fd, 10, 12345, 1, 0), ENOENT);
	FAILS(simple(fd, 6, (uint32_t)id, 2, 0), EINVAL);
	FAILS(bind_id(fd, (uint32_t)id, 0xcb007101, 0), EADDRNOTAVAIL); /* 203.0.113.1 */
	FAILS(get_event(fd, &event), EAGAIN);
	FAILS(get_event(fd, NULL), EAGAIN);
	made = command(12, 8, 323);
	FAILS(give(fd, &made), ENOSPC);
	made = command(18, 16, 4);
	PUT(&made, 8, uint32_t, (uint32_t)id);
	PUT(&made, 12, uint32_t, (uint32_t)null);
	FAILS(give(fd, &made), EINVAL);
	PUT(&made, 12, uint32_t, 987654);
	FAILS(give(fd, &made), ENOENT);
	close(null);
	close(other);
	close(fd);
	munmap(gone, 4096);
}

/* Each segment of a writev() is a command. */
static void segments(void)
{
	int fd = opened(O_NONBLOCK), only = open(DEVICE, O_RDONLY);
	struct command made[2], event_command = command(12, 8, sizeof(struct event));
	struct event event;
	uint32_t ids[2] = { 99, 99 };
	struct iovec parts[5];
	/* The compiler knows what no program should ask for. */
	ssize_t (*volatile give_all)(int, const struct iovec *, int) = writev;

	for (int at = 0; at < 2; at++) {
		made[at] = command(0, 24, 4);
		PUT(&made[at], 0, uint64_t, 5 + at);
		PUT(&made[at], 8, uint64_t, (uintptr_t)&ids[at]);
		PUT(&made[at], 16, uint16_t, 0x0106);
		PUT(&made[at], 18, uint8_t, 2);
	}
	PUT(&event_command, 0, uint64_t, (uintptr_t)&event);
	parts[0] = (struct iovec){ &made[0], 32 };
	parts[1] = (struct iovec){ NULL, 0 };
	parts[2] = (struct iovec){ &made[1], 32 };
	CHECK(give_all(fd, parts, 3) == 64 && ids[0] == 0 && ids[1] == 1);
	/* What came before the one that fails is done. */
	parts[1] = (struct iovec){ &event_command, 16 };
	CHECK(give_all(fd, parts, 3) == 32 && ids[0] == 2 && ids[1] == 1);
	FAILS(give_all(fd, parts + 1, 2), EAGAIN);
	/* A command lies in one segment. */
	parts[0] = (struct iovec){ &made[0], 8 };
	parts[1] = (struct iovec){ made[0].body, 24 };
	FAILS(give_all(fd, parts, 2), EINVAL);
	parts[0] = (struct iovec){ NULL, 0 };
	parts[1] = (struct iovec){ &made[0], 32 };
	FAILS(give_all(fd, parts, 2), EINVAL);
	CHECK(give_all(fd, parts, 1) == 0 && give_all(fd, parts, 0) == 0);
	CHECK(create_id(fd, 9) == 3);
	/* What the kernel refuses before it looks into any. */
	FAILS(give_all(fd, parts, -1), EINVAL);
	FAILS(give_all(fd, parts, 1025), EINVAL);
	FAILS(give_all(fd, (void *)8, 1), EFAULT);
	parts[0] = (struct iovec){ &made[0], 32 };
	parts[1] = (struct iovec){ &made[1], ~0UL };
	FAILS(give_all(fd, parts, 2), EINVAL);
	parts[1] = (struct iovec){ (void *)~0UL, 0 };
	FAILS(give_all(fd, parts, 2), EFAULT);
	CHECK(create_id(fd, 9) == 4);
	/* And what is found when its turn comes. */
	parts[1] = (struct iovec){ (void *)8, 32 };
	CHECK(give_all(fd, parts, 2) == 32 && ids[0] == 5);
	FAILS(give_all(fd, parts + 1, 1), EFAULT);
	/* The kernel leaves off what is too long; a command is as long as it says itself. */
	parts[0] = (struct iovec){ &made[0], 1UL << 40 };
	CHECK(give_all(fd, parts, 1) == 0x7ffff000 && ids[0] == 6);
	FAILS(give_all(only, parts, 1), EBADF);
	close(only);
	close(fd);
	CHECK((fd = memfd_create("file", 0)) >= 0);
	parts[0] = parts[1] = (struct iovec){ &made[0], 8 };
	CHECK(give_all(fd, parts, 2) == 16 && close(fd) == 0);
}

/* A channel that goes through a socket is a file for what waits on it, and takes no commands. */
static void passed_on(void)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int fd = opened(O_NONBLOCK), ends[2], other = -1;
	int64_t id = create_id(fd, 1);
	struct event event;

	*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && sendmsg(ends[0], &message, 0) == 1);
	CHECK(recvmsg(ends[1], &message, 0) == 1 && message.msg_controllen >= CMSG_LEN(sizeof(int)));
	memcpy(&other, CMSG_DATA(header), sizeof(other));
	FAILS(create_id(other, 1), EINVAL);
	CHECK(resolve(fd, (uint32_t)id, LOCALHOST, 7471) == 280 && readable(other, 0) && get_event(fd, &event) == 16);
	CHECK(!readable(other, 0) && close(other) == 0 && create_id(fd, 2) == 1);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

/* A join whose number nobody learns is none, and no event comes of it. */
static void unanswered(void)
{
	int fd = opened(O_NONBLOCK);
	struct command made = command(0, 24, 4);
	struct event event;
	uint32_t id = 0;

	PUT(&made, 0, uint64_t, 7);
	PUT(&made, 8, uint64_t, (uintptr_t)&id);
	PUT(&made, 16, uint16_t, 0x0111);
	CHECK(give(fd, &made) == 32 && resolve(fd, id, LOCALHOST, 7471) == 280 && get_event(fd, &event) == 16);
	made = command(16, 48, 4);
	PUT(&made, 8, uint64_t, 5);
	PUT(&made, 16, uint16_t, AF_INET);
	PUT(&made, 20, uint32_t, htonl(0xef010203)); /* 239.1.2.3 */
	PUT(&made, 44, uint32_t, id);
	FAILS(give(fd, &made), EFAULT);
	CHECK(!readable(fd, 20));
	PUT(&made, 0, uint64_t, (uintptr_t)&id);
	CHECK(give(fd, &made) == 56 && readable(fd, LONG_MS) && get_event(fd, &event) == 16 && event.kind == 12);
	close(fd);
}

static void events(void)
{
	int fd = opened(O_NONBLOCK), set = epoll_create1(0);
	struct epoll_event member = { .events = EPOLLIN | EPOLLET, .data.u32 = 5 };
	struct event event;
	int64_t id = create_id(fd, 42);
	fd_set reads;

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &member) == 0);
	CHECK(!readable(fd, 0) && epoll_wait(set, &member, 1, 0) == 0);
	CHECK(resolve(fd, (uint32_t)id, LOCALHOST, 7471) == 280);
	CHECK(readable(fd, 0) && epoll_wait(set, &member, 1, 0) == 1 && epoll_wait(set, &member, 1, 0) == 0);
	FD_ZERO(&reads);
	FD_SET(fd, &reads);
	CHECK(select(fd + 1, &reads, NULL, NULL, NULL) == 1);
	FAILS(get_event(fd, NULL), EFAULT);
	CHECK(readable(fd, 0)); /* it is not lost */
	CHECK(get_event(fd, &event) == 16 && event.uid == 42 && event.id == (uint32_t)id && event.kind == 0 && event.status == 0);
	CHECK(!readable(fd, 20));
	close(set);
	close(fd);
}

/* Each event is an edge for who waits for edges, whether others are unread or not; nothing else is one. */
static void edges(void)
{
	int fd = opened(O_NONBLOCK), other = opened(O_NONBLOCK), set = epoll_create1(0);
	struct epoll_event member = { .events = EPOLLIN | EPOLLET };
	struct command migrate = command(18, 16, 4);
	struct event event;
	uint32_t reported;
	int64_t id, moved = create_id(other, 9);

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &member) == 0 && epoll_wait(set, &member, 1, 0) == 0);
	for (uint64_t uid = 1; uid <= 4; uid++) {
		CHECK((id = create_id(fd, uid)) >= 0 && resolve(fd, (uint32_t)id, LOCALHOST, 7471) == 280);
		CHECK(epoll_wait(set, &member, 1, 0) == 1 && epoll_wait(set, &member, 1, 0) == 0);
	}
	CHECK(get_event(fd, &event) == 16 && event.uid == 1 && epoll_wait(set, &member, 1, 0) == 0);
	/* With the id its event comes to the channel. */
	CHECK(resolve(other, (uint32_t)moved, LOCALHOST, 7471) == 280);
	PUT(&migrate, 0, uint64_t, (uintptr_t)&reported);
	PUT(&migrate, 8, uint32_t, (uint32_t)moved);
	PUT(&migrate, 12, uint32_t, (uint32_t)other);
	CHECK(give(fd, &migrate) == 24 && epoll_wait(set, &member, 1, 0) == 1 && epoll_wait(set, &member, 1, 0) == 0);
	for (uint64_t uid = 2; uid <= 4; uid++)
		CHECK(get_event(fd, &event) == 16 && event.uid == uid);
	CHECK(get_event(fd, &event) == 16 && event.uid == 9 && !readable(fd, 0) && epoll_wait(set, &member, 1, 0) == 0);
	close(set);
	close(other);
	close(fd);
}

/* A peer that connects and goes on to say nothing makes no event: poll() sleeps on, whichever function it is. */
static void quiet(const char *folder)
{
	extern int __poll_chk(struct pollfd *, nfds_t, int, size_t);
	int fd = opened(0), peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct pollfd asked = { fd, POLLIN, 0 };
	struct timespec moment = { 0, 20000000 };
	int64_t id = create_id(fd, 1);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	CHECK(bind_id(fd, (uint32_t)id, 0, 0) == 144 && simple(fd, 7, (uint32_t)id, 2, 10) == 16);
	find_listener(folder, &address);
	CHECK(connect(peer, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(poll(&asked, 1, 20) == 0 && asked.revents == 0);
	CHECK(ppoll(&asked, 1, &moment, NULL) == 0 && __poll_chk(&asked, 1, 20, sizeof(asked)) == 0);
	close(peer);
	CHECK(poll(&asked, 1, 20) == 0 && asked.revents == 0);
	close(fd);
}

static void copies(void)
{
	int fd = opened(O_NONBLOCK), copy = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 500), null;
	struct stat st;
	int64_t id = create_id(copy, 1);

	CHECK(copy > fd && high >= 500 && fstat(high, &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(dup2(fd, high) == high && dup3(fd, 700, O_CLOEXEC) == 700 && dup2(fd, fd) == fd);
	FAILS(dup3(fd, fd, 0), EINVAL);
	FAILS(dup2(-1, fd), EBADF);
	close(fd);
	CHECK(resolve(high, (uint32_t)id, LOCALHOST, 7471) == 280 && readable(700, 0));
	/* Another file takes the number: it is that file then. */
	null = open("/dev/null", O_WRONLY);
	CHECK(dup2(null, copy) == copy && write(copy, "0123456789", 10) == 10);
	CHECK(fcntl(high, F_SETFL, 0) == 0 && !(fcntl(700, F_GETFL) & O_NONBLOCK));
	CHECK(close_range(500, 600, 0) == 0);
	FAILS(fstat(high, &st), EBADF);
	CHECK(readable(700, 0));
	closefrom(3);
	FAILS(fstat(700, &st), EBADF);
	/* Nothing of it is left over: not even descriptors that nobody sees. */
	CHECK((fd = opened(0)) == 3 && (id = create_id(fd, 1)) >= 0);
	CHECK(bind_id(fd, (uint32_t)id, 0, 0) == 144 && simple(fd, 7, (uint32_t)id, 2, 0) == 16);
	/* Those are not the program's to close while they are needed. */
	for (int number = 4; number < 100; number++)
		CHECK(close(number) == -1 || fcntl(number, F_GETFD) == -1);
	CHECK((id = create_id(fd, 1)) >= 0 && bind_id(fd, (uint32_t)id, 0, 0) == 144);
	closefrom(3);
	for (int number = 3; number < 4096; number++)
		CHECK(fcntl(number, F_GETFD) == -1);
}

/* A copy that the kernel refuses to make leaves the number what it is. */
static void refused_copies(void)
{
	int fd = opened(O_NONBLOCK), high = fcntl(fd, F_DUPFD_CLOEXEC, 700), null = open("/dev/null", O_WRONLY);
	struct rlimit limit, low;

	FAILS(dup3(null, fd, O_NONBLOCK), EINVAL);
	CHECK(create_id(fd, 1) == 0);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	low = (struct rlimit){ 600, limit.rlim_max };
	CHECK(high >= 700 && setrlimit(RLIMIT_NOFILE, &low) == 0);
	FAILS(dup2(null, high), EBADF);
	FAILS(dup3(null, high, O_CLOEXEC), EBADF);
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && create_id(high, 1) == 1);
	close(null);
	close(high);
	close(fd);
}

/* As a program closes that calls the kernel itself. */
static int bare_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

/* Whether a number is that of a file in memory, for every function that a channel answers otherwise; it is closed then. */
static int is_file(int fd, int made)
{
	struct pollfd asked = { fd, POLLIN, 0 };
	struct stat st;
	int copy;

	if (made != fd || write(fd, "0123456789", 10) != 10 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != 10)
		return 0;
	if (poll(&asked, 1, 0) != 1 || asked.revents != POLLIN || (copy = dup(fd)) < 0)
		return 0;
	return write(copy, "0123456789", 10) == 10 && close(copy) == 0 && close(fd) == 0 && fcntl(fd, F_GETFD) == -1;
}

static int memory(void)
{
	return memfd_create("file", MFD_CLOEXEC);
}

/* A number of the library's own that is a socket's, or -1. */
static int kept_socket(void)
{
	struct stat st;

	for (int number = 3; number < 4096; number++)
		if (fstat(number, &st) == 0 && S_ISSOCK(st.st_mode))
			return number;
	return -1;
}

/* Descriptors that are closed past the shim: what has their number next is what it is, and their channel is closed. */
static void past(void)
{
	int fd = opened(O_NONBLOCK), copy, set = -1, kept, null = open("/dev/null", O_WRONLY);
	struct command migrate = command(18, 16, 4);
	struct epoll_event member;
	struct event event;
	FILE *stream = fdopen(fd, "r+");
	uint32_t reported;
	int64_t id = create_id(fd, 1);

	/* It ends at once, with all that is not the program's. */
	CHECK(id == 0 && bind_id(fd, 0, 0, 0) == 144 && simple(fd, 7, 0, 2, 0) == 16 && kept_socket() >= 0);
	CHECK(fclose(stream) == 0 && kept_socket() == -1 && is_file(fd, memory()));
	/* Nobody is told of this one. */
	CHECK(opened(O_NONBLOCK) == fd && create_id(fd, 1) == 0 && bare_close(fd) == 0);
	FAILS(write(fd, "0123456789", 10), EBADF);
	CHECK(is_file(fd, memory()));
	CHECK(opened(O_NONBLOCK) == fd && create_id(fd, 1) == 0 && bare_close(fd) == 0 && dup(null) == fd);
	CHECK(write(fd, "0123456789", 10) == 10 && close(fd) == 0);
	/* The next channel by its number has none of its ids. */
	CHECK(opened(O_NONBLOCK) == fd && create_id(fd, 1) == 0 && bare_close(fd) == 0 && opened(O_NONBLOCK) == fd);
	CHECK(create_id(fd, 1) == 0);
	/* A copy goes on, whatever set of the program's has the number of the first. */
	CHECK((copy = dup(fd)) > fd && bare_close(fd) == 0 && (set = epoll_create1(0)) == fd);
	CHECK(bind_id(copy, 0, 0, 0) == 144 && simple(copy, 7, 0, 2, 0) == 16 && create_id(copy, 2) == 1);
	CHECK(resolve(copy, 1, LOCALHOST, 7471) == 280);
	CHECK(get_event(copy, &event) == 16 && event.uid == 2 && epoll_wait(set, &member, 1, 0) == 0);
	/* No channel that another one could take ids from. */
	PUT(&migrate, 0, uint64_t, (uintptr_t)&reported);
	PUT(&migrate, 12, uint32_t, (uint32_t)set);
	FAILS(give(copy, &migrate), EINVAL);
	/* What the program puts in the place of the library's own stays. */
	kept = kept_socket();
	FAILS(close(kept), EBADF);
	CHECK(bare_close(kept) == 0 && fcntl(null, F_DUPFD, kept) == kept && close(copy) == 0);
	CHECK(write(kept, "0123456789", 10) == 10 && close(kept) == 0 && kept_socket() == -1);
	close(set);
	close(null);
}

static int status_of(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void children(void)
{
	int fd = opened(O_NONBLOCK), number;
	struct event event;
	int64_t id = create_id(fd, 9);
	pid_t child;
	char text[16];

	child = fork();
	if (child == 0) {
		int own;

		errno = 0;
		if (create_id(fd, 1) != -1 || errno != EACCES)
			_exit(1);
		own = opened(O_NONBLOCK);
		if (own < 0 || create_id(own, 1) != 0)
			_exit(2);
		if (close(fd) != 0 || close(fd) != -1 || create_id(own, 1) != 1)
			_exit(3);
		_exit(0);
	}
	CHECK(status_of(child) == 0);
	child = fork();
	if (child == 0)
		_exit(bare_close(fd) != 0 || !is_file(fd, memory()));
	CHECK(status_of(child) == 0);
	child = vfork();
	if (child == 0) {
		close(fd);
		close_range(3, ~0U, 0);
		_exit(0);
	}
	CHECK(status_of(child) == 0);
	CHECK(resolve(fd, (uint32_t)id, LOCALHOST, 7471) == 280 && readable(fd, 0) && get_event(fd, &event) == 16);
	snprintf(text, sizeof(text), "%d", fd);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "channel", "closed", text, NULL);
		_exit(9);
	}
	CHECK(status_of(child) == 0);
	/* A thread is in the middle of something. */
	for (number = 0; number < 50; number++) {
		child = fork();
		if (child == 0)
			_exit(close(fd) != 0 || opened(0) < 0);
		CHECK(status_of(child) == 0);
	}
	close(fd);
}

/* A child of vfork(), whose channel would be in its parent's memory. */
static int is_refused_to_borrower(void)
{
	pid_t child = vfork();

	if (child == 0)
		_exit(open(DEVICE, O_RDWR | O_CLOEXEC) >= 0 || errno != EACCES);
	return status_of(child) == 0;
}

static int takes_commands(void)
{
	int fd = opened(O_NONBLOCK), good = fd >= 0 && create_id(fd, 1) == 0;

	close(fd);
	return good;
}

/* Before the process has had a channel. */
static void first_children(void)
{
	pid_t child;

	CHECK(is_refused_to_borrower());
	child = fork();
	if (child == 0)
		_exit(!is_refused_to_borrower() || !takes_commands());
	CHECK(status_of(child) == 0);
	/* Memory of its own, and nobody in the process was told. */
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(!takes_commands());
	CHECK(status_of(child) == 0);
	CHECK(takes_commands());
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(SIGUSR1, &action, NULL);
}

/* A thread that waits for an event; 0 before it runs. */
static volatile pid_t waiter;
static volatile int came_back;

static void *waits(void *fd)
{
	struct event event;
	ssize_t answer;

	waiter = gettid();
	answer = get_event(*(int *)fd, &event);
	came_back = 1;
	return (void *)(intptr_t)(answer == 16 && event.kind == 0 ? 0 : answer < 0 ? errno : -1);
}

/* When this returns, it sleeps in the call. */
static pthread_t begin_to_wait(int *fd)
{
	pthread_t thread;

	waiter = came_back = 0;
	pthread_create(&thread, NULL, waits, fd);
	until_asleep(&waiter, is_poll);
	return thread;
}

static void waiting(void)
{
	int fd = opened(0);
	pthread_t thread;
	void *answer;

	create_id(fd, 3);
	handle(0);
	thread = begin_to_wait(&fd);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, &answer);
	CHECK((intptr_t)answer == EINTR && handled == 1);
	handle(SA_RESTART);
	thread = begin_to_wait(&fd);
	pthread_kill(thread, SIGUSR1);
	/* It goes on to wait, and the event still comes. */
	until_asleep(&waiter, is_poll);
	CHECK(handled == 2 && !came_back);
	resolve(fd, 0, LOCALHOST, 7471);
	pthread_join(thread, &answer);
	CHECK((intptr_t)answer == 0);
	signal(SIGUSR1, SIG_DFL);
	thread = begin_to_wait(&fd);
	pthread_cancel(thread);
	pthread_join(thread, &answer);
	CHECK(answer == PTHREAD_CANCELED);
	/* The channel works on. */
	CHECK(create_id(fd, 4) == 1);
	close(fd);
}

/* The number of the channel that a thread waits in is another file's, for which it does not wait. */
static void waiting_past(void)
{
	int fd = opened(0), ends[2];
	pthread_t thread;

	create_id(fd, 3);
	handle(SA_RESTART);
	thread = begin_to_wait(&fd);
	CHECK(pipe(ends) == 0 && write(ends[1], "", 1) == 1 && syscall(SYS_dup2, ends[0], fd) == fd);
	handled = 0;
	pthread_kill(thread, SIGUSR1);
	while (!handled)
		usleep(1000);
	until_asleep(&waiter, is_poll);
	CHECK(!came_back);
	signal(SIGUSR1, SIG_DFL);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

/*
 * Another thread closes the channel that one waits in, when something has just woken it that is no event. As in the
 * kernel, whose file lives on for who waits there, no error comes of it.
 */
static void closing(const char *folder)
{
	int returned = 0;

	for (int round = 0; round < 50; round++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		int fd = opened(0), peer = socket(AF_UNIX, SOCK_SEQPACKET, 0), next;
		int64_t id = create_id(fd, 3);
		pthread_t thread;

		bind_id(fd, (uint32_t)id, 0, 0);
		simple(fd, 7, (uint32_t)id, 2, 10);
		find_listener(folder, &address);
		thread = begin_to_wait(&fd);
		if (connect(peer, (struct sockaddr *)&address, sizeof(address)) != 0)
			returned++;
		close(fd);
		/* Nor is it woken by what the number stands for next. */
		next = opened(0);
		create_id(next, 4);
		resolve(next, 0, LOCALHOST, 7471);
		until_asleep(&waiter, is_poll);
		returned += came_back;
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		close(peer);
		close(next);
	}
	CHECK(returned == 0);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "closed") == 0)
		return fcntl(atoi(argv[2]), F_GETFD) != -1;
	if (argc != 2)
		return 2;
	first_children();
	files();
	streams();
	lengths();
	addresses();
	refused();
	segments();
	passed_on();
	unanswered();
	events();
	edges();
	quiet(argv[1]);
	waiting();
	closing(argv[1]);
	children();
	past();
	refused_copies();
	copies();
	waiting_past();
	return end();
}
