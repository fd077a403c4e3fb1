/*
 * killed.c ROUNDS [SEED] - the peer is killed at any moment, and the survivor learns of it.
 *
 * In each round one process serves and the other one connects, exchanges nothing, disconnects, and connects
 * again, several connections at a time; one of the two gets SIGKILL: at a random moment, also while it opens
 * the device, binds or resolves; while it lets a request wait, of its own or of the survivor; or once so many
 * connections have come to stay. The survivor's identifiers must all come to an end: an established
 * connection to DISCONNECTED, a request to REJECTED, UNREACHABLE or CONNECT_ERROR, an accepted one to any
 * of these. Then every descriptor is closed again, and nothing stays in the device's folder.
 */
#include "descriptors.h"
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HANG_S 300 /* ends a wait for an event that never comes, in seconds */
#define AT_ONCE 4
#define IN_VAIN 1000 /* connections that have ended before a round is given up in which none comes to stay */

/* When the peer is killed. */
enum phase { AT_RANDOM, WITH_REQUEST, CONNECTED, PHASES };

/* What both sides of a round have come to, and the sum of all rounds. */
static struct {
	volatile int listening, requests, held, staying, ended; /* of this round */
	volatile int killed[PHASES], established;
} *shared;

static uint64_t seed;
static int port;
static enum phase phase;

static void one_more(volatile int *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
}

/* A victim that has a request waits here to be killed. One of its own that was answered and that nobody got was in vain. */
static void hold(int answers)
{
	struct pollfd place = {.fd = answers, .events = POLLIN};

	shared->held = 1;
	poll(&place, 1, -1);
	if (!shared->requests)
		shared->ended = IN_VAIN;
	for (;;)
		pause();
}

/* How a connection may end for the survivor, once it is the peer's death that ends it. */
static void check_end(const char *side, bool established, bool accepted, enum rdma_cm_event_type kind)
{
	if (established ? kind != RDMA_CM_EVENT_DISCONNECTED : !accepted && kind == RDMA_CM_EVENT_DISCONNECTED)
		die("%s: %s has ended with %s", side, established ? "a connection" : "a request", rdma_event_str(kind));
}

static unsigned int chance(unsigned int below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 20) % below;
}

/* Files that a process has left; who comes takes them away. */
static int leftovers(void)
{
	FILE *list = popen("newcomer > /dev/null 2>&1;"
			   "find \"${IRONVERBS_SOFT_DIR:-/dev/shm}\" -mindepth 1 '(' ! -type d -o -name 'cm-*' ')' ! -path '*/view-*'", "r");
	char line[512];
	int count = 0;

	while (fgets(line, sizeof(line), list)) {
		fprintf(stderr, "left: %s", line);
		count++;
	}
	pclose(list);
	return count;
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, int ms)
{
	struct rdma_cm_event *event;

	if (!readable(channel->fd, ms))
		return NULL;
	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event: %s", errno_name(errno));
	return event;
}

/* Whether it has one now: for a request whose sender is gone there is none, with the kernel neither. */
static bool qp_for(struct rdma_cm_id *id, bool requested)
{
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	bool done = rdma_create_qp(id, NULL, &init) == 0;

	if (!done && !(requested && errno == EINVAL))
		die("rdma_create_qp: %s", errno_name(errno));
	return done;
}

/* What a server knows of an identifier is its context: 0 requested or accepted, 1 established. */
static void server_side(int ready, volatile bool *peer_dead)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener, *open_ids[4096];
	struct rdma_cm_event *event;
	struct rdma_conn_param param = {0};
	int count = 0;

	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(listener, at("127.0.0.1", port)) ||
	    rdma_listen(listener, 16))
		die("listen on port %d: %s", port, errno_name(errno));
	shared->listening = 1;
	if (ready >= 0 && write(ready, "r", 1) != 1)
		die("write");
	for (;;) {
		bool over = peer_dead && *peer_dead;

		if (over && !count && !readable(channel->fd, 0))
			break;
		event = next(channel, over ? 1000 * HANG_S : 5);
		if (!event && over) {
			for (int i = 0; i < count; i++)
				note("a connection in state %ld has no end", (long)open_ids[i]->context);
			_exit(1);
		}
		if (!event)
			continue;
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;

		rdma_ack_cm_event(event);
		switch (kind) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			one_more(&shared->requests);
			if (!peer_dead && phase == WITH_REQUEST)
				hold(-1);
			id->context = NULL;
			if (phase != WITH_REQUEST && chance(8) == 0) {
				rdma_reject(id, NULL, 0);
				rdma_destroy_id(id);
				break;
			}
			if (!qp_for(id, true)) {
				rdma_destroy_id(id);
				break;
			}
			if (rdma_accept(id, &param)) { /* the client is gone: nobody says more of it */
				rdma_destroy_qp(id);
				rdma_destroy_id(id);
				break;
			}
			open_ids[count++] = id;
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			id->context = (void *)1;
			one_more(&shared->established);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			/* fallthrough */
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_CONNECT_ERROR:
			for (int i = 0; i < count; i++)
				if (open_ids[i] == id)
					open_ids[i] = open_ids[--count];
			check_end("server", id->context, true, kind);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			die("server: event %s", rdma_event_str(kind));
		}
	}
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *ask(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	/* Its context becomes 1 with the connection. */
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, at("127.0.0.1", port), 1000))
		die("resolve: %s", errno_name(errno));
	return id;
}

