/*
 * threads.c CASE - a thread that waits in the library is cancelled, and a stopped third process holds a queue.
 */
#include "sides.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* --- pthread_cancel of a thread that waits. */

static struct ibv_comp_channel *quiet;
static volatile int call_of_waiter; /* a file that says in which system call it is */

static void open_call(void)
{
	int fd = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail("/proc/thread-self/syscall: %s", errno_name(errno));
	call_of_waiter = fd;
}

static bool waits_for_file(long call)
{
#ifdef SYS_poll
	if (call == SYS_poll)
		return true;
#endif
	return call == SYS_ppoll || call == SYS_read;
}

/* Until the waiter sleeps in its call, or is gone. */
static void until_asleep(void)
{
	char call[128];
	ssize_t length;

	while (call_of_waiter < 0)
		usleep(100);
	for (;;) {
		length = pread(call_of_waiter, call, sizeof(call) - 1, 0);
		if (length <= 0)
			return;
		call[length] = '\0';
		/* "running", or the number and the arguments. */
		if (*call >= '0' && *call <= '9' && waits_for_file(strtol(call, NULL, 10)))
			return;
		usleep(100);
	}
}

static void *waits_for_completions(void *context)
{
	struct ibv_cq *cq;

	open_call();
	ibv_get_cq_event(quiet, &cq, &context);
	return NULL;
}

static void *waits_for_events(void *unused)
{
	struct ibv_async_event event;

	open_call();
	ibv_get_async_event(s.context, &event);
	return unused;
}

static void *(*waits)(void *);

static void *cancels(void *unused)
{
	until_loaded();
	for (int i = 0; i < 20; i++) {
		pthread_t waiter;
		void *result;

		call_of_waiter = -1;
		if (pthread_create(&waiter, NULL, waits, NULL))
			fail("thread");
		/* It sleeps by then, or has just begun. */
		if (i % 2)
			until_asleep();
		if (pthread_cancel(waiter) || pthread_join(waiter, &result) || result != PTHREAD_CANCELED)
			fail("the waiter was not cancelled");
		if (call_of_waiter >= 0)
			close(call_of_waiter);
	}
	if (ibv_destroy_comp_channel(quiet))
		fail("the channel cannot be destroyed");
	shared->enough = 1;
	return unused;
}

static void cancelled_side(int socket, bool asleep)
{
	open_side();
	quiet = ibv_create_comp_channel(s.context);
	if (!quiet || !connect_side(socket))
		fail("opening");
	pthread_t thread;
	if (pthread_create(&thread, NULL, cancels, NULL))
		fail("thread");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	pthread_join(thread, NULL);
	close_side();
}

static void cancelled(void *(*how)(void *))
{
	waits = how;
	start_sides(cancelled_side, plain_side, true);
	side_ended(0, 0);
	side_ended(1, 0);
}

static void cancelled_completions(void)
{
	cancelled(waits_for_completions);
}

static void cancelled_events(void)
{
	cancelled(waits_for_events);
}

/*
 * --- Two clients of one completion queue, and one of them is stopped in the middle of a transaction.
 *
 * A client rings the bell of an armed queue behind the queue's lock, by `write`: there it stops itself. That it has the lock
 * is seen by the server, which waits for it: for a word with the client's slot.
 */

#define CLIENTS 2
#define OTHER 0
#define STOPPED 1   /* this one */
#define SERVER CLIENTS
#define BROKEN 2    /* how it ends when its connection broke */
#define SMALL 64
#define QUEUE 256
#define ARMED 10000 /* times that the server arms the queue without waiting for its lock: nobody holds it */
#define ANYWHERE 30 /* stops there */

enum place { BEFORE_BELL = 1, AFTER_BELL };

static struct {
	volatile uint64_t received[CLIENTS];
	volatile uint64_t notified; /* requests for notification that the server made */
	volatile int slot;          /* that of the client which is stopped */
	volatile uint64_t waits;    /* of the server, for a lock that this client has */
	volatile int stop;          /* where the client is to stop itself, once */
	volatile int over;
} *counts;

static int me = -1; /* a client or the server */
static pid_t server, clients[CLIENTS];

