/*
 * threads.c - threads of a program at one port: cancelled while they wait, interrupted by signals, at the same file at once,
 * and a child. A pair of sockets is the device file, so that the C library's own calls are what a thread waits in.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "umad.h"

enum { DATAGRAM = 256, ROUNDS = 2000, SENDERS = 4 };

/* The program's end of the file, and the kernel's. */
static int file[2];

static void make_file(int flags)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, file))
		die("no sockets");
}

static void end_file(void)
{
	close(file[0]);
	close(file[1]);
}

/* A datagram for this agent. */
static void arrives(uint32_t agent)
{
	uint8_t whole[64 + DATAGRAM] = {0};

	memcpy(whole, &agent, sizeof agent);
	if (write(file[1], whole, umad_size() + DATAGRAM) < 0)
		die("no datagram");
}

static int receive(int timeout_ms)
{
	uint8_t buffer[64 + DATAGRAM];
	int length = DATAGRAM;

	return umad_recv(file[0], buffer, &length, timeout_ms);
}

static int transmit(void)
{
	uint8_t buffer[64 + DATAGRAM] = {0};

	return umad_send(file[0], 7, buffer, DATAGRAM, 0, 0);
}

static int receive_for_ever(void) { return receive(-1); }
static int receive_for_long(void) { return receive(60000); }
static int receive_in_read(void) { return receive(0); }
static int wait_in_poll(void) { return umad_poll(file[0], -1); }

static int send_until_full(void)
{
	while (!transmit())
		;
	return -1;
}

static const struct waiter {
	const char *name;
	int (*wait)(void);
	bool asynchronous;
	int flags;
} waiters[] = {
	{"umad_recv for ever", receive_for_ever, false, SOCK_NONBLOCK},
	{"umad_recv for ever, asynchronous", receive_for_ever, true, SOCK_NONBLOCK},
	{"umad_recv for long", receive_for_long, false, SOCK_NONBLOCK},
	{"umad_recv of a file that blocks", receive_in_read, false, 0},
	{"umad_poll", wait_in_poll, false, SOCK_NONBLOCK},
	{"umad_poll, asynchronous", wait_in_poll, true, SOCK_NONBLOCK},
	{"umad_send of a file that blocks", send_until_full, false, 0},
};

static int cleaned;
/* The thread that is about to wait, once it runs. */
static volatile pid_t waiting;

static void clean(void *unused)
{
	(void)unused;
	cleaned++;
}

static void *wait_for_cancel(void *waiter)
{
	const struct waiter *w = waiter;

	if (w->asynchronous)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, NULL);
	waiting = gettid();
	note("returned %d", w->wait());
	pthread_cleanup_pop(0);
	return NULL;
}

/* As OpenSM ends its receiver. What comes afterwards is there for others. */
static void cancelled(const struct waiter *w)
{
	pthread_t thread;
	void *how;

	make_file(w->flags);
	cleaned = 0;
	waiting = 0;
	if (pthread_create(&thread, NULL, wait_for_cancel, (void *)w))
		die("no thread");
	if (!until_asleep(&waiting, is_for_file))
		die("the thread does not wait");
	pthread_cancel(thread);
	pthread_join(thread, &how);
	note("%s: cancelled %d, cleaned %d", w->name, how == PTHREAD_CANCELED, cleaned);
	arrives(3);
	CALL_COUNT(receive(1000));
	end_file();
}

/* A request to cancel that is pending acts in the first call that waits, and not in one that does not. */
static void *cancel_itself(void *unused)
{
	(void)unused;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	note("while disabled %d", receive(10));
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	note("size %zu, fd %d", umad_size(), umad_get_fd(5));
	receive(0);
	note("not cancelled");
	return NULL;
}

static void pending(void)
{
	pthread_t thread;
	void *how;

	make_file(SOCK_NONBLOCK);
	if (pthread_create(&thread, NULL, cancel_itself, NULL))
		die("no thread");
	pthread_join(thread, &how);
	note("pending: cancelled %d", how == PTHREAD_CANCELED);
	end_file();
}

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

/* Signals for the first thread: so many waits of its have begun, and each gets one once the thread waits. */
static volatile int begun, signals;

