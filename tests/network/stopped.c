/*
 * stopped.c ROUNDS [SEED] - one of two processes is stopped at any moment, and goes on later.
 *
 * In each round two processes load two RC queue pairs and a UC one in both directions, as in tests/soft/killed.c; one of them
 * gets SIGSTOP, also while it opens the device or connects. In every second round it goes on after some milliseconds, before
 * any retry is over: no request may fail, and what arrives is whole and in order. In the others it stays until the other one
 * has given it up (IBV_WC_RETRY_EXC_ERR and flush errors), and goes on then: it gets the same errors, since nobody answers it
 * any more. In half of all rounds the one that runs sleeps on its completion channel.
 */
#define TIMEOUT timeout
static int timeout;
#include "../soft/load.h"

#define LONG 20  /* 4.3 s, three times: no stop of these rounds is as long */
#define SHORT 18 /* 1.07 s, three times: a peer that lives must have answered, however busy the machine */

static void side(int socket, bool asleep)
{
	alarm(HANG_S);
	open_side();
	if (!connect_side(socket))
		_exit(0);
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
	_exit(0);
}

static pid_t start(int socket, int other, bool asleep)
{
	pid_t pid = fork();

	if (!pid) {
		close(other);
		seed ^= (uint64_t)getpid() << 32;
		side(socket, asleep);
	}
	return pid;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Until this many messages more have arrived. */
static void await_messages(uint64_t more, const pid_t pids[2])
{
	uint64_t enough = shared->received + more;

	while ((shared->loading < 2 || shared->received < enough) && !has_ended(pids[0]) && !has_ended(pids[1]))
		usleep(100);
}

static int end_of(int round, const char *who, pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	if (status)
		fprintf(stderr, "round %d: %s ended with status %#x\n", round, who, status);
	return !!status;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, failed = 0, given_up = 0;
	uint64_t started = now_ms();

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() ^ started << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	load_init();
	for (int round = 0; round < rounds; round++) {
		bool comes_back = round % 2;
		int sockets[2];
		pid_t pids[2]; /* the one that is stopped, the other one */

		timeout = comes_back ? LONG : SHORT;
		shared->gone_at = 0;
		shared->loading = shared->finished = shared->enough = 0;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
			fail("socket pair");
		pids[0] = start(sockets[0], sockets[1], false);
		pids[1] = start(sockets[1], sockets[0], round / 2 % 2);
		close(sockets[0]);
		close(sockets[1]);
		if (comes_back && !rnd(4))
			usleep(rnd(8000));
		else
			await_messages(rnd(500), pids);
		if (!comes_back)
			shared->gone_at = now_ms();
		kill(pids[0], SIGSTOP);
		if (comes_back) {
			usleep(rnd(200000));
			kill(pids[0], SIGCONT);
			await_messages(100, pids);
			shared->enough = 1;
		} else {
			failed += end_of(round, "the one that ran", pids[1]);
			shared->gone_at = now_ms();
			kill(pids[0], SIGCONT);
			given_up++;
			pids[1] = 0;
		}
		failed += end_of(round, "the one that was stopped", pids[0]);
		if (pids[1])
			failed += end_of(round, "the one that ran", pids[1]);
	}
	printf("%d rounds in %lu ms, %d given up, %lu requests posted, %lu messages received, %lu sleeps\n", rounds,
	       now_ms() - started, given_up, shared->posted, shared->received, shared->slept);
	printf("%d failed\n", failed);
	return failed ? 1 : 0;
}