static void stop_at(enum place place)
{
	int expected = place;

	if (__atomic_compare_exchange_n(&counts->stop, &expected, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		raise(SIGSTOP);
}

/* This and the next are found here first, also by the library under test. */
ssize_t write(int fd, const void *bytes, size_t length)
{
	static ssize_t (*c_library)(int, const void *, size_t);
	bool is_bell = false;
	struct stat file;
	ssize_t written;

	if (!c_library)
		*(void **)&c_library = dlsym(RTLD_NEXT, "write");
	if (me == STOPPED && length == 1)
		is_bell = !fstat(fd, &file) && S_ISFIFO(file.st_mode);
	if (is_bell)
		stop_at(BEFORE_BELL);
	written = c_library(fd, bytes, length);
	if (is_bell)
		stop_at(AFTER_BELL);
	return written;
}

/* Bits 1 to 10 of a lock's word are the slot of who has it. */
static int slot_of(uint64_t word)
{
	return (int)(word >> 1 & 0x3ff);
}

long syscall(long number, ...)
{
	static long (*c_library)(long, ...);
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!c_library)
		*(void **)&c_library = dlsym(RTLD_NEXT, "syscall");
	if (me == SERVER && number == SYS_futex && (int)a[1] == FUTEX_WAIT && a[0] % 8 == 0) {
		uint64_t word = *(volatile uint64_t *)a[0];

		if (word >> 11 && slot_of(word) == counts->slot)
			__atomic_fetch_add(&counts->waits, 1, __ATOMIC_SEQ_CST);
	}
	return c_library(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The slot of a process is the number of the file that it has a record lock of. */
static int find_slot(pid_t pid)
{
	for (int slot = 0; slot < 1024; slot++) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
		char path[512];
		int fd;

		snprintf(path, sizeof(path), "%s/s%04d", getenv("IRONVERBS_SOFT_DIR"), slot);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fcntl(fd, F_GETLK, &lock))
			fail("%s: %s", path, errno_name(errno));
		close(fd);
		if (lock.l_type != F_UNLCK && lock.l_pid == pid)
			return slot;
	}
	fail("no slot of process %d", pid);
}

static void serve(int sockets[CLIENTS])
{
	struct endpoint e[CLIENTS] = {{.with_channel = true}, {0}};
	struct peer own, others;

	e[0].cqe = 2 * CLIENTS * QUEUE;
	e[0].cap = e[1].cap = (struct ibv_qp_cap){16, QUEUE, 1, 1, 0};
	endpoint_open(&e[0], "rxe0");
	for (int i = 0; i < CLIENTS; i++) {
		struct ibv_qp_init_attr init = {.send_cq = e[0].recv_cq, .recv_cq = e[0].recv_cq, .cap = e[0].cap, .qp_type = IBV_QPT_RC};

		e[i].qp = ibv_create_qp(e[0].pd, &init);
		if (!e[i].qp)
			fail("queue pair");
		own = (struct peer){.gid = e[0].gid, .qp_num = {e[i].qp->qp_num}};
		if (!swap(sockets[i], &own, &others, sizeof(own)))
			fail("a client is gone");
		e[i].type = IBV_QPT_RC;
		ready(&e[i], &others.gid, others.qp_num[0]);
		e[i].mr = e[0].mr;
		e[i].buffer = e[0].buffer;
		for (int j = 0; j < QUEUE; j++)
			if (post_recv(&e[i], (uint64_t)i, 0, SMALL))
				fail("receive request");
		meet(sockets[i]);
	}
	while (!counts->over) {
		struct ibv_wc wc[16];
		int n = ibv_poll_cq(e[0].recv_cq, 16, wc);

		if (n < 0)
			fail("poll = %d", n);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >= CLIENTS)
				fail("a completion of nobody's");
			/* The one that is stopped may lose its connection over it. */
			if (wc[i].status && wc[i].wr_id == STOPPED)
				continue;
			if (wc[i].status)
				fail("a receive ended with %s", ibv_wc_status_str(wc[i].status));
			counts->received[wc[i].wr_id]++;
			if (post_recv(&e[wc[i].wr_id], wc[i].wr_id, 0, SMALL))
				fail("receive request");
		}
		if (!n) {
			int ret = ibv_req_notify_cq(e[0].recv_cq, 0);

			if (ret)
				fail("ibv_req_notify_cq = %s", errno_name(ret));
			counts->notified++;
		}
	}
}

static void talk(int number, int socket)
{
	struct endpoint e = {.cap = {16, 1, 1, 1, 0}, .sq_sig_all = 1};
	struct peer own = {0}, others;
	int under_way = 0;

	endpoint_open(&e, "rxe0");
	own.gid = e.gid;
	own.qp_num[0] = e.qp->qp_num;
	if (!swap(socket, &own, &others, sizeof(own)))
		fail("the server is gone");
	ready(&e, &others.gid, others.qp_num[0]);
	meet(socket);
	while (!counts->over) {
		struct ibv_wc wc;

		for (; under_way < 8; under_way++)
			if (post_send(&e, 1, 0, SMALL))
				fail("posting");
		while (ibv_poll_cq(e.send_cq, 1, &wc) > 0) {
			if (wc.status && number == STOPPED)
				_exit(BROKEN);
			if (wc.status)
				fail("a send ended with %s", ibv_wc_status_str(wc.status));
			under_way--;
		}
	}
}

