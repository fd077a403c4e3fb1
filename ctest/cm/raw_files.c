/*
 * raw_files.c - the device's file as a file: which commands a vector of segments is, which events are edges for who waits with
 * EPOLLET, what is said of addresses where there is no memory, what a number is whose channel was closed by fclose() or
 * by the system call, and what a channel is that came through a socket.
 */
#include "raw.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void says(const char *what, long long answer)
{
	transcript_calls++;
	if (answer < 0)
		note("    %s: %s", what, errno_name(errno));
	else
		note("    %s: %lld", what, answer);
}

/* A command for a new id, whose number goes to `*id`. */
static struct raw_command *new_id(uint32_t *id)
{
	static struct raw_command commands[8];
	static unsigned int next;
	struct raw_command *c = &commands[next++ % 8];

	raw_fill(c, RDMA_USER_CM_CMD_CREATE_ID, 0);
	c->u.create.response = (uintptr_t)id;
	*id = UINT32_MAX;
	return c;
}

/* How many ids of those have been made. */
static int made(const uint32_t *ids, int count)
{
	int sum = 0;

	for (int at = 0; at < count; at++)
		sum += ids[at] != UINT32_MAX;
	return sum;
}

static void segments(void)
{
	/* The compiler knows what no program should ask for. */
	ssize_t (*volatile all)(int, const struct iovec *, int) = writev;
	const size_t size = 8 + sizeof(struct rdma_ucm_create_id);
	int fd = raw_open(), reads = open(DEVICE, O_RDONLY);
	struct iovec parts[3] = {{0}};
	uint32_t ids[3];

#define PART(at, base, length) (parts[at] = (struct iovec){(base), (length)})
#define TRY(what, on, first, count)                                                                                                \
	(says(what, all(on, (void *)(first), count)), note("        ids made: %d", made(ids, 3)), memset(ids, 0xff, sizeof(ids)))
	note("segments");
	memset(ids, 0xff, sizeof(ids));
	PART(0, new_id(&ids[0]), size), PART(1, new_id(&ids[1]), size), PART(2, new_id(&ids[2]), size);
	TRY("three commands", fd, parts, 3);
	PART(1, NULL, 0);
	TRY("an empty one between", fd, parts, 3);
	PART(1, new_id(&ids[1]), 7);
	TRY("one that is too short between", fd, parts, 3);
	PART(1, (void *)8, size);
	TRY("one at a bad address between", fd, parts, 3);
	TRY("that one alone", fd, parts + 1, 1);
	PART(1, (void *)(1UL << 63), size);
	TRY("one at an address of the kernel between", fd, parts, 3);
	PART(1, (void *)(1UL << 63), 0);
	TRY("... that is empty", fd, parts, 3);
	PART(1, new_id(&ids[1]), ~0UL);
	TRY("one of no length that is one between", fd, parts, 3);
	PART(1, new_id(&ids[1]), 1UL << 40);
	TRY("a long one between", fd, parts, 3);
	PART(0, new_id(&ids[0]), 8), PART(1, &((struct raw_command *)parts[0].iov_base)->u, size - 8);
	TRY("one command in two", fd, parts, 2);
	PART(0, NULL, 0), PART(1, new_id(&ids[1]), size);
	TRY("an empty one first", fd, parts, 2);
	TRY("an empty one", fd, parts, 1);
	TRY("none", fd, parts, 0);
	TRY("fewer than none", fd, parts, -1);
	TRY("more than there can be", fd, parts, 1025);
	TRY("no segments' address", fd, 8, 1);
	TRY("a file for reading", reads, parts, 2);
	close(reads);
	close(fd);
}

static int edge(int set)
{
	struct epoll_event event;

	return epoll_wait(set, &event, 1, 0);
}

/* An event that comes at once. */
static void event_of(int fd, uint64_t uid)
{
	raw_must("RESOLVE_ADDR", raw_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, raw_create(fd, PS_TCP, uid)), 0);
}

