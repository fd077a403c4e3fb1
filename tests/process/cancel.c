/*
 * cancel.c - threads that are cancelled within a verb.
 *
 * Waiting for an event, a thread is cancelled at once, its cleanup handlers run, and the next event reaches another thread.
 * Everywhere else the verb is finished first: the request acts at the thread's next cancellation point. Whatever was
 * cancelled, the process goes on, and its objects work.
 *
 * Also built with FRAMES, frames of C++ above the verbs: cancelling runs their destructors and passes their catch (...).
 */
#include "../asleep.h"
#include "../soft/peer.h"

static struct endpoint a, b;
static int failed;

#define EXPECT(condition, what)                                                                                          \
	do {                                                                                                                 \
		if (!(condition)) {                                                                                              \
			printf("FAIL line %d: %s\n", __LINE__, what);                                                                \
			failed++;                                                                                                    \
		}                                                                                                                \
	} while (0)

/* A thread and what became of it. */
struct worker {
	pthread_t thread;
	volatile pid_t tid;
	volatile int cleaned;    /* cleanup handlers that ran */
	volatile int unwound;    /* C++: destructors and catch blocks that ran */
	volatile int finished;   /* the verb came back */
	volatile int result;     /* with this */
	volatile bool go;        /* may enter the verb */
	int (*verb)(void);
	bool pending;            /* is cancelled before it enters the verb */
	bool disabled;           /* has disabled cancellation */
};

static void clean(void *w)
{
	((struct worker *)w)->cleaned++;
}

#ifdef FRAMES
/* Frames of C++ (frames.cpp): their destructor and their catch (...) count themselves in `unwound`. */
void through_frames(void (*enter)(void *), void *w, volatile int *unwound);
#else
#define through_frames(enter, w, unwound) (enter)(w)
#endif

static void enter(void *argument)
{
	struct worker *w = argument;
	int result = w->verb();

	w->result = result;
	w->finished = 1;
}

static void *work(void *argument)
{
	struct worker *w = argument;

	if (w->pending || w->disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	w->tid = gettid();
	pthread_cleanup_push(clean, w);
	while (w->pending && !w->go)
		usleep(100);
	if (w->pending)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	through_frames(enter, w, &w->unwound);
	if (w->disabled) {
		int before = -1;

		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
		if (before != PTHREAD_CANCEL_DISABLE)
			w->result = -99;
	}
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

/* Until the thread waits in its verb, or has ended. */
static void asleep(const struct worker *w)
{
	until_asleep(&w->tid, is_wait);
}

static void start(struct worker *w)
{
	if (pthread_create(&w->thread, NULL, work, w))
		fail("pthread_create");
	while (!w->tid)
		usleep(100);
	if (w->pending) {
		pthread_cancel(w->thread);
		w->go = true;
	}
}

static void *join(struct worker *w)
{
	void *end;

	pthread_join(w->thread, &end);
	return end;
}

static void was_cancelled(struct worker *w, const char *what)
{
	EXPECT(join(w) == PTHREAD_CANCELED, what);
	EXPECT(w->cleaned == 1, what);
#ifdef FRAMES
	EXPECT(w->unwound == (w->finished ? 0 : 2), what);
#endif
}

/* Verbs. */

static struct ibv_cq *event_cq;
static int get_cq_event(void)
{
	void *context;
	int result = ibv_get_cq_event(b.channel, &event_cq, &context);

	if (!result)
		ibv_ack_cq_events(event_cq, 1);
	return result;
}

static struct ibv_async_event event;
static int get_async_event(void)
{
	int result = ibv_get_async_event(b.context, &event);

	if (!result)
		ibv_ack_async_event(&event);
	return result;
}

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_srq *srq;
static int destroy_cq(void) { return ibv_destroy_cq(cq); }
static int destroy_qp(void) { return ibv_destroy_qp(qp); }
static int destroy_srq(void) { return ibv_destroy_srq(srq); }

/* A message that makes a completion event of b's channel. */
static void send_one(void)
{
	struct ibv_wc wc;

	if (ibv_req_notify_cq(b.recv_cq, 0) || post_recv(&b, 1, 0, 64) || post_send(&a, 2, 0, 64) ||
	    !next_wc(a.send_cq, &wc) || wc.status)
		fail("a message for an event");
}

static void take_one(void)
{
	struct ibv_wc wc;

	if (!next_wc(b.recv_cq, &wc) || wc.status)
		fail("its completion");
}

/* Who is cancelled while it waits for an event, or before that, takes none away from the next one. */
static void waiting(int (*verb)(void), const char *what, void (*cause)(void), void (*check)(void))
{
	for (int pending = 0; pending < 2; pending++) {
		struct worker cancelled = {}, next = {};

		cancelled.verb = next.verb = verb;
		cancelled.pending = pending;
		start(&cancelled);
		if (!pending) {
			asleep(&cancelled);
			pthread_cancel(cancelled.thread);
		}
		was_cancelled(&cancelled, what);
		EXPECT(!cancelled.finished, "the verb did not come back");
		start(&next);
		cause();
		EXPECT(join(&next) == NULL && next.finished && !next.result, "the next event reaches another thread");
		check();
	}
}

static void take_event(void)
{
	EXPECT(event_cq == b.recv_cq, "and is the queue's");
	take_one();
}

static void completion_events(void)
{
	waiting(get_cq_event, "cancelled in ibv_get_cq_event", send_one, take_event);
	struct worker disabled = {};
	disabled.verb = get_cq_event;
	disabled.disabled = true;
	start(&disabled);
	asleep(&disabled);
	pthread_cancel(disabled.thread);
	asleep(&disabled);
	EXPECT(!disabled.finished, "who disabled cancellation waits on");
	send_one();
	was_cancelled(&disabled, "cancelled once it allows it");
	EXPECT(disabled.finished && !disabled.result, "after it got the event");
	take_one();
}

/* An asynchronous event: moving to the state SQD makes one. */
static void drain(void)
{
	struct ibv_qp_attr attr = {};

	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	if (ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY))
		fail("SQD");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(b.qp, &attr, IBV_QP_STATE))
		fail("RTS");
}