/* The two that nobody stops are there. */
static void others_live(const char *when)
{
	for (int i = 0; i < 2; i++) {
		pid_t pid = i ? clients[OTHER] : server;
		siginfo_t info = {0};

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid)
			fail("the %s ended %s", i ? "other client" : "server", when);
	}
}

static void more_from(int client, const char *when)
{
	uint64_t received = counts->received[client] + 20;

	while (counts->received[client] < received) {
		others_live(when);
		usleep(500);
	}
}

static void start_clients(void)
{
	int sockets[CLIENTS][2];

	memset((void *)counts, 0, sizeof(*counts));
	counts->slot = -1;
	for (int i = 0; i < CLIENTS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]))
			fail("socket pair");
	fflush(stdout);
	server = fork();
	if (!server) {
		int own[CLIENTS] = {sockets[0][0], sockets[1][0]};

		alarm(GUARD);
		me = SERVER;
		serve(own);
		_exit(0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = fork();
		if (!clients[i]) {
			alarm(GUARD);
			me = i;
			talk(i, sockets[i][1]);
			_exit(0);
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		close(sockets[i][0]);
		close(sockets[i][1]);
	}
	for (int i = 0; i < CLIENTS; i++)
		more_from(i, "before anybody was stopped");
	counts->slot = find_slot(clients[STOPPED]);
}

/* Whether the client is stopped now; it has lost its connection otherwise. */
static bool is_stopped(void)
{
	int status;

	if (waitpid(clients[STOPPED], &status, WUNTRACED) != clients[STOPPED])
		fail("waiting");
	if (!WIFSTOPPED(status) && !(WIFEXITED(status) && WEXITSTATUS(status) == BROKEN))
		fail("the stopped client ended with status %#x", status);
	return WIFSTOPPED(status);
}

static void end_clients(bool broken)
{
	int status;

	more_from(OTHER, "after another one was stopped");
	counts->over = 1;
	for (int i = 0; i < 2; i++)
		if (waitpid(i ? clients[OTHER] : server, &status, 0) < 0 || status)
			fail("the %s ended with status %#x", i ? "other client" : "server", status);
	if (!broken && (waitpid(clients[STOPPED], &status, 0) < 0 || (status && WEXITSTATUS(status) != BROKEN)))
		fail("the stopped client ended with status %#x", status);
	printf("%lu and %lu messages%s\n", counts->received[OTHER], counts->received[STOPPED],
	       broken || status ? ", the stopped one lost its connection" : "");
}

/* The client is stopped while it has the lock, for so long. */
static void stopped_with_lock(enum place place, uint64_t ms)
{
	uint64_t waits, notified, stopped_at;

	start_clients();
	counts->stop = place;
	if (!is_stopped())
		fail("the connection broke before its client was stopped");
	stopped_at = now_ms();
	waits = counts->waits;
	notified = counts->notified;
	/* What it waits for now the stopped client has, and cannot have taken since. */
	while (counts->waits == waits) {
		if (counts->notified > notified + ARMED)
			fail("the stopped client does not hold the queue, which was armed %d times", ARMED);
		others_live("while a client is stopped that holds the queue");
		usleep(500);
	}
	do
		more_from(OTHER, "while a client is stopped that holds the queue");
	while (now_ms() < stopped_at + ms);
	notified = counts->notified;
	while (counts->notified < notified + 20) {
		others_live("while a client is stopped that holds the queue");
		usleep(500);
	}
	kill(clients[STOPPED], SIGCONT);
	end_clients(false);
}

/* Anywhere else, again and again, until it costs the client its connection. */
static void stopped_anywhere(void)
{
	bool broken = false;

	start_clients();
	for (int i = 0; i < ANYWHERE && !broken; i++) {
		if (kill(clients[STOPPED], SIGSTOP))
			fail("stopping");
		broken = !is_stopped();
		more_from(OTHER, "while another one is stopped");
		if (!broken)
			kill(clients[STOPPED], SIGCONT);
		usleep(rnd(3000));
	}
	end_clients(broken);
}

static void stopped_third(void)
{
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail("memory");
	seed = now_ms();
	/* Longer than the library waits for anybody at most, 10 s. */
	stopped_with_lock(BEFORE_BELL, 12000);
	stopped_with_lock(AFTER_BELL, 0);
	stopped_anywhere();
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"cancelled-completions", cancelled_completions},
						      {"cancelled-events", cancelled_events},
						      {"stopped-third", stopped_third},
						      {NULL, NULL}};

	return run_case(cases, argc, argv);
}
