/*
 * sides.h - two processes under load (tests/soft/load.h), of which the first, the subject, meets something.
 *
 * Each case of a program is a function that starts both, lets it happen, and sees how both end.
 */
#ifndef LIFECYCLE_SIDES_H
#define LIFECYCLE_SIDES_H

#include "../soft/load.h"

#include <pthread.h>

#define GUARD 600 /* seconds after which a hang ends, and nothing else */

static pid_t sides[2];

/* The survivor, and most subjects: open, connect, load until the end. */
static inline void plain_side(int socket, bool asleep)
{
	open_side();
	if (!connect_side(socket))
		fail("the peer is gone before it was connected");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
}

static inline void start_sides(void (*subject)(int, bool), void (*survivor)(int, bool), bool asleep)
{
	int sockets[2];

	load_init();
	seed = (uint64_t)getpid() ^ now_ms() << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	for (int i = 0; i < 2; i++) {
		sides[i] = fork();
		if (sides[i])
			continue;
		alarm(GUARD);
		close(sockets[!i]);
		seed ^= (uint64_t)getpid() << 32;
		(i ? survivor : subject)(sockets[i], asleep);
		fflush(stdout);
		_exit(0);
	}
	close(sockets[0]);
	close(sockets[1]);
}

/* Whether a child has ended; it is still to be waited for. */
static inline bool a_side_ended(void)
{
	siginfo_t info = {0};

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT))
		fail("waiting");
	return info.si_pid != 0;
}

/* Until so many messages have arrived since, however long a busy machine takes. */
static inline void wait_for_messages(const char *when, uint64_t count)
{
	uint64_t received = shared->received;

	while (shared->received < received + count) {
		if (a_side_ended())
			fail("%s: a side has ended, %d connected, %lu messages", when, shared->loading, shared->received);
		usleep(1000);
	}
}

/* Until both are connected, and some messages have arrived. */
static inline void wait_for_load(void)
{
	while (shared->loading < 2 && !a_side_ended())
		usleep(1000);
	wait_for_messages("no load", 100);
}

/* Traffic goes on: more messages arrive. */
static inline void traffic_goes_on(const char *when)
{
	wait_for_messages(when, 50);
}

/* Sees how a side ended; 0 is right, and for one that was killed its signal. */
static inline void side_ended(int which, int expected)
{
	int status;

	if (waitpid(sides[which], &status, 0) != sides[which])
		fail("waiting");
	if (status != expected)
		fail("the %s ended with status %#x", which ? "survivor" : "subject", status);
}

/* Nothing has broken, and both come to their end. */
static inline void both_end_well(void)
{
	traffic_goes_on("at the end");
	shared->enough = 1;
	side_ended(0, 0);
	side_ended(1, 0);
}

/* What the subject does beside its load. */
static void *(*beside_load)(void *);

static inline void side_with_thread(int socket, bool asleep)
{
	pthread_t thread;

	open_side();
	if (!connect_side(socket))
		fail("the peer is gone before it was connected");
	if (pthread_create(&thread, NULL, beside_load, NULL))
		fail("thread");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	pthread_join(thread, NULL);
	close_side();
}

/* In that thread: until the load is under way. */
static inline void until_loaded(void)
{
	while (shared->loading < 2 || shared->received < 100)
		usleep(1000);
}

struct lifecycle_case {
	const char *name;
	void (*run)(void);
};

static inline int run_case(const struct lifecycle_case *cases, int argc, char **argv)
{
	for (; cases->name; cases++)
		if (argc > 1 && !strcmp(cases->name, argv[1])) {
			alarm(GUARD);
			cases->run();
			printf("%s: %lu requests, %lu messages\n", cases->name, shared ? shared->posted : 0,
			       shared ? shared->received : 0);
			return 0;
		}
	fail("no such case");
}

#endif
