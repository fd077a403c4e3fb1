/*
 * exits.c - a process that ends while the connection manager's thread is somewhere: nothing of it is left in the folder.
 *
 *   exits OWN OTHER    addresses of an interface that is on the network, and of another host
 *
 * Where that thread is, this program decides, whose functions stand before the C library's: in a call that does not end and of
 * which nobody knows what it is for; or within the connection manager's own lock, for longer than the process looks a hundred
 * times whether it is free. What the program's own thread does in such a call is another thing, by whatever name: it could be at
 * work in another process's memory, so names stay for the next process to take away.
 */
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <time.h>

#include "../soft/peer.h"

#include "../asleep.h"

enum where { RESTS, IN_UNKNOWN_CALL, IN_LOCK };

/* More naps of the process that ends than it once had patience for. */
enum { NAPS = 200 };

static const char name[] = "ironverbs-cm";
static enum where wanted;
static int locked;
static pid_t stays;
static int naps;

static int is_managers(void)
{
	char own[16];

	return syscall(SYS_gettid) != getpid() && !prctl(PR_GET_NAME, own) && !strcmp(own, name);
}

static void lock_for_ever(void)
{
	stays = (pid_t)syscall(SYS_gettid);
	flock(locked, LOCK_EX);
}

/* In this one it waits, without its lock. */
int ppoll(struct pollfd *files, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
	struct timespec copy;

	if (wanted == IN_UNKNOWN_CALL && is_managers())
		lock_for_ever();
	if (time)
		copy = *time;
	return (int)syscall(SYS_ppoll, files, count, time ? &copy : NULL, mask, 8);
}

/* By this one it learns why it was woken, with its lock. */
ssize_t read(int file, void *to, size_t length)
{
	if (wanted == IN_LOCK && is_managers()) {
		stays = (pid_t)syscall(SYS_gettid);
		while (__atomic_load_n(&naps, __ATOMIC_RELAXED) < NAPS)
			syscall(SYS_ppoll, NULL, 0, &(struct timespec){.tv_nsec = 1000000}, NULL, 8);
	}
	return syscall(SYS_read, file, to, length);
}

static int nap(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	if (syscall(SYS_gettid) == getpid())
		__atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
	return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	return nap(clock, flags, time, left);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	int failure = nap(CLOCK_MONOTONIC, 0, time, left);

	errno = failure;
	return failure ? -1 : 0;
}

static int is_flock(long call)
{
	return call == SYS_flock;
}

static int is_any(long call)
{
	return call >= 0;
}

static void *as_if_manager(void *none)
{
	prctl(PR_SET_NAME, name);
	lock_for_ever();
	return none;
}

/* Names that processes of the folder have: of devices, and of the connection manager. */
static int names(void)
{
	char pattern[256];
	glob_t found;
	int count;

	snprintf(pattern, sizeof(pattern), "%s/{s0*,cm-*}", getenv("IRONVERBS_SOFT_DIR"));
	if (glob(pattern, GLOB_BRACE, NULL, &found))
		return 0;
	count = (int)found.gl_pathc;
	globfree(&found);
	return count;
}

/* Wakes the manager's thread, by a letter that says nothing. */
static void wake(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char pattern[256];
	glob_t found;
	int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(pattern, sizeof(pattern), "%s/cm-*/m*", getenv("IRONVERBS_SOFT_DIR"));
	if (glob(pattern, 0, NULL, &found) || found.gl_pathc != 1 || strlen(found.gl_pathv[0]) >= sizeof(to.sun_path))
		fail("no mailbox");
	strcpy(to.sun_path, found.gl_pathv[0]);
	globfree(&found);
	if (from < 0 || sendto(from, "", 1, 0, (struct sockaddr *)&to, sizeof(to)) != 1)
		fail("no letter");
}

/* Ends the process, which listens, has an id for another host and its device open. */
__attribute__((noreturn)) static void end_process(char **addresses, enum where where)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(7471)}, other = own;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listens, *connects;
	pthread_t thread;

	inet_pton(AF_INET, addresses[0], &own.sin_addr);
	inet_pton(AF_INET, addresses[1], &other.sin_addr);
	if (!channel || !devices || !devices[0] || !ibv_open_device(devices[0]))
		fail("no device, or no channel");
	if (rdma_create_id(channel, &listens, NULL, RDMA_PS_TCP) || rdma_bind_addr(listens, (struct sockaddr *)&own) ||
	    rdma_listen(listens, 1) || rdma_create_id(channel, &connects, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(connects, NULL, (struct sockaddr *)&other, 2000))
		fail("no ids");
	wanted = where;
	if (where != RESTS)
		wake();
	else if (pthread_create(&thread, NULL, as_if_manager, NULL))
		fail("no thread");
	if (!until_asleep(&stays, where == IN_LOCK ? is_any : is_flock))
		fail("the thread has ended");
	if (names() < 2)
		fail("%d names while the device is open", names());
	exit(0);
}

static void judge(const char *what, char **addresses, enum where where, int left)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		end_process(addresses, where);
	if (waitpid(pid, &status, 0) != pid || status)
		fail("%s: a process ended with status %#x", what, status);
	if (!names() != !left)
		fail("%s: %d names are left", what, names());
}

int main(int count, char *arguments[])
{
	char path[32];
	struct ibv_device **devices;
	struct ibv_context *next;
	int first = memfd_create("exits", MFD_CLOEXEC);

	alarm(HANG_S);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", first);
	if (count != 3 || first < 0 || (locked = open(path, O_RDWR | O_CLOEXEC)) < 0 || flock(first, LOCK_EX))
		fail("setup");
	judge("a call that does not end", arguments + 1, IN_UNKNOWN_CALL, 0);
	judge("the manager's lock", arguments + 1, IN_LOCK, 0);
	judge("a call of the program's own thread", arguments + 1, RESTS, 1);
	devices = ibv_get_device_list(NULL);
	next = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	if (!next || ibv_close_device(next) || names())
		fail("%d names are left by who came next", names());
	printf("nothing is left\n");
	return 0;
}
