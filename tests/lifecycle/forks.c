/*
 * forks.c CASE - the subject forks in every phase of its life; its children end, start programs or use verbs anew.
 */
#include "sides.h"

#include <sys/prctl.h>

/* A child that ends by itself, without an error. */
static void in_child(const char *what, void (*does)(void))
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork");
	if (!pid) {
		alarm(GUARD);
		does();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		fail("%s ended with status %#x", what, status);
}

static void ends(void)
{
	_exit(0);
}

static void runs_exit_handlers(void)
{
	exit(0);
}

static void starts_a_program(void)
{
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execlp("ibv_devinfo", "ibv_devinfo", "-l", NULL);
	_exit(1);
}

static bool completes(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	return n == 1 && !wc.status;
}

/* A device of its own, and a message to itself. */
static void uses_verbs(void)
{
	struct endpoint a = {0}, b = {0};

	open_pair(&a, &b, "rxe0", "rxe0");
	pattern(a.buffer, 5000, 9);
	if (post_recv(&b, 1, 0, 5000) || post_send(&a, 2, 0, 5000) || !completes(a.send_cq) || !completes(b.recv_cq) ||
	    memcmp(a.buffer, b.buffer, 5000))
		fail("the child's own message");
	endpoint_close(&a);
	endpoint_close(&b);
}

static void closes_what_it_inherited(void)
{
	for (int i = 0; i < PAIRS; i++)
		if (s.pair[i].qp)
			ibv_destroy_qp(s.pair[i].qp);
	if (s.context)
		ibv_close_device(s.context);
}

static void children(void)
{
	/* What is printed twice otherwise. */
	fflush(stdout);
	in_child("a child that ends", ends);
	in_child("a child that runs exit handlers", runs_exit_handlers);
	in_child("a child that starts a program", starts_a_program);
	in_child("a child that uses verbs", uses_verbs);
}

/* One more: only where no other thread may be within a call, as its locks would be the child's for ever. */
static void all_children(void)
{
	children();
	in_child("a child that closes what it inherited", closes_what_it_inherited);
	in_child("another child that uses verbs", uses_verbs);
}

/* With one thread: before the device is opened, with it open, with queue pairs. */
static void forks_in_every_phase(int socket, bool asleep)
{
	struct ibv_context *context;

	all_children();
	context = open_device("rxe0");
	all_children();
	open_side();
	all_children();
	if (!connect_side(socket))
		fail("the peer is gone before it was connected");
	all_children();
	if (ibv_close_device(context))
		fail("closing");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
	memset(&s, 0, sizeof(s));
	all_children();
}

static void quiet_phases(void)
{
	start_sides(forks_in_every_phase, plain_side, true);
	wait_for_load();
	both_end_well();
}

/* During traffic, from another thread than that which communicates. */
#define TIMES 6

static volatile int *begun; /* how often children were begun, in shared memory */

static void *forks_beside_load(void *unused)
{
	until_loaded();
	for (int i = 0; i < TIMES; i++) {
		++*begun;
		children();
	}
	return unused;
}

static void in_traffic(void)
{
	beside_load = forks_beside_load;
	begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (begun == MAP_FAILED)
		fail("memory");
	for (int asleep = 0; asleep < 2; asleep++) {
		*begun = 0;
		start_sides(side_with_thread, plain_side, asleep);
		wait_for_load();
		for (int i = 1; i <= TIMES; i++) {
			while (*begun < i && !a_side_ended())
				usleep(1000);
			traffic_goes_on("while children come and go");
		}
		both_end_well();
	}
}

/* The child is what works on, with a device of its own, and its parent is gone. */
static void parent_ends(int socket, bool asleep)
{
	open_side();
	if (fork())
		_exit(0);
	alarm(GUARD);
	memset(&s, 0, sizeof(s));
	plain_side(socket, asleep);
}

static void orphan(void)
{
	int status;

	/* The orphan is this process's child then, which sees how it ends. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		fail("orphans");
	start_sides(parent_ends, plain_side, true);
	side_ended(0, 0);
	while (shared->loading < 2 && !a_side_ended())
		usleep(1000);
	traffic_goes_on("with an orphan");
	shared->enough = 1;
	side_ended(1, 0);
	if (wait(&status) < 0 || status)
		fail("the orphan ended with status %#x", status);
}

/* Another thread is opening the first device when the process forks; the child opens it, too. */
static volatile bool over;

static void *opens_and_closes(void *unused)
{
	while (!over)
		if (ibv_close_device(open_device("rxe0")))
			fail("closing");
	return unused;
}

static void opens(void)
{
	if (ibv_close_device(open_device("rxe0")))
		fail("closing in the child");
}

static void while_opening(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, opens_and_closes, NULL))
		fail("thread");
	for (int i = 0; i < 300; i++)
		in_child("a child of a process that is opening a device", opens);
	over = true;
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"quiet-phases", quiet_phases},
						      {"in-traffic", in_traffic},
						      {"orphan", orphan},
						      {"while-opening", while_opening},
						      {NULL, NULL}};

	return run_case(cases, argc, argv);
}