static void edges(void)
{
	int fd = raw_open(), set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct pollfd asked = {set, POLLIN, 0};

	note("edges");
	says("EPOLL_CTL_ADD", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	note("    before any event: %d", edge(set));
	for (int nth = 1; nth <= 3; nth++) {
		event_of(fd, nth);
		if (poll(&asked, 1, 100000) != 1)
			die("no event");
		note("    event %d: %d", nth, edge(set));
		note("    again: %d", edge(set));
	}
	for (int nth = 1; nth <= 3; nth++) {
		int kind = raw_event(fd);

		note("    GET_EVENT: %d of %d; %d", kind, (int)((struct rdma_ucm_event_resp *)raw_answer)->uid, edge(set));
	}
	close(set);
	close(fd);
}

static void addresses(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *volatile const bad[] = {(void *)8, pages + 4096, pages + 4092, (void *)(~0UL - 7), (void *)(1UL << 63)};
	static const char *const names[] = {"low", "no page", "half a page", "the last", "none"};
	struct pollfd *last = (struct pollfd *)(pages + 4096) - 1;
	volatile nfds_t too_many = ~0UL;
	struct timespec now = {0};
	int fd = raw_open();
	struct statx stx;
	struct stat st;

	mprotect(pages + 4096, 4096, PROT_NONE);
	for (unsigned int at = 0; at < sizeof(bad) / sizeof(*bad); at++) {
		note("address: %s", names[at]);
		says("poll", poll(bad[at], 1, 0));
		says("ppoll", ppoll(bad[at], 1, &now, NULL));
		says("fstat", fstat(fd, bad[at]));
		says("fstatat", fstatat(fd, "", bad[at], AT_EMPTY_PATH));
		says("statx", statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, bad[at]));
		says("stat", stat(DEVICE, bad[at]));
		says("open", open(bad[at], O_RDONLY));
		says("openat", openat(AT_FDCWD, bad[at], O_RDONLY));
		says("access", access(bad[at], F_OK));
		says("stat of it", stat(bad[at], &st));
		says("readlink", readlink(bad[at], (char *)&stx, sizeof(stx)));
		says("chdir", chdir(bad[at]));
		if (at != 2) { /* there is a path in front of the page */
			says("fstatat of it", fstatat(fd, bad[at], &st, AT_EMPTY_PATH));
			says("statx of it", statx(fd, bad[at], AT_EMPTY_PATH, STATX_TYPE, &stx));
		}
		says("write", write(fd, bad[at], 8));
	}
	note("at the end of a page");
	*last = (struct pollfd){fd, POLLIN, 0};
	says("poll of one", poll(last, 1, 0));
	says("poll of two", poll(last, 2, 0));
	says("poll of too many", poll(last, too_many, 0));
	says("ppoll with a bad mask", ppoll(last, 1, &now, bad[0]));
	mprotect(pages, 4096, PROT_READ);
	says("poll of one that cannot be written", poll(last, 1, 0));
	munmap(pages, 8192);
	close(fd);
}

/* What a number is, and that it can be closed. */
static void file_at(int fd)
{
	struct pollfd asked = {fd, POLLIN, 0};
	struct stat st;

	says("write", write(fd, "0123456789", 10));
	says("fstat", fstat(fd, &st));
	note("        regular %d, %lld bytes", S_ISREG(st.st_mode), (long long)st.st_size);
	says("poll", poll(&asked, 1, 0));
	note("        events %#x", asked.revents);
	says("close", close(fd));
}

static void closed(void)
{
	int fd = raw_open(), same;
	FILE *stream = fdopen(fd, "r+");

	note("fclose");
	raw_create(fd, PS_TCP, 1);
	says("fclose", fclose(stream));
	same = memfd_create("file", MFD_CLOEXEC);
	note("    the next number: %d", same == fd);
	file_at(same);
	note("close by the system call");
	fd = raw_open();
	raw_create(fd, PS_TCP, 1);
	says("close", syscall(SYS_close, fd));
	says("write", write(fd, "0123456789", 10));
	same = memfd_create("file", MFD_CLOEXEC);
	note("    the next number: %d", same == fd);
	file_at(same);
	fd = raw_open();
	syscall(SYS_close, fd);
	same = raw_open();
	note("    the next channel: %d", same == fd);
	says("write", raw_do(same, RDMA_USER_CM_CMD_CREATE_ID, 0));
	close(same);
}

static int passed_through(int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int ends[2], other = -1;

	*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) || sendmsg(ends[0], &message, 0) != 1 || recvmsg(ends[1], &message, 0) != 1)
		die("socket: %s", errno_name(errno));
	memcpy(&other, CMSG_DATA(header), sizeof(other));
	close(ends[0]);
	close(ends[1]);
	return other;
}

static void passed(void)
{
	int fd = raw_open(), other = passed_through(fd);
	pid_t child;

	note("through a socket");
	note("    CREATE_ID: %s", raw_result(raw_do(other, RDMA_USER_CM_CMD_CREATE_ID, 0)));
	event_of(fd, 1);
	note("    readable: %d", readable(other, 100000));
	note("    event %d", raw_event(fd));
	note("    readable: %d", readable(other, 0));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		note("    CREATE_ID of a child: %s", raw_result(raw_do(other, RDMA_USER_CM_CMD_CREATE_ID, 0)));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	close(other);
	close(fd);
}

int main(void)
{
	begin();
	segments();
	edges();
	addresses();
	closed();
	passed();
	return end();
}
