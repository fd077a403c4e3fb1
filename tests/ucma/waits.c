/*
 * Waits for an event look for it before they sleep: once in a wait, however often they are woken for nothing, and not in a thread
 * whose policy is another than the usual one. A look gives the processor away, which is counted here. Run by tests/ucma/run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "ucma.h"

#define LOCALHOST 0x7f000001

enum { WOKEN = 20 };

static int channel, looks, policy;
static volatile pid_t waiter;
static volatile sig_atomic_t handled;

/* In the place of the C library's: takes as long as a look may, or longer, so that each look calls it once. */
int sched_yield(void)
{
	__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
	usleep(150);
	return 0;
}

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static void *await(void *answered)
{
	const struct sched_param param = { 0 };
	struct event event;

	CHECK(sched_setscheduler(0, policy, &param) == 0);
	waiter = gettid();
	__atomic_store_n((int *)answered, get_event(channel, &event) > 0 ? 1 : -1, __ATOMIC_RELEASE);
	return NULL;
}

/* Looks of a wait that is woken again and again before its event comes, in a thread with this policy. */
static int looks_of(int of_policy)
{
	int64_t id = create_id(channel, 1);
	pthread_t thread;
	int answered = 0;

	policy = of_policy;
	looks = handled = waiter = 0;
	CHECK(id >= 0 && pthread_create(&thread, NULL, await, &answered) == 0);
	/* Each finds it asleep in its wait, and so does the event. */
	until_asleep(&waiter, is_poll);
	for (int nth = 1; nth <= WOKEN; nth++) {
		CHECK(pthread_kill(thread, SIGUSR1) == 0);
		while (handled < nth)
			usleep(1000);
		until_asleep(&waiter, is_poll);
	}
	CHECK(__atomic_load_n(&answered, __ATOMIC_ACQUIRE) == 0);
	CHECK(resolve(channel, (uint32_t)id, LOCALHOST, 7200) > 0);
	pthread_join(thread, NULL);
	CHECK(answered == 1);
	return looks;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	channel = open(DEVICE, O_RDWR | O_CLOEXEC);
	CHECK(channel >= 0);
	CHECK(looks_of(SCHED_BATCH) == 0);
	CHECK(looks_of(SCHED_OTHER) == 1);
	return end();
}
