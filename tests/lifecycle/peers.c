/*
 * peers.c CASE - the subject becomes another program, loses its first thread, is stopped, or lives in another world.
 */
#include "sides.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define GROUP 54321

/* Stops a side; false when it has ended before, whose status that is. */
static bool stop(int which, int *status)
{
	if (kill(sides[which], SIGSTOP) || waitpid(sides[which], status, WUNTRACED) != sides[which])
		fail("stopping");
	return WIFSTOPPED(*status);
}

/*
 * --- exec: the old peers reach nothing of the new program.
 *
 * The survivor is stopped when it is about to copy to the subject by process_vm_writev, has looked at all that it looks at
 * before, and goes on once the new program has memory where the regions were. Where payload travels by shared memory it is
 * stopped anywhere.
 */

#define ROUNDS 6
#define MOST 60      /* rounds, where the kernel has put something else there */
#define COPIES 10000 /* messages, of which at least one is copied */

static char self[512];
static int from_program[2], to_program[2];

static volatile struct {
	int stop_at_copy; /* the survivor stops there */
	int exec;         /* the subject may */
} *agreed;

static bool is_survivor;

/* Found here first, also by the library under test. */
ssize_t process_vm_writev(pid_t pid, const struct iovec *ours, unsigned long our_count, const struct iovec *theirs,
			  unsigned long their_count, unsigned long flags)
{
	if (is_survivor && pid == sides[0] && __atomic_exchange_n(&agreed->stop_at_copy, 0, __ATOMIC_SEQ_CST))
		raise(SIGSTOP);
	return syscall(SYS_process_vm_writev, pid, ours, our_count, theirs, their_count, flags);
}

static void *becomes_another(void *unused)
{
	char address[32], in[16], out[16];

	while (!agreed->exec)
		usleep(1000);
	snprintf(address, sizeof(address), "%p", (void *)s.memory);
	snprintf(in, sizeof(in), "%d", to_program[0]);
	snprintf(out, sizeof(out), "%d", from_program[1]);
	execl(self, self, "--after-exec", address, in, out, (char *)NULL);
	fail("exec: %s", errno_name(errno));
	return unused;
}

/* The new program has other memory where the regions were, and looks at it once the survivor has ended. */
static int after_exec(const char *address, int in, int out)
{
	size_t length = PAIRS * PER_PAIR;
	void *wanted = (void *)strtoull(address, NULL, 0);
	unsigned char *memory = mmap(wanted, length, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);
	char has = memory != MAP_FAILED, over;

	if (write(out, &has, 1) != 1 || read(in, &over, 1) != 1)
		fail("pipe");
	for (size_t i = 0; has && i < length; i++)
		if (memory[i])
			fail("byte %zu of the new program's memory was written by a peer of the old one", i);
	return 0;
}

static void exec_survivor(int socket, bool asleep)
{
	is_survivor = true;
	plain_side(socket, asleep);
}

/* The survivor is about to copy. */
static void stop_at_copy(void)
{
	uint64_t received = shared->received;
	int status;
	pid_t pid;

	agreed->stop_at_copy = 1;
	while (!(pid = waitpid(sides[1], &status, WUNTRACED | WNOHANG))) {
		if (shared->received > received + COPIES)
			fail("%d messages, and no copy to the subject: this shows nothing", COPIES);
		usleep(1000);
	}
	if (pid < 0 || !WIFSTOPPED(status))
		fail("the survivor ended with status %#x", status);
}

/* Whether the new program had memory there. */
static bool exec_once(bool is_copied, bool asleep)
{
	char has, over = 0;
	int status;

	agreed->exec = 0;
	start_sides(side_with_thread, exec_survivor, asleep);
	wait_for_load();
	if (is_copied)
		stop_at_copy();
	else if (!stop(1, &status))
		fail("the survivor ended with status %#x", status);
	shared->gone_at = now_ms();
	agreed->exec = 1;
	if (read(from_program[0], &has, 1) != 1)
		fail("pipe");
	shared->gone_at = now_ms(); /* for who was stopped */
	kill(sides[1], SIGCONT);
	side_ended(1, 0);
	if (write(to_program[1], &over, 1) != 1)
		fail("pipe");
	side_ended(0, 0);
	return has;
}

