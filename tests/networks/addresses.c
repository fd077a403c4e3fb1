// What a process sees while the addresses of its network namespace change. The script that starts it changes them when it is
// told to: each line that this prints is an order, and each line that it reads says that it is done.
//
//   addresses follow   GIDs come and go, the program sleeping in ibv_get_async_event, in poll, or in neither
//   addresses noise    what changes nothing of the table wakes a program that polls, which gets an event then, and not
//                      one that sleeps in the verb
//   addresses signals  a signal's handler that wants calls to go on does not end the wait, another does
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <arpa/inet.h>
#include <unistd.h>

/* In milliseconds: ends a wait for what never comes. */
#define HANG 300000

static struct ibv_context *context;

#define CHECK(condition) \
	do { if (!(condition)) { fprintf(stderr, "line %d: not %s, errno %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static void order(const char *what)
{
	char line[64];
	puts(what);
	fflush(stdout);
	CHECK(fgets(line, sizeof line, stdin));
}

// The index of an address in the table of GIDs, or -1.
static int index_of(const char *text)
{
	union ibv_gid wanted, gid;
	CHECK(inet_pton(AF_INET6, text, wanted.raw) == 1);
	for (int index = 0; index < 64; index++)
		if (!ibv_query_gid(context, 1, index, &gid) && !memcmp(&gid, &wanted, sizeof gid))
			return index;
	return -1;
}

static int readable(int milliseconds)
{
	struct pollfd place = {.fd = context->async_fd, .events = POLLIN};
	return poll(&place, 1, milliseconds);
}

static void take_change(void)
{
	struct ibv_async_event event;
	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_GID_CHANGE && event.element.port_num == 1);
	ibv_ack_async_event(&event);
}

// A path from the address at this index of the own table to another one can be used.
static int route(int index, const char *to)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = index, .hop_limit = 1}};
	CHECK(pd && inet_pton(AF_INET6, to, attr.grh.dgid.raw) == 1);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	int made = ah != NULL;
	CHECK(!ah || !ibv_destroy_ah(ah));
	CHECK(!ibv_dealloc_pd(pd));
	return made;
}

static void follow(void)
{
	struct ibv_async_event event;
	CHECK(index_of("::ffff:10.88.0.1") == 1 && index_of("::ffff:10.88.0.77") == -1);
	CHECK(index_of("::ffff:127.0.0.1") == 62 && index_of("::1") == 63);
	CHECK(route(62, "::ffff:127.0.0.1") && route(63, "::1") && !route(63, "::ffff:127.0.0.1") && !route(61, "::1"));
	CHECK(!readable(0));
	// It waits in the verb.
	order("add 10.88.0.77/24");
	take_change();
	CHECK(index_of("::ffff:10.88.0.77") == 2 && index_of("::ffff:127.0.0.1") == 62);
	CHECK(route(2, "::ffff:10.88.0.1"));
	// It waits for the descriptor, and takes what is there without waiting.
	int flags = fcntl(context->async_fd, F_GETFL);
	CHECK(flags >= 0 && !fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK));
	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
	CHECK(errno == EAGAIN && !readable(0));
	order("del 10.88.0.77/24");
	CHECK(readable(HANG) == 1);
	take_change();
	CHECK(index_of("::ffff:10.88.0.77") == -1 && index_of("::ffff:127.0.0.1") == 62);
	// What comes and goes meanwhile leaves nothing to tell of, or no more than that something was.
	order("add fd88::77/64");
	order("del fd88::77/64");
	for (int taken = 0; !ibv_get_async_event(context, &event); taken++) {
		CHECK(event.event_type == IBV_EVENT_GID_CHANGE && taken < 2);
		ibv_ack_async_event(&event);
	}
	CHECK(errno == EAGAIN && index_of("fd88::77") == -1);
	// A link that goes down takes its addresses along.
	order("link down");
	CHECK(readable(HANG) == 1);
	take_change();
	CHECK(index_of("::ffff:10.88.0.1") == -1 && index_of("::ffff:127.0.0.1") == 1);
	order("link up");
	CHECK(readable(HANG) == 1);
	take_change();
	CHECK(index_of("::ffff:10.88.0.1") == 1);
}

