/*
 * events.c - every type of asynchronous event, from a file that the test writes as the kernel does: which object it is
 * about, that the provider is told, which counter its acknowledgement changes, and that nothing else changes. Then what
 * is no event: types that nobody knows, half an event, no event, a closed file. And that destroying waits for
 * acknowledgements.
 *
 * Fact: Each of the 20 types of asynchronous events names its object, and its acknowledgement counts on that object alone.
 * Fact: Destroying a queue or queue pair waits until as many events of each kind are acknowledged as the kernel delivered.
 * Fact: IBV_EVENT_PKEY_CHANGE comes with the number of its port; no software device raises it.
 */
#include "recorder.h"

#include "../asleep.h"

static struct ibv_context *c;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_srq srq;
static struct ibv_wq wq;

static void counters(void)
{
	printf("  cq %u and %u, qp %u, srq %u, wq %u\n", cq.comp_events_completed, cq.async_events_completed,
	       qp.events_completed, srq.events_completed, wq.events_completed);
}

static struct {
	struct ibv_async_event event;
	unsigned completions; /* of a queue, acknowledged at last */
	volatile bool last;   /* the last acknowledgement has begun */
	volatile bool back;   /* the object is destroyed */
} late;

/* Until the process's first thread waits for the next acknowledgement, which it does not where it is back. */
static void until_it_waits(void)
{
	while (!late.back && !is_asleep(getpid(), is_futex))
		usleep(200);
}

static void *acknowledge_later(void *unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++) {
		until_it_waits();
		late.last = i == 1 && !late.completions;
		ibv_ack_async_event(&late.event);
	}
	if (late.completions) {
		until_it_waits();
		late.last = true;
		ibv_ack_cq_events(&cq, late.completions);
	}
	return NULL;
}

/* The kernel says that it has delivered two events of each kind: destroying waits until as many are acknowledged. */
static void destruction(const char *object, int (*destroy)(void *), void *argument, enum ibv_event_type type,
			unsigned completions)
{
	pthread_t thread;
	int result;

	memset(&late, 0, sizeof late);
	late.event.event_type = type;
	late.event.element.qp = argument;
	late.completions = completions;
	cq.comp_events_completed = cq.async_events_completed = qp.events_completed = srq.events_completed =
		wq.events_completed = 0;
	printf("destroying a %s\n", object);
	kernel.reported = 2;
	if (pthread_create(&thread, NULL, acknowledge_later, NULL))
		exit(1);
	result = destroy(argument);
	printf("  = %d after the last acknowledgement: %s\n", result, late.last ? "yes" : "no");
	late.back = true;
	pthread_join(thread, NULL);
	kernel.reported = 0;
	counters();
}

static int destroy_cq(void *object) { return ibv_cmd_destroy_cq(object); }
static int destroy_qp(void *object) { return ibv_cmd_destroy_qp(object); }
static int destroy_srq(void *object) { return ibv_cmd_destroy_srq(object); }
static int destroy_wq(void *object) { return ibv_cmd_destroy_wq(object); }

/* How the kernel writes an event. */
static void deliver(uint64_t element, uint32_t type, size_t size)
{
	struct ib_uverbs_async_event_desc event = {.element = element, .event_type = type};

	if (write(event_end, &event, size) != (ssize_t)size) {
		perror("event file");
		exit(1);
	}
}

static int take(struct ibv_async_event *event)
{
	int result;

	memset(event, 0xa5, sizeof *event);
	errno = 0;
	result = ibv_get_async_event(c, event);
	printf("ibv_get_async_event = %d errno %d\n", result, errno);
	return result;
}

int main(void)
{
	struct ibv_async_event event;

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	c = open_recorder(NULL);
	name(&cq, "cq"), name(&qp, "qp"), name(&srq, "srq"), name(&wq, "wq"), name(&event, "event");
	cq.context = qp.context = srq.context = wq.context = c;
	pthread_mutex_init(&cq.mutex, NULL), pthread_mutex_init(&qp.mutex, NULL);
	pthread_mutex_init(&srq.mutex, NULL), pthread_mutex_init(&wq.mutex, NULL);

	/* Each event once with the address of each kind of object, and with a number of a port, so that its type decides. */
	for (unsigned type = 0; type <= IBV_EVENT_WQ_FATAL + 2; type++) {
		const void *about = type == IBV_EVENT_CQ_ERR ? (void *)&cq :
				    type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED ? (void *)&srq :
				    type == IBV_EVENT_WQ_FATAL ? (void *)&wq : (void *)&qp;
		bool port = type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
			    type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
			    type == IBV_EVENT_CLIENT_REREGISTER || type == IBV_EVENT_GID_CHANGE || type > IBV_EVENT_WQ_FATAL;

		/* The one after the last of rdma-core 44 got a name later; newer.c has it. */
		printf("type %u: %s\n", type,
		       type == IBV_EVENT_WQ_FATAL + 1 ? "later" : ibv_event_type_str((enum ibv_event_type)type));
		deliver(port ? 3 : (uintptr_t)about, type, 16);
		take(&event);
		printf("  type %d", event.event_type);
		if (port) {
			printf(" port %d", event.element.port_num);
			dump((char *)&event + offsetof(struct ibv_async_event, element) + 4, 4); /* the rest of the element */
		} else {
			show_value((uintptr_t)event.element.cq);
		}
		putchar('\n');
		counters();
		ibv_ack_async_event(&event);
		counters();
	}
	for (int i = 0; i < 5; i++) { /* acknowledgements add up, and start from wherever the counter is */
		qp.events_completed = i == 3 ? UINT32_MAX : qp.events_completed;
		deliver((uintptr_t)&qp, IBV_EVENT_COMM_EST, 16);
		take(&event);
		ibv_ack_async_event(&event);
		counters();
	}

	/* Several in the file come one by one, in their order. */
	deliver(1, IBV_EVENT_PORT_ERR, 16);
	deliver(1, IBV_EVENT_PORT_ACTIVE, 16);
	deliver(1, IBV_EVENT_PKEY_CHANGE, 16);
	for (int i = 0; i < 4; i++)
		if (!take(&event))
			printf("  type %d port %d\n", event.event_type, event.element.port_num);

	static const uint32_t unknown[] = {100, 0x7fffffff, 0x80000000, 0xffffffff};
	for (unsigned i = 0; i < 4; i++) {
		deliver(0x1122334455667788, unknown[i], 16);
		take(&event);
		printf("  type %d port %#x\n", event.event_type, event.element.port_num);
		ibv_ack_async_event(&event);
	}
	deliver(1, IBV_EVENT_PORT_ERR, 8); /* half an event */
	take(&event);
	printf("  type %#x\n", event.event_type);
	take(&event); /* the file does not block */
	close(event_end);
	take(&event); /* the kernel's end is closed */
	counters();
	destruction("completion queue", destroy_cq, &cq, IBV_EVENT_CQ_ERR, 2);
	destruction("queue pair", destroy_qp, &qp, IBV_EVENT_COMM_EST, 0);
	destruction("shared receive queue", destroy_srq, &srq, IBV_EVENT_SRQ_LIMIT_REACHED, 0);
	destruction("work queue", destroy_wq, &wq, IBV_EVENT_WQ_FATAL, 0);
	printf("ibv_close_device = %d\n", ibv_close_device(c));
	return 0;
}
