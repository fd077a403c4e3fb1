/*
 * unplug.c - devices that are taken out while they are open, and put in again.
 *
 *   unplug DEVICE
 */
#include "program.h"

static _Alignas(4096) unsigned char buffer[4096];

static struct ibv_device *listed(const char *name, struct ibv_device ***list)
{
	struct ibv_device *found = NULL;
	int count;

	*list = CALL_PTR(ibv_get_device_list(&count));
	printf("    %d devices\n", count);
	for (int i = 0; *list && i < count; i++) {
		print_device((*list)[i]);
		if (!strcmp(ibv_get_device_name((*list)[i]), name))
			found = (*list)[i];
	}
	return found;
}

int main(int argc, char **argv)
{
	struct ibv_async_event event;
	struct ibv_device_attr attr;
	struct ibv_device **list, **second, *device, *again;
	struct ibv_context *context, *other;
	struct ibv_cq *cq = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_pd *pd, *other_pd;

	if (argc != 2)
		return 2;
	begin();
	find_kernel();
	kernel_name(buffer, "buffer");
	device = listed(argv[1], &list);
	if (!device)
		die("%s is not listed", argv[1]);
	context = CALL_PTR(ibv_open_device(device));
	if (!context)
		return end();
	pd = CALL_PTR(ibv_alloc_pd(context));
	if (pd) {
		mr = CALL_PTR(ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE));
		cq = CALL_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	}

	note("-- taken out");
	kernel_report(context->async_fd, NULL, 0, IBV_EVENT_DEVICE_FATAL);
	kernel_plug(argv[1], false);
	if (!CALL_INT(ibv_get_async_event(context, &event))) {
		FIELD(event, event_type);
		CALL_VOID(ibv_ack_async_event(&event));
	}
	CHECK(!listed(argv[1], &second));
	CALL_VOID(ibv_free_device_list(second));
	CALL_PTR(ibv_open_device(device));
	CALL_STRING(ibv_get_device_name(device));
	CALL_INT(ibv_query_device(context, &attr));
	CALL_PTR(ibv_alloc_pd(context));
	if (cq)
		CALL_INT(ibv_destroy_cq(cq));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	if (pd)
		CALL_INT(ibv_dealloc_pd(pd));

	note("-- put in again, while the old context is open");
	kernel_plug(argv[1], true);
	again = listed(argv[1], &second);
	if (again) {
		CHECK(again != device);
		other = CALL_PTR(ibv_open_device(again));
		other_pd = other ? CALL_PTR(ibv_alloc_pd(other)) : NULL;
		CALL_INT(ibv_query_device(context, &attr));
		if (other_pd)
			CALL_INT(ibv_dealloc_pd(other_pd));
		if (other)
			CALL_INT(ibv_close_device(other));
	}
	CALL_INT(ibv_close_device(context));
	CALL_VOID(ibv_free_device_list(list));
	CALL_VOID(ibv_free_device_list(second));
	return end();
}
