/*
 * killed.c ROUNDS [SEED] - the peer is killed at any moment, and the survivor goes on as after a cable was cut.
 *
 * In each round two processes load two RC queue pairs and a UC one in both directions with sends, writes, reads and
 * atomics; one of them gets SIGKILL at a random moment, also while it opens the device or connects. The survivor must get
 * IBV_WC_RETRY_EXC_ERR for one request of each RC queue pair within its time-out and flush errors for those behind it, a
 * completion for every request, and what it received until then must be whole and in order. In every second round it
 * sleeps on its completion channel instead of polling.
 */
#include "load.h"

static void side(int socket, bool asleep)
{
	alarm(HANG_S);
	open_side();
	if (!connect_side(socket))
		_exit(0); /* killed before */
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

/* Whether one of the two has ended; it is still to be waited for. */
static bool one_has_ended(void)
{
	siginfo_t info = {0};

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Until both are connected, and some messages more have arrived. */
static void wait_for_load(void)
{
	while (shared->loading < 2 && !one_has_ended())
		usleep(1000);
	uint64_t enough = shared->received + rnd(500);
	while (shared->received < enough && !one_has_ended())
		usleep(100);
}

/* Files that a process has left; a device that is opened and closed takes them away. */
static int leftovers(void)
{
	int count = 0, status;
	FILE *list;
	char line[512];

	/* Twice: tests/network has two hosts, on which children are by turns. */
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(ibv_close_device(open_device("rxe0")) ? 1 : 0);
		waitpid(pid, &status, 0);
		if (status)
			fail("opening the device afterwards");
	}
	list = popen("find \"${IRONVERBS_SOFT_DIR:-/dev/shm}\" -mindepth 1 ! -type d ! -path '*/view-*'", "r");
	while (fgets(line, sizeof(line), list)) {
		fprintf(stderr, "left: %s", line);
		count++;
	}
	pclose(list);
	return count;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, failed = 0, loaded = 0;
	uint64_t started = now_ms(), slowest = 0;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() ^ started << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	load_init();
	for (int round = 0; round < rounds; round++) {
		int sockets[2], status;
		bool early = rnd(4) == 0;
		pid_t victim, survivor;
		uint64_t killed;

		shared->gone_at = 0;
		shared->loading = shared->finished = 0;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
			fail("socket pair");
		rnd(2);
		victim = start(sockets[0], sockets[1], false);
		survivor = start(sockets[1], sockets[0], round % 2);
		close(sockets[0]);
		close(sockets[1]);
		if (early)
			usleep(rnd(8000));
		else
			wait_for_load();
		shared->gone_at = killed = now_ms();
		kill(victim, SIGKILL);
		waitpid(victim, &status, 0);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
			fprintf(stderr, "round %d: the victim ended by itself, status %#x\n", round, status);
			failed++;
		}
		waitpid(survivor, &status, 0);
		if (status) {
			fprintf(stderr, "round %d (%s): the survivor ended with status %#x\n", round,
				round % 2 ? "events" : "polling", status);
			failed++;
		}
		if (!early && shared->loading < 2) {
			fprintf(stderr, "round %d: nobody was under load\n", round);
			failed++;
		}
		loaded += shared->loading == 2;
		slowest = now_ms() - killed > slowest ? now_ms() - killed : slowest;
	}
	failed += leftovers();
	printf("%d rounds in %lu ms, %d killed under load, %lu requests posted, %lu messages received, %lu sleeps, "
	       "slowest survivor %lu ms\n",
	       rounds, now_ms() - started, loaded, shared->posted, shared->received, shared->slept, slowest);
	if (rounds >= 20 && !shared->slept) {
		fprintf(stderr, "no survivor slept\n");
		failed++;
	}
	printf("%d failed\n", failed);
	return failed ? 1 : 0;
}