static void client_side(volatile bool *peer_dead)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_event *event;
	struct rdma_conn_param param = {.retry_count = 7};
	int open_ids = 0, at_once = !peer_dead && phase == WITH_REQUEST ? 1 : AT_ONCE;

	for (;;) {
		bool over = peer_dead && *peer_dead;

		while (!over && open_ids < at_once) {
			ask(channel);
			open_ids++;
		}
		if (over && !open_ids)
			break;
		event = next(channel, over ? 1000 * HANG_S : 5);
		if (!event && over)
			die("client: %d connections have no end", open_ids);
		if (!event)
			continue;
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;

		rdma_ack_cm_event(event);
		switch (kind) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			if (rdma_resolve_route(id, 1000))
				die("route: %s", errno_name(errno));
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			qp_for(id, false);
			if (rdma_connect(id, &param))
				die("connect: %s", errno_name(errno));
			if (!peer_dead && phase == WITH_REQUEST)
				hold(channel->fd);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			id->context = (void *)1;
			one_more(&shared->established);
			if (chance(3) == 0)
				rdma_disconnect(id);
			else
				one_more(&shared->staying);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			/* fallthrough */
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_CONNECT_ERROR:
			check_end("client", id->context, false, kind);
			one_more(&shared->ended);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			open_ids--;
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			die("client: event %s status", rdma_event_str(kind));
		}
	}
	rdma_destroy_event_channel(channel);
}

static volatile bool peer_dead;

static void on_child(int number)
{
	(void)number;
	peer_dead = true;
}

/* Whether the round has come to where the victim is to be killed. */
static bool is_reached(int staying)
{
	if (phase == WITH_REQUEST)
		return shared->held && shared->requests;
	return phase == AT_RANDOM || shared->staying >= staying;
}

/* Kills the victim, whose end of a pipe is closed with it, when the round has come to there, and tells the survivor. */
static void killer_of(pid_t victim, pid_t survivor, int alive, unsigned int after)
{
	struct pollfd end = {.fd = alive};
	int staying = 1 + (int)chance(AT_ONCE);

	while (!is_reached(staying) && shared->ended < IN_VAIN && getppid() == survivor && !poll(&end, 1, 1))
		;
	usleep(after);
	if (is_reached(staying))
		one_more(&shared->killed[phase]);
	kill(victim, SIGKILL);
	poll(&end, 1, -1);
	kill(survivor, SIGUSR1);
	_exit(0);
}

/*
 * The survivor of a round: it makes the victim and who kills it, and sees its own side to the end.
 */
static int round_of(bool victim_serves)
{
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	int ready[2], before, status;
	char byte;
	pid_t victim, killer;
	unsigned int after = chance(phase != AT_RANDOM ? 2000 : victim_serves ? 60000 : 120000);

	if (pipe(ready))
		die("pipe");
	victim = fork();
	if (!victim) {
		close(ready[0]);
		seed ^= (uint64_t)getpid() << 32;
		if (victim_serves)
			server_side(ready[1], NULL);
		else {
			if (write(ready[1], "r", 1) != 1)
				_exit(1);
			usleep(1000 * chance(40)); /* the survivor may listen by then, or not */
			while (phase != AT_RANDOM && !shared->listening)
				usleep(1000);
			client_side(NULL);
		}
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		die("the victim does not begin");
	sigaction(SIGUSR1, &action, NULL);
	before = getpid();
	killer = fork();
	if (!killer)
		killer_of(victim, before, ready[0], after);
	close(ready[0]);
	open_once();
	before = descriptors();
	if (victim_serves)
		client_side(&peer_dead);
	else
		server_side(-1, &peer_dead);
	if (descriptors() != before) {
		note("%d descriptors where %d were", descriptors(), before);
		return 1;
	}
	waitpid(victim, &status, 0);
	if (!WIFSIGNALED(status)) {
		note("the victim ended by itself: status 0x%x", status);
		return 1;
	}
	waitpid(killer, &status, 0);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, failed = 0, wanted[PHASES] = {0};

	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : now_ms() * 2654435761u + getpid();
	note("seed %llu", (unsigned long long)seed);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("memory");
	for (int i = 0; i < rounds; i++) {
		bool victim_serves = i / PHASES % 2;
		int status;
		pid_t survivor;

		phase = i % PHASES;
		wanted[phase]++;
		shared->listening = shared->requests = shared->held = shared->staying = shared->ended = 0;
		port = 7471 + i;
		survivor = fork();
		chance(5);
		if (!survivor) {
			alarm(3 * HANG_S);
			_exit(round_of(victim_serves));
		}
		waitpid(survivor, &status, 0);
		if (status) {
			note("round %d, the %s was killed: status 0x%x", i, victim_serves ? "server" : "client", status);
			failed++;
		}
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
			break;
	}
	failed += leftovers();
	note("killed at random %d, with a request %d, with connections %d; %d were established", shared->killed[AT_RANDOM],
	     shared->killed[WITH_REQUEST], shared->killed[CONNECTED], shared->established);
	for (int i = 0; i < PHASES; i++)
		if (shared->killed[i] < wanted[i]) {
			note("%d of %d were killed in phase %d", shared->killed[i], wanted[i], i);
			failed++;
		}
	note("%d rounds, %d failed", rounds, failed);
	return failed != 0;
}