static void is_drained(void)
{
	EXPECT(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == b.qp, "and is the queue pair's");
}

static void asynchronous_events(void)
{
	waiting(get_async_event, "cancelled in ibv_get_async_event", drain, is_drained);
}

/* Destroys with an event that nobody acknowledged: the thread is cancelled after the object is gone. */
static void destroying(int (*verb)(void), void (*acknowledge)(void), const char *what)
{
	struct worker w = {};

	w.verb = verb;
	start(&w);
	asleep(&w);
	EXPECT(!w.finished, what);
	pthread_cancel(w.thread);
	asleep(&w);
	EXPECT(!w.finished && !w.cleaned, what);
	acknowledge();
	was_cancelled(&w, what);
	EXPECT(w.finished && !w.result, what);
}

static struct ibv_async_event unacknowledged;
static void acknowledge_event(void) { ibv_ack_async_event(&unacknowledged); }
static void acknowledge_cq(void) { ibv_ack_cq_events(cq, 1); }

static void destructions(void)
{
	struct endpoint from = {}, to = {};
	struct ibv_wc wc;
	struct ibv_cq *got;
	void *context;

	to.with_channel = true;
	open_pair(&from, &to, "rxe0", "rxe0");
	/* A completion event, whose queue pair goes first. */
	if (ibv_req_notify_cq(to.recv_cq, 0) || post_recv(&to, 1, 0, 64) || post_send(&from, 2, 0, 64) ||
	    !next_wc(from.send_cq, &wc) || wc.status || ibv_get_cq_event(to.channel, &got, &context) || got != to.recv_cq)
		fail("a completion event");
	struct ibv_qp_attr attr = {};
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	if (ibv_modify_qp(to.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) ||
	    ibv_get_async_event(to.context, &unacknowledged) || unacknowledged.element.qp != to.qp)
		fail("an event of the queue pair");
	qp = to.qp;
	destroying(destroy_qp, acknowledge_event, "ibv_destroy_qp");
	to.qp = NULL;
	cq = to.recv_cq;
	destroying(destroy_cq, acknowledge_cq, "ibv_destroy_cq");
	to.recv_cq = NULL;

	struct ibv_srq_init_attr init = {};
	init.attr.max_wr = 16;
	init.attr.max_sge = 1;
	struct endpoint receiver = {}, sender = {};
	receiver.context = open_device("rxe0");
	receiver.pd = ibv_alloc_pd(receiver.context);
	srq = receiver.srq = ibv_create_srq(receiver.pd, &init);
	if (!srq)
		fail("ibv_create_srq");
	endpoint_open_on(&receiver, receiver.context, receiver.pd);
	endpoint_open(&sender, "rxe0");
	connect_pair(&receiver, &sender);
	struct ibv_sge sge = {(uintptr_t)receiver.buffer, 64, receiver.mr->lkey};
	struct ibv_recv_wr wr = {}, *bad;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	struct ibv_srq_attr limit = {};
	limit.srq_limit = 2;
	if (ibv_post_srq_recv(srq, &wr, &bad) || ibv_post_srq_recv(srq, &wr, &bad) ||
	    ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) || post_send(&sender, 1, 0, 32) || !next_wc(sender.send_cq, &wc) ||
	    wc.status || ibv_get_async_event(receiver.context, &unacknowledged) || unacknowledged.element.srq != srq)
		fail("an event of the shared receive queue");
	if (ibv_destroy_qp(receiver.qp))
		fail("ibv_destroy_qp");
	destroying(destroy_srq, acknowledge_event, "ibv_destroy_srq");
}

