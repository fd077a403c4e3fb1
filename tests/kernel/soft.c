/*
 * soft.c - the drivers of soft-RoCE and soft-iWARP. Their queues lie in memory that the process maps; here it is laid out
 * as the drivers of Linux do, and a program may get at a queue to be the device.
 */
#include "kernel.h"

#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>
#include <stdlib.h>

/* A queue of an object that lives. */
static struct queue {
	const struct object *object; /* NULL for a free place */
	unsigned which;              /* of the object's: 0, or of a queue pair 0 to receive and 1 to send */
	uint64_t offset;             /* in the device file */
	size_t size;                 /* bytes */
	uint32_t slots, shift;       /* of soft-RoCE: how many, and the binary logarithm of their size */
	void *memory;
} queues[256];

/* For the program: the memory of a queue, and its size. */
void *hardware_queue(int fd, const char *kind, uint32_t handle, unsigned which, size_t *size);

static uint32_t power(uint32_t least)
{
	uint32_t power = 1;

	while (power < least)
		power *= 2;
	return power;
}

static struct queue *new_queue(const struct object *object, unsigned which, size_t size)
{
	static uint64_t offset;

	for (unsigned i = 0; i < sizeof queues / sizeof *queues; i++)
		if (!queues[i].object) {
			if (offset == SIW_INVAL_UOBJ_KEY)
				offset += 4096;
			queues[i] = (struct queue){.object = object, .which = which, .offset = offset, .size = size};
			offset += (size + 4095) & ~4095ull;
			return &queues[i];
		}
	abort();
}

static void forget_queues(const struct object *object)
{
	for (unsigned i = 0; i < sizeof queues / sizeof *queues; i++)
		if (object && object->gone && queues[i].object == object)
			queues[i].object = NULL;
}

static struct queue *queue_at(uint64_t offset)
{
	for (unsigned i = 0; i < sizeof queues / sizeof *queues; i++)
		if (queues[i].object && queues[i].offset == offset)
			return &queues[i];
	return NULL;
}

void *hardware_queue(int fd, const char *kind, uint32_t handle, unsigned which, size_t *size)
{
	static const struct { const char *name; enum object_kind kind; } kinds[] = {
		{"cq", OBJECT_CQ}, {"srq", OBJECT_SRQ}, {"qp", OBJECT_QP},
	};
	struct file *file = file_of(fd);

	for (unsigned k = 0; file && k < sizeof kinds / sizeof *kinds; k++) {
		const struct object *object =
			strcmp(kinds[k].name, kind) ? NULL : object_of(file->device, kinds[k].kind, handle);

		for (unsigned i = 0; object && i < sizeof queues / sizeof *queues; i++)
			if (queues[i].object == object && queues[i].which == which) {
				*size = queues[i].size;
				return queues[i].memory;
			}
	}
	return NULL;
}

/* A ring of soft-RoCE: one slot more than entries, as it is full with one empty. */
static struct mminfo ring(const struct object *object, unsigned which, uint32_t entries, size_t entry_size)
{
	uint32_t slots = power(entries + 1), size = power(entry_size < 64 ? 64 : entry_size);
	struct queue *queue = new_queue(object, which, sizeof(struct rxe_queue_buf) + (size_t)slots * size);

	queue->slots = slots;
	while (1u << queue->shift < size)
		queue->shift++;
	return (struct mminfo){.offset = queue->offset, .size = queue->size};
}

static size_t receive_size(uint32_t max_sge)
{
	return sizeof(struct rxe_recv_wqe) + max_sge * sizeof(struct rxe_sge);
}

static size_t send_size(const struct ib_uverbs_qp_cap *cap)
{
	size_t list = cap->max_send_sge * sizeof(struct rxe_sge);

	return sizeof(struct rxe_send_wqe) + (list < cap->max_inline_data ? cap->max_inline_data : list);
}

static void rxe_answer(struct request *request)
{
	const struct object *object = request->object;

	forget_queues(object);
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_CREATE_AH: ANSWER(request, (struct rxe_create_ah_resp){.ah_num = number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct rxe_create_cq_resp){ring(object, 0, object->cap.max_send_wr, sizeof(struct ib_uverbs_wc))});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP: {
		struct rxe_create_qp_resp answer = {
			.rq_mi = ring(object, 0, object->cap.max_recv_wr, receive_size(object->cap.max_recv_sge)),
			.sq_mi = ring(object, 1, object->cap.max_send_wr, send_size(&object->cap)),
		};

		ANSWER(request, answer);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		ANSWER(request, (struct rxe_create_srq_resp){
			.mi = ring(object, 0, object->cap.max_recv_wr, receive_size(object->cap.max_recv_sge)),
			.srq_num = 0x20 + number(request)});
		break;
	}
}

static void rxe_map(uint64_t offset, void *memory, size_t size)
{
	struct queue *queue = queue_at(offset);
	struct rxe_queue_buf *head = memory;

	if (!queue || size < queue->size)
		return;
	head->log2_elem_size = queue->shift;
	head->index_mask = queue->slots - 1;
	queue->memory = memory;
}

static const struct driver rxe = {.provider = "rxe", .answer = rxe_answer, .map = rxe_map};

static uint64_t slots(const struct object *object, unsigned which, uint32_t count, size_t size, size_t behind)
{
	return new_queue(object, which, count * size + behind)->offset;
}

static void siw_answer(struct request *request)
{
	const struct object *object = request->object;

	forget_queues(object);
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: ANSWER(request, (struct siw_uresp_alloc_ctx){.dev_id = 1}); break;
	case IB_USER_VERBS_CMD_REG_MR: ANSWER(request, (struct siw_uresp_reg_mr){.stag = number(request) << 8}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ: {
		uint32_t count = power(object->cap.max_send_wr);

		ANSWER(request, (struct siw_uresp_create_cq){
			.cq_id = number(request), .num_cqe = count,
			.cq_key = slots(object, 0, count, sizeof(struct siw_cqe), sizeof(struct siw_cq_ctrl))});
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_QP: {
		uint32_t sends = power(object->cap.max_send_wr), receives = power(object->cap.max_recv_wr);

		ANSWER(request, (struct siw_uresp_create_qp){
			.qp_id = number(request), .num_sqe = sends, .num_rqe = receives,
			.sq_key = slots(object, 1, sends, sizeof(struct siw_sqe), 0),
			.rq_key = slots(object, 0, receives, sizeof(struct siw_rqe), 0)});
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_SRQ: {
		uint32_t count = power(object->cap.max_recv_wr);

		ANSWER(request, (struct siw_uresp_create_srq){
			.num_rqe = count, .srq_key = slots(object, 0, count, sizeof(struct siw_rqe), 0)});
		break;
	}
	}
}

static void siw_map(uint64_t offset, void *memory, size_t size)
{
	struct queue *queue = queue_at(offset);

	if (queue && size >= queue->size)
		queue->memory = memory;
}

static const struct driver siw = {.provider = "siw", .answer = siw_answer, .map = siw_map};

const struct driver *const soft_drivers[] = {&rxe, &siw, NULL};
