/*
 * cancel.c - a thread is cancelled while it waits in umad_recv or umad_poll, as OpenSM ends its receiver, or in
 * umad_send, and the library goes on working. A pipe takes the place of the device file, since a kernel that is
 * played in the process has no cancellation points of its own.
 */
#include "umad.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

static int descriptor, disabled;
static volatile pid_t thread_id;
static bool cleaned;
static uint8_t umad[64 + 256];

static void clean(void *unused)
{
	(void)unused;
	cleaned = true;
}

enum { RECV, RECV_LIMITED, POLL, POLL_LIMITED, SEND, CALLS };
static const char *const names[] = {"umad_recv", "umad_recv with a limit", "umad_poll", "umad_poll with a limit", "umad_send"};

static void call(int which)
{
	int length = 256;

	switch (which) {
	case RECV: umad_recv(descriptor, umad, &length, -1); break;
	case RECV_LIMITED: umad_recv(descriptor, umad, &length, 600000); break;
	case POLL: umad_poll(descriptor, -1); break;
	case POLL_LIMITED: umad_poll(descriptor, 600000); break;
	default: umad_send(descriptor, 0, umad, 256, 0, 0);
	}
}

static void *run(void *which)
{
	int before;

	thread_id = gettid();
	pthread_cleanup_push(clean, NULL);
	if (disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	call(*(int *)which);
	if (disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel(int which)
{
	int ends[2];
	pthread_t thread;
	void *result = NULL;

	if (pipe(ends))
		die("no pipe");
	descriptor = ends[which == SEND];
	if (which == SEND) {
		fcntl(ends[1], F_SETFL, O_NONBLOCK);
		while (write(ends[1], umad, sizeof umad) > 0)
			;
		fcntl(ends[1], F_SETFL, 0);
	}
	thread_id = 0;
	cleaned = false;
	if (pthread_create(&thread, NULL, run, &which))
		die("no thread");
	until_it_waits(&thread_id);
	pthread_cancel(thread);
	if (disabled) {
		/* It goes on waiting until the call ends by itself. */
		until_it_waits(&thread_id);
		close(ends[which != SEND]);
	}
	pthread_join(thread, &result);
	note("%s%s: cancelled %d, cleaned %d", names[which], disabled ? ", disabled" : "", result == PTHREAD_CANCELED, cleaned);
	if (!disabled)
		close(ends[which != SEND]);
	close(descriptor);
}

int main(int argc, char **argv)
{
	begin();
	signal(SIGPIPE, SIG_IGN);
	CALL_COUNT(umad_debug(argc > 1 ? atoi(argv[1]) : 0));
	for (disabled = 0; disabled < 2; disabled++)
		for (int which = 0; which < CALLS; which++)
			for (unsigned again = 0; again < 3; again++)
				cancel(which);
	/* Nothing is left locked. */
	CALL_COUNT(umad_get_fd(3));
	CALL_COUNT(umad_init());
	return end();
}