/* Everything else: a request that is pending all the time acts afterwards. */
static int control_verbs(void)
{
	struct endpoint x = {}, y = {};
	struct ibv_wc wc;
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_device_attr attr;

	if (!list)
		return 1;
	ibv_free_device_list(list);
	open_pair(&x, &y, "rxe0", "rxe1");
	if (ibv_query_device(x.context, &attr) || ibv_create_cq(x.context, -1, NULL, NULL, 0))
		return 2;
	if (post_recv(&y, 1, 0, 8192) || post_send(&x, 2, 0, 8192))
		return 3;
	while (!(n = ibv_poll_cq(y.recv_cq, 1, &wc)))
		;
	if (n < 0 || wc.status)
		return 4;
	endpoint_close(&x);
	endpoint_close(&y);
	return 0;
}

/* The other process, which this one meets first in the posting thread: what it opens of it, it opens there. */
static struct endpoint near;
static int first_send(void)
{
	struct ibv_wc wc;
	int n;

	if (post_send(&near, 2, 0, 64))
		return 1;
	while (!(n = ibv_poll_cq(near.send_cq, 1, &wc)))
		;
	return n < 0 || wc.status;
}

static void first_message(void)
{
	int sockets[2], status;
	pid_t pid;
	struct peer own, others;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	fflush(stdout);
	pid = fork();
	close(sockets[!pid]);
	near.with_channel = !pid;
	endpoint_open(&near, "rxe0");
	own.gid = near.gid;
	own.qp_num[0] = near.qp->qp_num;
	if (!swap(sockets[!!pid], &own, &others, sizeof(own)))
		fail("the peer is gone");
	ready(&near, &others.gid, others.qp_num[0]);
	if (!pid) {
		struct ibv_wc wc;
		struct ibv_cq *rung;
		void *context;

		if (ibv_req_notify_cq(near.recv_cq, 0) || post_recv(&near, 1, 0, 64) || !meet(sockets[0]) ||
		    ibv_get_cq_event(near.channel, &rung, &context) || !next_wc(near.recv_cq, &wc) || wc.status)
			fail("the message that rings");
		_exit(0);
	}
	if (!meet(sockets[1]))
		fail("the peer is gone");
	struct worker w = {};
	w.verb = first_send;
	w.pending = true;
	start(&w);
	was_cancelled(&w, "posting");
	EXPECT(w.finished && !w.result, "posting is finished first");
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0, "the message arrived and rang");
}

int main(void)
{
	alarm(280); /* ends a hang */
	/* First, so that the pending thread is the first that opens anything. */
	struct worker w = {};
	w.verb = control_verbs;
	w.pending = true;
	start(&w);
	was_cancelled(&w, "control verbs");
	EXPECT(w.finished && !w.result, "control verbs are finished first");
	b.with_channel = true;
	open_pair(&a, &b, "rxe0", "rxe0");
	completion_events();
	asynchronous_events();
	destructions();
	first_message();
	endpoint_close(&a);
	endpoint_close(&b);
	printf("%d failed\n", failed);
	return failed != 0;
}
