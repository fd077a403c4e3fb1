/*
 * events_1_0.c - every type of asynchronous event through the functions of version IBVERBS_1.0, whose structs stand before
 * today's: the event names the program's own object, and its acknowledgement counts on the one behind.
 *
 * Fact: A program linked before 2007 gets its own objects in asynchronous events.
 */
#include "recorder.h"

#include "../../ctest/old_verbs.h"

/* Behind what old programs knew of each struct stands how it was counted, and at last a pointer to today's. */
static struct { struct old_cq old; pthread_mutex_t mutex; pthread_cond_t cond; uint32_t events[2]; struct ibv_cq *real; } cq;
static struct { struct old_qp old; pthread_mutex_t mutex; pthread_cond_t cond; uint32_t events; struct ibv_qp *real; } qp;
static struct { struct old_srq old; pthread_mutex_t mutex; pthread_cond_t cond; uint32_t events; struct ibv_srq *real; } srq;
static struct ibv_cq real_cq;
static struct ibv_qp real_qp;
static struct ibv_srq real_srq;

static void counters(void)
{
	printf("  cq %u, qp %u, srq %u\n", real_cq.async_events_completed, real_qp.events_completed, real_srq.events_completed);
}

int main(void)
{
	struct old_device **list;
	struct old_context *c = NULL;
	struct ibv_context *today;
	struct ibv_async_event event;
	int count = 0;

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	kernel.ioctl = kernel.methods = true;
	make_pipe(ASYNC_FD, &event_end);
	list = old_get_device_list(&count);
	printf("devices %d\n", count);
	for (int i = 0; i < count; i++)
		if (!strcmp(old_get_device_name(list[i]), "recorder0"))
			c = old_open_device(list[i]);
	old_free_device_list(list);
	if (!c)
		die("recorder0 was not opened: %s", errno_name(errno));
	today = *(struct ibv_context **)((char *)c + sizeof(*c) - sizeof(void *));
	name(today, "context"), name(&event, "event");
	name(&cq, "cq"), name(&qp, "qp"), name(&srq, "srq"), name(&real_cq, "today's cq");
	name(&real_qp, "today's qp"), name(&real_srq, "today's srq");
	cq.real = &real_cq, qp.real = &real_qp, srq.real = &real_srq;
	real_cq.context = real_qp.context = real_srq.context = today;
	real_cq.cq_context = &cq, real_qp.qp_context = &qp, real_srq.srq_context = &srq;
	pthread_mutex_init(&real_cq.mutex, NULL), pthread_mutex_init(&real_qp.mutex, NULL);
	pthread_mutex_init(&real_srq.mutex, NULL);

	for (unsigned type = 0; type <= IBV_EVENT_WQ_FATAL + 2; type++) {
		struct ib_uverbs_async_event_desc described = {.event_type = type, .element = 3};
		bool port = false;

		switch (type) {
		case IBV_EVENT_CQ_ERR:
			described.element = (uintptr_t)&real_cq;
			break;
		case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
			described.element = (uintptr_t)&real_srq;
			break;
		case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR: case IBV_EVENT_QP_LAST_WQE_REACHED:
			described.element = (uintptr_t)&real_qp;
			break;
		case IBV_EVENT_WQ_FATAL: /* work queues came later: no old program has one */
			continue;
		default:
			port = true;
		}
		if (write(event_end, &described, sizeof described) != sizeof described)
			die("event file");
		printf("type %u\n", type);
		FILL(event);
		errno = 0;
		printf("old_get_async_event = %d", old_get_async_event(c, &event));
		printf(" errno %d type %d", errno, event.event_type);
		if (port)
			printf(" port %d", event.element.port_num);
		else
			show_value((uintptr_t)event.element.cq);
		putchar('\n');
		old_ack_async_event(&event);
		counters();
	}
	FILL(event);
	errno = 0;
	printf("old_get_async_event = %d", old_get_async_event(c, &event)); /* the file is empty and does not block */
	printf(" errno %d\n", errno);
	printf("old_close_device = %d\n", old_close_device(c));
	return 0;
}
