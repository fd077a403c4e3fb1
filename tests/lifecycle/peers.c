/*
 * peers.c CASE - the subject becomes another program, loses its first thread, is stopped, or lives in another world.
 */
#include "sides.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define GROUP 54321

/* --- exec: the old peers reach nothing of the new program. */

static char self[512];

static void *becomes_another(void *unused)
{
	char address[32];

	until_loaded();
	usleep(rnd(20000));
	snprintf(address, sizeof(address), "%p", (void *)s.memory);
	shared->gone_at = now_ms();
	execl(self, self, "--after-exec", address, (char *)NULL);
	fail("exec: %s", errno_name(errno));
	return unused;
}

/* The new program has other memory where the regions were. */
static int after_exec(const char *address)
{
	size_t length = PAIRS * PER_PAIR;
	void *wanted = (void *)strtoull(address, NULL, 0);
	unsigned char *memory = mmap(wanted, length, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);
	uint64_t until = now_ms() + 500;

	if (memory == MAP_FAILED)
		return 0; /* the kernel has put the new program there: this round shows nothing */
	while (now_ms() < until)
		usleep(1000);
	for (size_t i = 0; i < length; i++)
		if (memory[i])
			fail("byte %zu of the new program's memory was written by a peer of the old one", i);
	return 0;
}

static void exec_case(void)
{
	beside_load = becomes_another;
	for (int i = 0; i < 6; i++) {
		start_sides(side_with_thread, plain_side, i % 2);
		side_ended(0, 0);
		side_ended(1, 0);
	}
}

/* --- The first thread ends, the process lives. */

static int first_threads_socket;

static void *goes_on(void *unused)
{
	plain_side(first_threads_socket, false);
	_exit(0);
	return unused;
}

static void first_thread_ends(int socket, bool asleep)
{
	pthread_t thread;

	(void)asleep;
	first_threads_socket = socket;
	if (pthread_create(&thread, NULL, goes_on, NULL))
		fail("thread");
	until_loaded();
	pthread_exit(NULL);
}

static void first_thread(void)
{
	start_sides(first_thread_ends, plain_side, true);
	wait_for_load();
	/* Longer than what is known of a peer is believed. */
	for (int i = 0; i < 20; i++) {
		usleep(50000);
		traffic_goes_on("without a first thread");
	}
	both_end_well();
}

/* --- SIGSTOP and SIGCONT. */

static void stop_and_go(bool asleep)
{
	start_sides(plain_side, plain_side, asleep);
	wait_for_load();
	for (int i = 0; i < 12 && !shared->finished; i++) {
		int which = (int)rnd(2), status;

		/* Whoever has a lock is waited for; a connection may break over it, as when a machine does not answer. */
		shared->gone_at = now_ms();
		if (kill(sides[which], SIGSTOP) || waitpid(sides[which], &status, WUNTRACED) != sides[which])
			fail("stopping");
		if (!WIFSTOPPED(status))
			fail("side %d ended with %#x", which, status);
		usleep(rnd(250000));
		kill(sides[which], SIGCONT);
		usleep(rnd(50000));
	}
	shared->enough = 1;
	side_ended(0, 0);
	side_ended(1, 0);
}

static void stopped(void)
{
	stop_and_go(false);
}

static void stopped_asleep(void)
{
	stop_and_go(true);
}

/* --- Another world: namespaces, other users. */

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("%s: %s", name, errno_name(errno));
	close(fd);
}

/* Goes on as a child in new namespaces, and ends as that does. */
static void enter(int namespaces)
{
	unsigned user = geteuid(), group = getegid();
	char text[64];
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWUSER | namespaces))
		fail("no namespaces: %s", errno_name(errno));
	write_file("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "%u %u 1", user, user);
	write_file("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "%u %u 1", group, group);
	write_file("/proc/self/gid_map", text);
	if (namespaces & CLONE_NEWTIME)
		write_file("/proc/self/timens_offsets", "monotonic 10000000 0\nboottime 10000000 0\n");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(30);
		return;
	}
	waitpid(pid, &status, 0);
	_exit(status ? 1 : 0);
}

static void in_pid_namespace(int socket, bool asleep)
{
	enter(CLONE_NEWPID);
	plain_side(socket, asleep);
}

static void in_time_namespace(int socket, bool asleep)
{
	enter(CLONE_NEWTIME);
	plain_side(socket, asleep);
}

static void for_a_while(void)
{
	wait_for_load();
	for (int i = 0; i < 10; i++) {
		usleep(30000);
		traffic_goes_on("in another world");
	}
	both_end_well();
}

static void first_is_killed(void)
{
	wait_for_load();
	shared->gone_at = now_ms();
	kill(sides[0], SIGKILL);
	side_ended(0, SIGKILL);
	side_ended(1, 0);
}

static void pid_namespace(void)
{
	start_sides(in_pid_namespace, plain_side, true);
	for_a_while();
}

static void pid_namespace_killed(void)
{
	start_sides(in_pid_namespace, plain_side, false);
	first_is_killed();
}

static void time_namespace(void)
{
	start_sides(in_time_namespace, plain_side, true);
	for_a_while();
}

static void become(uid_t user)
{
	gid_t group = GROUP;

	if (setgroups(1, &group) || setresgid(user, user, user) || setresuid(user, user, user) || prctl(PR_SET_DUMPABLE, 1))
		fail("becoming user %u needs root", user);
}

static void first_user(int socket, bool asleep)
{
	become(10001);
	plain_side(socket, asleep);
}

static void second_user(int socket, bool asleep)
{
	become(10002);
	plain_side(socket, asleep);
}

static void two_users(void)
{
	start_sides(first_user, second_user, true);
	for_a_while();
}

static void two_users_killed(void)
{
	start_sides(first_user, second_user, false);
	first_is_killed();
}

/* --- The clock of the day jumps. The C library's function is found here first, also by the library under test. */

static volatile bool jumps;
static volatile unsigned long asked;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, time);

	asked++;
	if (jumps && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		time->tv_sec += (time_t)((asked * 2654435761U) % 200000000) - 100000000; /* three years to both sides */
	return ret;
}

static void with_jumping_clock(int socket, bool asleep)
{
	unsigned long before;

	jumps = true;
	before = asked;
	open_side();
	if (asked == before)
		fail("the library asks for the time elsewhere: this test shows nothing");
	if (!connect_side(socket))
		fail("the peer is gone before it was connected");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
}

static void clock_of_the_day(void)
{
	start_sides(with_jumping_clock, with_jumping_clock, true);
	for_a_while();
	start_sides(with_jumping_clock, with_jumping_clock, false);
	first_is_killed();
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"exec", exec_case},
						      {"first-thread", first_thread},
						      {"stopped", stopped},
						      {"stopped-asleep", stopped_asleep},
						      {"pid-namespace", pid_namespace},
						      {"pid-namespace-killed", pid_namespace_killed},
						      {"time-namespace", time_namespace},
						      {"two-users", two_users},
						      {"two-users-killed", two_users_killed},
						      {"clock", clock_of_the_day},
						      {NULL, NULL}};

	if (argc == 3 && !strcmp(argv[1], "--after-exec"))
		return after_exec(argv[2]);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe");
	return run_case(cases, argc, argv);
}
