/*
 * Answers to places on stacks: the frames of callers are there, and what lies behind a stack is a bad address, on whatever stack
 * a thread runs. Run by tests/ucma/run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "ucma.h"

enum { STACK = 64 << 10, BEHIND = 8 << 10, POOL = 4 << 20, OWN = 1 << 20 };

static int channel;
static ucontext_t caller;

/* Creates an id whose number is to be stored there. */
static ssize_t create_into(const void *answer)
{
	struct command made = command(0, 24, 4);

	PUT(&made, 8, uint64_t, (uint64_t)(uintptr_t)answer);
	PUT(&made, 16, uint16_t, 0x0106);
	PUT(&made, 18, uint8_t, 2);
	return give(channel, &made);
}

/* What is behind the stack that the caller runs on, as long as STACK. */
static const char *behind;

static void ask(void)
{
	CHECK(create_id(channel, 1) >= 0);
	FAILS(create_into(behind + 16), EFAULT);
}

static void ask_in_handler(int signal)
{
	(void)signal;
	ask();
}

/* The lower end of a stack within fresh memory, with something behind it that an answer cannot be stored to. */
static char *stack(size_t size, int rights)
{
	char *low = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(low != MAP_FAILED && mprotect(low + STACK, BEHIND, rights) == 0);
	behind = low + STACK;
	return low;
}

static void *ask_in_coroutine(void *low)
{
	ucontext_t routine;

	getcontext(&routine);
	routine.uc_stack = (stack_t){ .ss_sp = low, .ss_size = STACK };
	routine.uc_link = &caller;
	makecontext(&routine, ask, 0);
	swapcontext(&caller, &routine);
	return NULL;
}

static void *ask_in_thread(void *unused)
{
	ask();
	return unused;
}

/* A thread that runs on this memory. */
static void in_thread(void *(*what)(void *), void *argument, char *low, size_t size)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	CHECK(pthread_attr_setstack(&attributes, low, size) == 0);
	CHECK(pthread_create(&thread, &attributes, what, argument) == 0 && pthread_join(thread, NULL) == 0);
	pthread_attr_destroy(&attributes);
}

int main(void)
{
	struct sigaction action = { .sa_handler = ask_in_handler, .sa_flags = SA_ONSTACK };
	char *low;

	channel = open(DEVICE, O_RDWR | O_CLOEXEC);
	CHECK(channel >= 0);
	ask_in_coroutine(stack(STACK + BEHIND, PROT_NONE));
	ask_in_coroutine(stack(STACK + BEHIND, PROT_READ));
	low = stack(STACK + BEHIND, PROT_NONE);
	in_thread(ask_in_thread, NULL, low, STACK);
	/* Its own stack is further up in the same memory. */
	low = stack(POOL, PROT_NONE);
	in_thread(ask_in_coroutine, low, low + POOL - OWN, OWN);
	low = stack(STACK + BEHIND, PROT_NONE);
	CHECK(sigaltstack(&(stack_t){ .ss_sp = low, .ss_size = STACK }, NULL) == 0);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
	return end();
}
