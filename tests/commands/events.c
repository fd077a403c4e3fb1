/*
 * events.c - every type of asynchronous event, from a file that the test writes as the kernel does: which object it is
 * about, that the provider is told, which counter its acknowledgement changes, and that nothing else changes. Then what
 * is no event: types that nobody knows, half an event, no event, a closed file.
 *
 * Fact: Each of the 20 types of asynchronous events names its object, and its acknowledgement counts on that object alone.
 * Fact: IBV_EVENT_PKEY_CHANGE comes with the number of its port. (No software device raises it.)
 */
#include "recorder.h"

static struct ibv_context *c;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_srq srq;
static struct ibv_wq wq;

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

static void counters(void)
{
	printf("  cq %u and %u, qp %u, srq %u, wq %u\n", cq.comp_events_completed, cq.async_events_completed,
	       qp.events_completed, srq.events_completed, wq.events_completed);
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

		printf("type %u: %s\n", type, ibv_event_type_str((enum ibv_event_type)type));
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
	printf("ibv_close_device = %d\n", ibv_close_device(c));
	return 0;
}
