/*
 * device.c - the device's side of the queues, as the drivers of soft-RoCE and soft-iWARP write and read them.
 */
#include "bench.h"

#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>

bool is_siw;

struct queue queue_of(struct ibv_context *context, const char *object, uint32_t handle, enum queue_kind kind)
{
	void *(*hardware_queue)(int, const char *, uint32_t, unsigned, size_t *) = dlsym(RTLD_DEFAULT, "hardware_queue");
	struct queue queue = {.siw = is_siw, .kind = kind};
	size_t size, slot;

	MUST(hardware_queue);
	queue.memory = hardware_queue(context->cmd_fd, object, handle, kind == SENDS, &size);
	MUST(queue.memory);
	if (!queue.siw) {
		queue.slots = ((struct rxe_queue_buf *)queue.memory)->index_mask + 1;
		return queue;
	}
	slot = kind == COMPLETIONS ? sizeof(struct siw_cqe) : kind == SENDS ? sizeof(struct siw_sqe) : sizeof(struct siw_rqe);
	queue.slots = size / slot;
	return queue;
}

static void *slot_of(const struct queue *queue, uint32_t index)
{
	struct rxe_queue_buf *head = (void *)queue->memory;

	if (queue->siw)
		return (struct siw_cqe *)queue->memory + (index & (queue->slots - 1));
	return head->data + ((size_t)(index & head->index_mask) << head->log2_elem_size);
}

static void write_completion(const struct queue *queue, uint32_t index, uint64_t wr_id)
{
	if (queue->siw) {
		struct siw_cqe *entry = slot_of(queue, index);

		entry->id = wr_id;
		entry->opcode = SIW_OP_RECEIVE;
		entry->status = SIW_WC_SUCCESS;
		entry->bytes = 64;
		entry->qp_id = 17;
	} else {
		*(struct ib_uverbs_wc *)slot_of(queue, index) = (struct ib_uverbs_wc){
			.wr_id = wr_id, .opcode = IBV_WC_RECV, .byte_len = 64, .qp_num = 17, .src_qp = 18};
	}
}

void write_completions(struct queue *queue)
{
	for (uint32_t i = 0; i < queue->slots; i++)
		write_completion(queue, i, 1000 + i);
}

unsigned complete_all(struct queue *queue)
{
	struct rxe_queue_buf *head = (void *)queue->memory;

	if (!queue->siw) {
		__atomic_store_n(&head->producer_index, (head->consumer_index - 1) & head->index_mask, __ATOMIC_RELEASE);
		return head->index_mask;
	}
	/* All but one, as many as soft-RoCE has. */
	for (uint32_t i = 0; i + 1 < queue->slots; i++) {
		struct siw_cqe *entry = slot_of(queue, queue->at++);

		MUST(!entry->flags);
		__atomic_store_n(&entry->flags, SIW_WQE_VALID, __ATOMIC_RELEASE);
	}
	return queue->slots - 1;
}

bool complete_one(struct queue *queue, uint64_t wr_id)
{
	struct rxe_queue_buf *head = (void *)queue->memory;
	struct siw_cqe *entry;

	if (queue->siw) {
		entry = slot_of(queue, queue->at);
		if (__atomic_load_n(&entry->flags, __ATOMIC_ACQUIRE))
			return false;
		write_completion(queue, queue->at++, wr_id);
		__atomic_store_n(&entry->flags, SIW_WQE_VALID, __ATOMIC_RELEASE);
		return true;
	}
	if (((head->producer_index + 1) & head->index_mask) == __atomic_load_n(&head->consumer_index, __ATOMIC_ACQUIRE))
		return false;
	write_completion(queue, head->producer_index, wr_id);
	__atomic_store_n(&head->producer_index, (head->producer_index + 1) & head->index_mask, __ATOMIC_RELEASE);
	return true;
}

void consume(struct queue *queue)
{
	struct rxe_queue_buf *head = (void *)queue->memory;

	if (!queue->siw) {
		__atomic_store_n(&head->consumer_index, head->producer_index, __ATOMIC_RELEASE);
		return;
	}
	for (uint32_t i = 0; i < queue->slots; i++)
		if (queue->kind == SENDS)
			((struct siw_sqe *)queue->memory)[i].flags = 0;
		else
			((struct siw_rqe *)queue->memory)[i].flags = 0;
}