static void *interrupt(void *unused)
{
	for (int sent = 0; sent < signals; sent++) {
		while (begun == sent || !is_asleep(getpid(), is_poll))
			usleep(200);
		tgkill(getpid(), getpid(), SIGUSR1);
		/* Not another one for the same wait. */
		while (begun == sent + 1 && is_asleep(getpid(), is_poll))
			usleep(200);
	}
	return unused;
}

/* A signal ends the wait, whether or not its handler wants calls to go on. */
static void interrupted(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t thread;

	make_file(SOCK_NONBLOCK);
	signals = 8;
	if (pthread_create(&thread, NULL, interrupt, NULL))
		die("no thread");
	for (int restart = 0; restart < 2; restart++)
		for (int timeout = -1; timeout < 1000000; timeout += 600001) {
			action.sa_flags = restart ? SA_RESTART : 0;
			sigaction(SIGUSR1, &action, NULL);
			begun++;
			CALL_COUNT(receive(timeout));
			note("signals %d", handled);
			begun++;
			CALL_COUNT(umad_poll(file[0], timeout));
			note("signals %d", handled);
		}
	pthread_join(thread, NULL);
	end_file();
}

/* Files that are closed, of another kind, or of which the other end is closed. */
static void wrong(void)
{
	int pipes[2], own = file[0];
	static const int numbers[] = {-1, INT32_MAX, 1000, -64, INT32_MIN};

	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		file[0] = numbers[i];
		CALL_COUNT(receive(0));
		CALL_COUNT(receive(10));
		CALL_COUNT(transmit());
		CALL_COUNT(umad_poll(file[0], 10));
		CALL_COUNT(umad_unregister(file[0], 1));
		CALL_COUNT(umad_register(file[0], 4, 1, 0, NULL));
		CALL_INT(umad_close_port(file[0]));
	}
	if (pipe(pipes))
		die("no pipe");
	file[0] = pipes[0];
	CALL_COUNT(transmit());
	CALL_COUNT(receive(10));
	close(pipes[1]);
	CALL_COUNT(receive(10));
	close(pipes[0]);
	file[0] = own;
	make_file(SOCK_NONBLOCK);
	close(file[1]);
	signal(SIGPIPE, SIG_IGN);
	CALL_COUNT(transmit());
	CALL_COUNT(umad_poll(file[0], 10));
	CALL_COUNT(receive(10));
	CALL_COUNT(receive(-1));
	close(file[0]);
}

static void child(void)
{
	int status;
	pid_t pid;

	make_file(SOCK_NONBLOCK);
	CALL_COUNT(receive(1));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(receive(60000) == 9 ? 5 : 1);
	until_asleep(&pid, is_for_file);
	arrives(9);
	waitpid(pid, &status, 0);
	note("child has it %d", WIFEXITED(status) && WEXITSTATUS(status) == 5);
	CALL_COUNT(receive(1));
	end_file();
}

static int taken;

static void *take_many(void *unused)
{
	while (receive(-1) == 1)
		__atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
	return unused;
}

static void *look_at_cards(void *unused)
{
	umad_port_t port;
	umad_ca_t ca;

	for (unsigned i = 0; i < 100; i++) {
		if (!umad_get_ca(NULL, &ca))
			umad_release_ca(&ca);
		if (!umad_get_port(NULL, 0, &port))
			umad_release_port(&port);
		umad_free_ca_device_list(umad_get_ca_device_list());
	}
	return unused;
}

/* Each datagram reaches one of the threads that wait at the same file. */
static void at_once(void)
{
	pthread_t threads[2 * SENDERS];

	make_file(SOCK_NONBLOCK);
	fcntl(file[1], F_SETFL, 0);
	for (unsigned i = 0; i < 2 * SENDERS; i++)
		if (pthread_create(threads + i, NULL, i % 2 ? take_many : look_at_cards, NULL))
			die("no thread");
	for (unsigned i = 0; i < ROUNDS; i++)
		arrives(1);
	/* One ends each of them. */
	for (unsigned i = 0; i < SENDERS; i++)
		arrives(2);
	for (unsigned i = 0; i < 2 * SENDERS; i++)
		pthread_join(threads[i], NULL);
	note("taken %d", taken);
	end_file();
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(280);
	for (unsigned i = 0; i < sizeof waiters / sizeof *waiters; i++)
		cancelled(waiters + i);
	umad_debug(1);
	cancelled(waiters);
	umad_debug(0);
	pending();
	interrupted();
	wrong();
	child();
	at_once();
	return end();
}