static volatile int taken;
static volatile pid_t in_verb; /* the thread that calls ibv_get_async_event next, and nothing else that sleeps */

// A field of the thread's in /proc; empty when it has ended.
static void field(const char *file, const char *name, char *value, size_t size)
{
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)in_verb, file);
	FILE *open = fopen(path, "r");
	*value = 0;
	while (open && fgets(line, sizeof line, open))
		if (!strncmp(line, name, strlen(name)))
			snprintf(value, size, "%.*s", (int)size - 1, line + strlen(name));
	if (open)
		fclose(open);
}

// How often the thread went to sleep.
static long sleeps(void)
{
	char value[64];
	field("status", "voluntary_ctxt_switches:", value, sizeof value);
	return atol(value);
}

// Waits until the thread sleeps, having gone to sleep more often than this; false when its call is over.
static int sleeps_again(long before)
{
	char state[64];
	for (;;) {
		if (taken)
			return 0;
		field("status", "State:\t", state, sizeof state);
		if (in_verb && *state == 'S' && sleeps() > before)
			return 1;
		usleep(1000);
	}
}

static void *sleep_in_verb(void *unused)
{
	in_verb = (pid_t)syscall(SYS_gettid);
	take_change();
	taken = 1;
	return unused;
}

static void noise(void)
{
	pthread_t sleeper;
	CHECK(!readable(0));
	// The file blocks, as it does unless the program says otherwise.
	order("link mtu 1400");
	CHECK(readable(HANG) == 1);
	take_change();
	CHECK(!readable(200));
	CHECK(!pthread_create(&sleeper, NULL, sleep_in_verb, NULL));
	CHECK(sleeps_again(0));
	// It is woken, and goes on sleeping.
	long before = sleeps();
	order("link mtu 1300");
	CHECK(sleeps_again(before));
	order("add 10.88.0.79/24");
	CHECK(!pthread_join(sleeper, NULL) && taken && index_of("::ffff:10.88.0.79") > 0);
}

static volatile int handled;

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static pthread_t waiting;

// Signals to who sleeps in the verb, each when it sleeps again.
static void *signal_sleeper(void *orders)
{
	CHECK(sleeps_again(0));
	for (int sent = 0; orders && sent < 3; sent++) {
		long before = sleeps();
		CHECK(!pthread_kill(waiting, SIGALRM));
		CHECK(sleeps_again(before) && handled == sent + 1);
	}
	if (orders)
		order(orders);
	else
		CHECK(!pthread_kill(waiting, SIGALRM));
	return NULL;
}

static void signals(void)
{
	struct ibv_async_event event;
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t sender;
	waiting = pthread_self();
	CHECK(!sigaction(SIGALRM, &action, NULL));
	in_verb = getpid();
	CHECK(!pthread_create(&sender, NULL, signal_sleeper, "add 10.88.0.78/24"));
	take_change();
	taken = 1;
	CHECK(!pthread_join(sender, NULL) && handled == 3);
	while (readable(0) == 1)
		take_change();
	action.sa_flags = 0;
	CHECK(!sigaction(SIGALRM, &action, NULL));
	taken = 0;
	CHECK(!pthread_create(&sender, NULL, signal_sleeper, NULL));
	CHECK(ibv_get_async_event(context, &event) == -1 && errno == EINTR);
	CHECK(!pthread_join(sender, NULL));
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(argc == 2 && list && list[0] && (context = ibv_open_device(list[0])));
	if (!strcmp(argv[1], "follow"))
		follow();
	else if (!strcmp(argv[1], "noise"))
		noise();
	else
		signals();
	CHECK(!ibv_close_device(context));
	puts("end");
	return 0;
}