static void exec_case(void)
{
	const char *way = getenv("IRONVERBS_SOFT_COPY");
	int shown = 0;

	agreed = mmap(NULL, sizeof(*agreed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (agreed == MAP_FAILED || pipe(from_program) || pipe(to_program))
		fail("memory or pipes");
	beside_load = becomes_another;
	for (int i = 0; i < MOST && shown < ROUNDS; i++)
		shown += exec_once(!way || strcmp(way, "bounce"), i % 2);
	if (shown < ROUNDS)
		fail("%d times of %d the new program could have memory where the regions were", shown, MOST);
}

/* --- The first thread ends, the process lives. */

static int first_threads_socket;
static volatile int *has_ended; /* that thread, in shared memory */

static void *sees_it_end(void *first)
{
	if (pthread_join(*(pthread_t *)first, NULL))
		fail("the first thread");
	*has_ended = 1;
	return NULL;
}

static void *goes_on(void *unused)
{
	plain_side(first_threads_socket, false);
	_exit(0);
	return unused;
}

static void first_thread_ends(int socket, bool asleep)
{
	static pthread_t first;
	pthread_t thread;

	(void)asleep;
	first_threads_socket = socket;
	first = pthread_self();
	if (pthread_create(&thread, NULL, goes_on, NULL) || pthread_create(&thread, NULL, sees_it_end, &first))
		fail("thread");
	until_loaded();
	pthread_exit(NULL);
}

static void first_thread(void)
{
	has_ended = mmap(NULL, sizeof(*has_ended), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (has_ended == MAP_FAILED)
		fail("memory");
	start_sides(first_thread_ends, plain_side, true);
	wait_for_load();
	while (!*has_ended && !a_side_ended())
		usleep(1000);
	/* Longer than what is known of a peer is believed, 100 ms. */
	for (int i = 0; i < 6; i++) {
		usleep(50000);
		traffic_goes_on("without a first thread");
	}
	both_end_well();
}

/* --- SIGSTOP and SIGCONT. */

#define TOO_LONG 500 /* ms. A peer that does not go on within a copy is waited for twice as long. */
#define TRIES 20

/* The longest time for which a side was stopped, and the status of one that has failed. */
static uint64_t stop_and_go_once(bool asleep, int *failed)
{
	uint64_t longest = 0;
	int status, running = 2;

	start_sides(plain_side, plain_side, asleep);
	wait_for_load();
	for (int i = 0; i < 12 && !shared->finished && !a_side_ended(); i++) {
		int which = (int)rnd(2);
		uint64_t begun = now_ms(), received;

		/* Whoever has a lock is waited for; a connection may break over it, as when a machine does not answer. */
		shared->gone_at = begun;
		if (!stop(which, &status)) {
			*failed = status;
			running--;
			break;
		}
		usleep(rnd(250000));
		kill(sides[which], SIGCONT);
		if (now_ms() - begun > longest)
			longest = now_ms() - begun;
		received = shared->received + rnd(200);
		while (shared->received < received && !shared->finished && !a_side_ended())
			usleep(1000);
	}
	shared->enough = 1;
	for (; running; running--) {
		pid_t ended;

		/* The other one has no end then. */
		if (*failed)
			kill(sides[0], SIGKILL), kill(sides[1], SIGKILL);
		ended = wait(&status);
		if (ended < 0)
			fail("waiting");
		if (status && !*failed)
			*failed = status;
	}
	return longest;
}

static void stop_and_go(bool asleep)
{
	for (int i = 0; i < TRIES; i++) {
		int status = 0;
		uint64_t longest = stop_and_go_once(asleep, &status);

		if (!status)
			return;
		/* This process has not had a processor in time to let the other one go on, so it was not what is to be shown. */
		if (longest <= TOO_LONG)
			fail("a side ended with status %#x", status);
		printf("a side was stopped for %lu ms instead of 250: again\n", longest);
	}
	fail("%d times a side was stopped for too long", TRIES);
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
		alarm(GUARD);
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

	if (argc == 5 && !strcmp(argv[1], "--after-exec"))
		return after_exec(argv[2], atoi(argv[3]), atoi(argv[4]));
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe");
	return run_case(cases, argc, argv);
}
