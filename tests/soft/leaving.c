/*
 * leaving.c - a program that communicates until its very end, as it may with a device of the kernel.
 *
 * A destructor, which runs after everything registered with atexit(), sends a message and waits for its completion; the peer
 * gets it. At exit the process leaves nothing in the folder, though it closed nothing, and threads of it wait for events, for a
 * file, a condition, a word, and each other, or pause: for long, or shortly and then wait; and so many wait for a word that a
 * look at all of them takes long. A child of it that ends before takes nothing away. Nor is anything left by a process whose
 * first thread has ended before.
 */
#include "peer.h"

#include <dirent.h>
#include <linux/futex.h>

#include "../asleep.h"

static struct endpoint e;
static int leaves;

static void say(const char *text)
{
	struct ibv_sge sge = {(uintptr_t)e.buffer, (uint32_t)strlen(text) + 1, e.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	strcpy((char *)e.buffer, text);
	if (ibv_post_send(e.qp, &wr, &bad))
		fail("%s: posting", text);
	if (!next_wc(e.send_cq, &wc) || wc.status != IBV_WC_SUCCESS)
		fail("%s: %s", text, ibv_wc_status_str(wc.status));
}

static void hear(const char *text)
{
	struct ibv_wc wc;

	if (!next_wc(e.recv_cq, &wc) || wc.status != IBV_WC_SUCCESS)
		fail("%s: not received", text);
	if (strcmp((char *)e.buffer + 64 * wc.wr_id, text))
		fail("%s: received %s", text, (char *)e.buffer + 64 * wc.wr_id);
	printf("received: %s\n", text);
}

__attribute__((destructor)) static void last_words(void)
{
	if (leaves)
		say("from a destructor");
}

static void from_atexit(void)
{
	if (leaves)
		say("from atexit");
}

/* What is in the folder, but for hidden names. */
static int names(const char *folder)
{
	DIR *open = opendir(folder);
	int count = 0;

	for (struct dirent *entry; open && (entry = readdir(open));)
		count += entry->d_name[0] != '.';
	if (open)
		closedir(open);
	return count;
}

enum { THREADS = 7, CROWD = 100 };

static pid_t waits[THREADS];
static pthread_t first;

static void *for_completion(void *none)
{
	struct ibv_comp_channel *channel = none;
	struct ibv_cq *cq;

	waits[0] = (pid_t)syscall(SYS_gettid);
	if (!ibv_get_cq_event(channel, &cq, &none))
		ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void *for_file(void *none)
{
	int *pipe = none;

	waits[1] = (pid_t)syscall(SYS_gettid);
	(void)!read(pipe[0], pipe, sizeof(*pipe));
	return NULL;
}

static void *for_condition(void *none)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	waits[2] = (pid_t)syscall(SYS_gettid);
	pthread_mutex_lock(&mutex);
	while (!none)
		pthread_cond_wait(&never, &mutex);
	return NULL;
}

static void *for_thread(void *none)
{
	waits[3] = (pid_t)syscall(SYS_gettid);
	pthread_join(first, &none);
	return NULL;
}

/* As QEMU's threads wait: for a word that other processes could change. */
static void for_ever(void)
{
	static int word;

	for (;;)
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void *for_word(void *none)
{
	waits[4] = (pid_t)syscall(SYS_gettid);
	for_ever();
	return none;
}

static pid_t crowd[CROWD];

static void *for_word_too(void *number)
{
	*(pid_t *)number = (pid_t)syscall(SYS_gettid);
	for_ever();
	return NULL;
}

static void *pauses(void *none)
{
	waits[5] = (pid_t)syscall(SYS_gettid);
	sleep(100000);
	return none;
}

static void *pauses_and_waits(void *none)
{
	waits[6] = (pid_t)syscall(SYS_gettid);
	for (int i = 0; i < 5; i++)
		usleep(10000);
	for_ever();
	return none;
}

static int is_either(long call)
{
	return is_wait(call) || is_pause(call);
}

/* Has the process end while threads of it wait for ever, or pause. */
static void leave_threads(void)
{
	static int pipes[2];
	struct ibv_comp_channel *channel = ibv_create_comp_channel(e.context);
	pthread_t thread;

	if (!channel || pipe(pipes) || pthread_create(&first, NULL, for_completion, channel) ||
	    pthread_create(&thread, NULL, for_file, pipes) || pthread_create(&thread, NULL, for_condition, NULL) ||
	    pthread_create(&thread, NULL, for_thread, NULL) || pthread_create(&thread, NULL, for_word, NULL) ||
	    pthread_create(&thread, NULL, pauses, NULL) || pthread_create(&thread, NULL, pauses_and_waits, NULL))
		fail("threads");
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&thread, NULL, for_word_too, &crowd[i]) || !until_asleep(&crowd[i], is_wait))
			fail("thread %d of many", i);
	for (int i = 0; i < THREADS; i++)
		if (!until_asleep(&waits[i], i < 5 ? is_wait : is_either))
			fail("thread %d has ended", i);
}

/* A child that ends as every process does. */
static void leave_by_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		leaves = 0;
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		fail("a child ended with status %#x", status);
}

static pid_t leader;

static void *ends_process(void *none)
{
	while (asleep_in(leader) != GONE)
		usleep(200);
	exit(none != NULL);
}

/* A process whose first thread has ended leaves nothing either. */
static void leave_by_another_thread(void)
{
	pthread_t thread;
	int status;
	pid_t pid = fork();

	if (!pid) {
		endpoint_open(&e, "rxe0");
		leader = getpid();
		if (pthread_create(&thread, NULL, ends_process, NULL))
			fail("thread");
		pthread_exit(NULL);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		fail("a process without its first thread ended with status %#x", status);
}

int main(void)
{
	struct peer own = {0}, peer;
	char folder[64];
	int sockets[2], status;
	pid_t pid;

	if (atexit(from_atexit) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("setup");
	pid = fork();
	close(sockets[!pid]);
	alarm(HANG_S);
	endpoint_open(&e, "rxe0");
	own.gid = e.gid;
	own.qp_num[0] = e.qp->qp_num;
	if (!swap(sockets[!!pid], &own, &peer, sizeof(own)))
		fail("the peer is gone");
	ready(&e, &peer.gid, peer.qp_num[0]);
	for (int i = 0; i < 3; i++)
		if (post_recv(&e, i, 64 * i, 64))
			fail("receive request");
	meet(sockets[!!pid]);
	if (!pid) {
		leaves = 1;
		leave_by_child();
		say("from main");
		leave_threads();
		return 0;
	}
	hear("from main");
	hear("from atexit");
	hear("from a destructor");
	waitpid(pid, &status, 0);
	if (status)
		fail("the other process ended with status %#x", status);
	snprintf(folder, sizeof(folder), "/dev/shm/ironverbs-%u", geteuid());
	if (!names(folder))
		fail("no names in %s while the device is open", folder);
	endpoint_close(&e);
	/* The own names go with the device's own thread, if that is at work just now. */
	for (uint64_t hang = now_ms() + 500 * HANG_S; names(folder); usleep(10000))
		if (now_ms() > hang)
			fail("%d names are left in %s", names(folder), folder);
	leave_by_another_thread();
	if (names(folder))
		fail("%d names are left in %s by a process without its first thread", names(folder), folder);
	printf("nothing is left\n");
	return 0;
}
