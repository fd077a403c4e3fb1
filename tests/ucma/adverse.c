/*
 * What goes on around commands and must not disturb them: signal handlers that give commands themselves, never
 * return or come in between, children that share memory, numbers of descriptors, and a process of the folder that is stopped while it
 * binds. Run by tests/ucma/run.
 *
 *   adverse FOLDER
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "ucma.h"

#define LOCALHOST 0x7f000001
#define PORT 7100

static int channel;
static uint32_t number;
static volatile sig_atomic_t rounds, is_inside;
static sigjmp_buf out;
static struct sockaddr_un listener_at;

/* The addresses of the id. */
static ssize_t query(void)
{
	unsigned char answer[280];
	struct command made = command(19, 16, sizeof(answer));

	PUT(&made, 0, uint64_t, (uint64_t)(uintptr_t)answer);
	PUT(&made, 8, uint32_t, number);
	return give(channel, &made);
}

static void alarms(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct itimerval timer = { { 0, handler ? 300 : 0 }, { 0, handler ? 300 : 0 } };

	if (handler)
		sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void asks(int signal)
{
	int before = errno;

	(void)signal;
	if (query() == 24)
		rounds++;
	errno = before;
}

static void leaves(int signal)
{
	(void)signal;
	rounds++;
	if (is_inside)
		siglongjmp(out, 1);
}

/* Whether a child comes to a good end. */
static int ends(void (*body)(void))
{
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		body();
		_exit(1);
	}
	for (int waited = 0; waited < LONG_MS; waited += 10) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) && WEXITSTATUS(status) == 0;
		usleep(10000);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return 0;
}

static void begin_alone(void)
{
	channel = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	number = (uint32_t)create_id(channel, 1);
}

/* A handler gives commands, whatever it interrupted. */
static void in_handlers(void)
{
	int good = 1;

	begin_alone();
	alarms(asks);
	while (good && rounds < 1000)
		good = query() == 24;
	alarms(NULL);
	_exit(!good);
}

/* A handler never returns. */
static void out_of_handlers(void)
{
	int good;

	begin_alone();
	alarms(leaves);
	while (rounds < 1000) {
		if (sigsetjmp(out, 1) == 0) {
			is_inside = 1;
			for (;;)
				query();
		}
		is_inside = 0;
	}
	alarms(NULL);
	good = query() == 24;
	_exit(!good);
}

