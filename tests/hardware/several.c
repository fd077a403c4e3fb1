/*
 * several.c - all devices of the kernel in one process: listed, opened side by side, a protection domain and a memory region
 * on each, and closed in another order than they were opened.
 *
 *   several [--served]
 *
 * --served  only tell, for each device, the shared object whose functions poll its completions
 */
#include "program.h"

static int served(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	Dl_info info;

	for (int i = 0; list && list[i]; i++) {
		context = ibv_open_device(list[i]);
		if (!context || !dladdr((void *)context->ops.poll_cq, &info))
			die("%s", ibv_get_device_name(list[i]));
		printf("%s %s\n", ibv_get_device_name(list[i]), strrchr(info.dli_fname, '/') + 1);
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
	return 0;
}

int main(int argc, char **argv)
{
	static _Alignas(4096) unsigned char buffer[4096];
	struct ibv_context *contexts[32] = {NULL};
	struct ibv_pd *pds[32] = {NULL};
	struct ibv_mr *mrs[32] = {NULL};
	struct ibv_device **list;
	int count = 0, again = 0;

	begin();
	if (argc > 1)
		return strcmp(argv[1], "--served") ? 2 : served();
	find_kernel();
	kernel_name(buffer, "buffer");
	list = CALL_PTR(ibv_get_device_list(&count));
	printf("    %d devices\n", count);
	for (int i = 0; list && i < count; i++)
		print_device(list[i]);
	for (int i = 0; list && i < count; i++) {
		contexts[i] = CALL_PTR(ibv_open_device(list[i]));
		if (contexts[i])
			CHECK(contexts[i]->device == list[i]);
	}
	CALL_VOID(ibv_free_device_list(list));
	list = CALL_PTR(ibv_get_device_list(&again));
	for (int i = 0; list && i < count && again == count; i++)
		CHECK(!contexts[i] || contexts[i]->device == list[i]);
	CALL_VOID(ibv_free_device_list(list));
	for (int i = 0; i < count; i++)
		if (contexts[i])
			pds[i] = CALL_PTR(ibv_alloc_pd(contexts[i]));
	for (int i = count - 1; i >= 0; i--)
		if (pds[i])
			mrs[i] = CALL_PTR(ibv_reg_mr(pds[i], buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < count; i += 2)
		if (mrs[i])
			CALL_INT(ibv_dereg_mr(mrs[i]));
	for (int i = 1; i < count; i += 2)
		if (mrs[i])
			CALL_INT(ibv_dereg_mr(mrs[i]));
	for (int i = 0; i < count; i++)
		if (pds[i])
			CALL_INT(ibv_dealloc_pd(pds[i]));
	for (int i = 0; i < count; i++)
		if (contexts[i])
			CALL_INT(ibv_close_device(contexts[i]));
	return end();
}
