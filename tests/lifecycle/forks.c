/*
 * forks.c CASE - the subject forks in every phase of its life; its children end, start programs or use verbs anew.
 */
#include "sides.h"

/* A child that ends by itself, within its time-out and without an error. */
static void in_child(const char *what, void (*does)(void))
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork");
	if (!pid) {
		alarm(15);
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

/* A device of its own, and a message to itself. */
static void uses_verbs(void)
{
	struct endpoint a = {0}, b = {0};
	struct ibv_wc wc;

	open_pair(&a, &b, "rxe0", "rxe0");
	pattern(a.buffer, 5000, 9);
	if (post_recv(&b, 1, 0, 5000) || post_send(&a, 2, 0, 5000) || !next_wc(a.send_cq, &wc) || wc.status ||
	    !next_wc(b.recv_cq, &wc) || wc.status || memcmp(a.buffer, b.buffer, 5000))
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
static void *forks_beside_load(void *unused)
{
	until_loaded();
	for (int i = 0; i < 6; i++)
		children();
	return unused;
}

static void in_traffic(void)
{
	beside_load = forks_beside_load;
	for (int asleep = 0; asleep < 2; asleep++) {
		start_sides(side_with_thread, plain_side, asleep);
		wait_for_load();
		for (int i = 0; i < 10; i++) {
			usleep(20000);
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
	alarm(30);
	memset(&s, 0, sizeof(s));
	plain_side(socket, asleep);
	shared->gone_at = 1; /* says that the child has come to its end */
}

static void orphan(void)
{
	start_sides(parent_ends, plain_side, true);
	side_ended(0, 0);
	while (shared->loading < 2 && !waitpid(sides[1], NULL, WNOHANG))
		usleep(1000);
	traffic_goes_on("with an orphan");
	shared->enough = 1;
	side_ended(1, 0);
	for (int i = 0; i < 10000 && !shared->gone_at; i++)
		usleep(1000);
	if (!shared->gone_at)
		fail("the orphan did not come to its end");
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