/* A child of vfork() opens the device: its parent's channels stay what they are. */
static void borrowed_memory(void)
{
	pid_t child;
	int status;

	begin_alone();
	child = vfork();
	if (child == 0) {
		int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

		_exit(fd >= 0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(query() == 24 && create_id(channel, 2) == 1);
	close(channel);
}

static int next(int fd, struct event *event, int timeout)
{
	struct pollfd asked = { fd, POLLIN, 0 };

	return poll(&asked, 1, timeout) == 1 && get_event(fd, event) == 16;
}

/*
 * A child binds, and is stopped before its nth system call there (or 0: it has fewer); another process, a child of that, has its
 * channel, too.
 */
static int stop_within_bind(int nth, pid_t *child, pid_t *heir)
{
	int status, told[2];

	HOLDS(pipe(told) == 0);
	*child = fork();
	if (*child == 0) {
		begin_alone();
		*heir = fork();
		if (*heir == 0)
			for (;;)
				pause();
		if (write(told[1], heir, sizeof(*heir)) != sizeof(*heir) || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(1);
		raise(SIGSTOP);
		bind_id(channel, number, LOCALHOST, PORT + 20);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	HOLDS(read(told[0], heir, sizeof(*heir)) == sizeof(*heir));
	close(told[0]);
	close(told[1]);
	HOLDS(waitpid(*child, &status, 0) == *child && WIFSTOPPED(status));
	HOLDS(ptrace(PTRACE_SETOPTIONS, *child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
	/* Each call stops twice: before it and behind it. */
	for (int stops = 0; stops < 2 * nth - 1;) {
		ptrace(PTRACE_SYSCALL, *child, NULL, NULL);
		if (waitpid(*child, &status, 0) != *child || !WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP)
			return 0;
		stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
	}
	return 1;
}

static ssize_t destroy_id(int64_t id)
{
	struct command made = command(1, 16, 4);
	uint32_t events;

	PUT(&made, 0, uint64_t, (uint64_t)(uintptr_t)&events);
	PUT(&made, 8, uint32_t, (uint32_t)id);
	return give(channel, &made);
}

static int binds(uint16_t port)
{
	int64_t id = create_id(channel, 3);
	int bound = bind_id(channel, (uint32_t)id, LOCALHOST, port) == 144;
	int refused = errno;

	HOLDS(destroy_id(id) == 24);
	errno = refused;
	return bound;
}

/* A process that comes removes what dead ones left, so that the next one has as many system calls. */
static void comes(void)
{
	begin_alone();
	_exit(!binds(PORT + 22));
}

/* Whoever is stopped in the middle of a bind, or dies there and leaves its channel to a child, stops nobody else. */
static void stopped_neighbour(void)
{
	int server, nth = 1, within = 1;
	struct event event;
	int64_t listener;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	begin_alone();
	server = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	listener = create_id(server, 1);
	CHECK(bind_id(server, (uint32_t)listener, 0, PORT) == 144 && simple(server, 7, (uint32_t)listener, 2, 10) == 16);
	for (; within; nth++) {
		struct command made = command(6, 288, 0);
		pid_t child, heir;
		int64_t id = create_id(channel, 2);

		within = stop_within_bind(nth, &child, &heir);
		HOLDS(binds(PORT + 21));
		/* It has the port already, or not yet. */
		HOLDS(binds(PORT + 20) || errno == EADDRNOTAVAIL);
		HOLDS(resolve(channel, (uint32_t)id, LOCALHOST, PORT) == 280 && next(channel, &event, LONG_MS) && event.kind == 0);
		HOLDS(simple(channel, 4, (uint32_t)id, 2, 2000) == 16 && next(channel, &event, LONG_MS) && event.kind == 2);
		PUT(&made, 272, uint32_t, (uint32_t)id);
		PUT(&made, 271, uint8_t, 1);
		HOLDS(give(channel, &made) == 296);
		HOLDS(next(server, &event, LONG_MS) && event.kind == 4);
		kill(child, SIGKILL);
		HOLDS(waitpid(child, NULL, 0) == child);
		HOLDS(binds(PORT + 21));
		HOLDS(binds(PORT + 20) || errno == EADDRNOTAVAIL);
		kill(heir, SIGKILL);
		HOLDS(waitpid(heir, NULL, 0) == heir);
		HOLDS(binds(PORT + 20));
		HOLDS(ends(comes));
		HOLDS(destroy_id(id) == 24);
	}
	/* A bind has some system calls. */
	CHECK(nth > 10);
	close(server);
	close(channel);
}

static void once(int signal)
{
	(void)signal;
	rounds++;
}

enum { WAITS = 40 };

/* The wait that the first thread is in, and the last one that ended. */
static int begun, ended;
/* Waits in which a signal came, and those that slept on after its handler had run. */
static int interrupted, late;

static void wake(int fd, int step)
{
	if (step == 0)
		connect(fd, (const struct sockaddr *)&listener_at, sizeof(listener_at));
	else if (step == 1)
		send(fd, "noise", 5, MSG_NOSIGNAL);
	else
		close(fd);
}

/* Wakes the waiting thread for nothing, on and on. Each of its waits gets one signal, before or after one of the steps of that. */
static void *wakes(void *unused)
{
	for (int nth = 1; nth <= WAITS; nth++) {
		int first_step = nth / 2 % 8;

		while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < nth)
			usleep(100);
		/* A handler that ran before the wait ends none, with the kernel neither. */
		while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < nth && !is_asleep(getpid(), is_poll))
			usleep(100);
		for (int step = 0; __atomic_load_n(&ended, __ATOMIC_ACQUIRE) < nth;) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

			for (int part = 0; part < 3; part++, step++) {
				if (step == first_step) {
					interrupted += __atomic_load_n(&ended, __ATOMIC_ACQUIRE) < nth;
					tgkill(getpid(), getpid(), SIGALRM);
				}
				wake(fd, part);
			}
			/* The handler has run, and the thread sleeps: another signal ends what the first one has not. */
			if (rounds > 0 && is_asleep(getpid(), is_poll) && __atomic_load_n(&ended, __ATOMIC_ACQUIRE) < nth) {
				late++;
				tgkill(getpid(), getpid(), SIGALRM);
			}
		}
	}
	return unused;
}

/* A signal that comes while a peer wakes the channel for nothing ends a wait all the same. */
static void interrupted_while_woken(const char *folder)
{
	struct sigaction action = { .sa_handler = once };
	struct event event;
	pthread_t thread;

	channel = open(DEVICE, O_RDWR | O_CLOEXEC);
	number = (uint32_t)create_id(channel, 1);
	CHECK(bind_id(channel, number, LOCALHOST, PORT) == 144 && simple(channel, 7, number, 2, 10) == 16);
	find_listener(folder, &listener_at);
	sigaction(SIGALRM, &action, NULL);
	pthread_create(&thread, NULL, wakes, NULL);
	for (int nth = 1; nth <= WAITS; nth++) {
		struct pollfd asked = { channel, POLLIN, 0 };

		rounds = 0;
		__atomic_store_n(&begun, nth, __ATOMIC_RELEASE);
		if (nth % 2)
			FAILS(poll(&asked, 1, -1), EINTR);
		else
			FAILS(get_event(channel, &event), EINTR);
		__atomic_store_n(&ended, nth, __ATOMIC_RELEASE);
	}
	pthread_join(thread, NULL);
	CHECK(late == 0);
	CHECK(interrupted == WAITS);
	close(channel);
}

/* Of the program's numbers a channel takes one, whatever it has. */
static void numbers(void)
{
	int before = dup(1), after;

	close(before);
	begin_alone();
	for (uint16_t nth = 0; nth < 60; nth++) {
		int64_t id = create_id(channel, 1);

		CHECK(bind_id(channel, (uint32_t)id, LOCALHOST, (uint16_t)(PORT + nth)) == 144 &&
		      simple(channel, 7, (uint32_t)id, 2, 10) == 16);
	}
	after = dup(1);
	CHECK(after <= before + 1);
	CHECK(dup2(1, 40) == 40 && close(40) == 0);
	close(after);
	close(channel);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(ends(in_handlers));
	CHECK(ends(out_of_handlers));
	borrowed_memory();
	numbers();
	interrupted_while_woken(argv[1]);
	stopped_neighbour();
	return end();
}
