/*
 * device.c - the device list, opening and closing, and what a device says about itself.
 *
 * Proves: the list and every public field of its devices, names, GUIDs, the context's public fields, the
 * device attributes through all four ways of asking, opening twice, devices that outlive their list, and
 * import of descriptors that are no device's.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "setup.h"

/* The way to the provider's query, with any size of the caller's struct. */
static int query_ex(struct ibv_context *context, struct ibv_device_attr_ex *attr, size_t size)
{
	struct verbs_context *v = verbs_get_ctx_op(context, query_device_ex);

	return v ? v->query_device_ex(context, NULL, attr, size) : -1;
}

static bool untouched(const void *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (((const unsigned char *)p)[i] != 0xa5)
			return false;
	return true;
}

static void list_devices(void)
{
	int n = -5;
	struct ibv_device **list = CALL_PTR(ibv_get_device_list(&n));

	note("devices: %d", n);
	for (int i = 0; list[i]; i++) {
		struct ibv_device *d = list[i];

		CALL_STRING(ibv_get_device_name(d));
		note("    guid %016llx", (unsigned long long)be64toh(ibv_get_device_guid(d)));
		note("    index %d", ibv_get_device_index(d));
		note("    name \"%s\" dev_name \"%s\"", d->name, d->dev_name);
		note("    dev_path \"%s\"", d->dev_path);
		note("    ibdev_path \"%s\"", d->ibdev_path);
		note("    node_type %d transport_type %d", d->node_type, d->transport_type);
		CHECK(d->_ops._dummy1 == NULL && d->_ops._dummy2 == NULL);
	}
	CHECK(list[n] == NULL);
	CALL_VOID(ibv_free_device_list(list));

	list = CALL_PTR(ibv_get_device_list(NULL));
	struct ibv_device **second = CALL_PTR(ibv_get_device_list(NULL));
	for (int i = 0; list[i]; i++)
		CHECK(list[i] == second[i]); /* one device, one struct, as long as a list holds it */
	CALL_VOID(ibv_free_device_list(list));
	CALL_STRING(ibv_get_device_name(second[0]));
	CALL_VOID(ibv_free_device_list(second));
}

static void open_and_close(void)
{
	struct ibv_device **list = CALL_PTR(ibv_get_device_list(NULL));
	struct ibv_device *device = list[0];
	struct ibv_context *a = CALL_PTR(ibv_open_device(device));
	struct ibv_context *b = CALL_PTR(ibv_open_device(device));
	struct ibv_pd *pd;

	CALL_VOID(ibv_free_device_list(list));
	CALL_STRING(ibv_get_device_name(a->device)); /* an open device stays when the list goes */
	CHECK(a != b);
	CHECK(a->device == device && b->device == device);
	CHECK(a->cmd_fd >= 0 && a->async_fd >= 0);
	CHECK(a->cmd_fd != b->cmd_fd && a->async_fd != b->async_fd);
	CHECK(fcntl(a->cmd_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(a->async_fd, F_GETFD) & FD_CLOEXEC);
	FIELD(*a, num_comp_vectors);
	CHECK(a->abi_compat == (void *)UINTPTR_MAX);
	CHECK(verbs_get_ctx(a) != NULL);
	CHECK(verbs_get_ctx(a)->sz >= sizeof(struct verbs_context));
	CHECK(pthread_mutex_trylock(&a->mutex) == 0);
	pthread_mutex_unlock(&a->mutex);

	int fd = a->cmd_fd, async_fd = a->async_fd;
	CALL_INT(ibv_close_device(a));
	CHECK(fcntl(fd, F_GETFD) == -1 && fcntl(async_fd, F_GETFD) == -1);
	pd = CALL_PTR(ibv_alloc_pd(b)); /* the other context is not touched */
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(b));
}

/* Closing a device frees what the program left behind in the kernel; the next open works as ever. */
static void close_with_objects(void)
{
	for (int i = 0; i < 3; i++) {
		struct ibv_context *c = open_device("rxe1");
		struct ibv_pd *pd = CALL_PTR(ibv_alloc_pd(c));

		CHECK(pd->context == c);
		CALL_INT(ibv_dealloc_pd(pd));
		CALL_INT(ibv_close_device(c));
	}
}

/* The operations table that old inline functions use. */
static void tables(struct ibv_context *c)
{
	struct verbs_context *v = verbs_get_ctx(c);

	CHECK(c->ops._compat_query_device != NULL);
	CHECK(c->ops._compat_query_port != NULL);
	CHECK(c->ops.poll_cq && c->ops.req_notify_cq && c->ops.post_srq_recv && c->ops.post_send && c->ops.post_recv);
	CHECK(c->ops.alloc_mw && c->ops.bind_mw && c->ops.dealloc_mw);
	CHECK(v->query_port && v->advise_mr && v->alloc_null_mr && v->read_counters);
	CHECK(v->attach_counters_point_flow && v->create_counters && v->destroy_counters);
	CHECK(v->reg_dm_mr && v->alloc_dm && v->free_dm);
	CHECK(v->modify_flow_action_esp && v->destroy_flow_action && v->create_flow_action_esp);
	CHECK(v->modify_qp_rate_limit && v->alloc_parent_domain && v->dealloc_td && v->alloc_td);
	CHECK(v->modify_cq && v->post_srq_ops && v->destroy_rwq_ind_table && v->create_rwq_ind_table);
	CHECK(v->destroy_wq && v->modify_wq && v->create_wq && v->query_rt_values);
	CHECK(v->create_cq_ex && v->priv && v->query_device_ex);
	CHECK(v->ibv_create_flow && v->ibv_destroy_flow && v->open_qp && v->create_qp_ex);
	CHECK(v->get_srq_num && v->create_srq_ex && v->open_xrcd && v->close_xrcd);
	CHECK((void *)v->ABI_placeholder1 == (void *)v->ibv_create_flow);
	CHECK((void *)v->ABI_placeholder2 == (void *)v->ibv_destroy_flow);
}

/* The slots that programs of long ago call: the operations of the provider. */
static void old_slots(struct ibv_context *c)
{
	static char buffer[4096];
	const struct ibv_context_ops *ops = &c->ops;
	struct ibv_pd *(*alloc_pd)(struct ibv_context *) = (void *)ops->_compat_alloc_pd;
	int (*dealloc_pd)(struct ibv_pd *) = (void *)ops->_compat_dealloc_pd;
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, uint64_t, int) = (void *)ops->_compat_reg_mr;
	int (*dereg_mr)(struct ibv_mr *) = (void *)ops->_compat_dereg_mr;
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, struct ibv_comp_channel *, int) =
		(void *)ops->_compat_create_cq;
	int (*resize_cq)(struct ibv_cq *, int) = (void *)ops->_compat_resize_cq;
	int (*destroy_cq)(struct ibv_cq *) = (void *)ops->_compat_destroy_cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;

	CHECK(ops->_compat_rereg_mr && ops->_compat_cq_event && ops->_compat_async_event);
	CHECK(ops->_compat_create_srq && ops->_compat_modify_srq && ops->_compat_query_srq && ops->_compat_destroy_srq);
	CHECK(ops->_compat_create_qp && ops->_compat_query_qp && ops->_compat_modify_qp && ops->_compat_destroy_qp);
	CHECK(ops->_compat_create_ah && ops->_compat_destroy_ah);
	CHECK(ops->_compat_attach_mcast && ops->_compat_detach_mcast);
	pd = CALL_PTR(alloc_pd(c));
	CHECK(pd->context == c);
	mr = CALL_PTR(reg_mr(pd, buffer, sizeof(buffer), (uintptr_t)buffer, IBV_ACCESS_LOCAL_WRITE));
	CHECK(mr->lkey != 0 && mr->context == c);
	CALL_INT(dereg_mr(mr));
	cq = CALL_PTR(create_cq(c, 10, NULL, 0));
	FIELD(*cq, cqe);
	CALL_INT(resize_cq(cq, 20));
	FIELD(*cq, cqe);
	CALL_INT(destroy_cq(cq));
	CALL_INT(dealloc_pd(pd));
}

static void attributes(struct ibv_context *c)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	struct ibv_query_device_ex_input input = {0};

	FILL(attr);
	CALL_INT(ibv_query_device(c, &attr));
	print_device_attr(&attr);
	FILL(attr);
	CALL_INT(c->ops._compat_query_device(c, &attr));
	print_device_attr(&attr);

	FILL(ex);
	CALL_INT(ibv_query_device_ex(c, NULL, &ex));
	print_device_attr_ex(&ex);
	FILL(ex);
	CALL_INT(ibv_query_device_ex(c, &input, &ex));
	print_device_attr_ex(&ex);
	input.comp_mask = 1;
	FILL(ex);
	CALL_INT(ibv_query_device_ex(c, &input, &ex));
	CHECK(untouched(&ex, 0, sizeof(ex)));

	/* Callers built with an older, shorter struct. */
	FILL(ex);
	CALL_INT(query_ex(c, &ex, sizeof(ex.orig_attr)));
	CHECK(untouched(&ex, sizeof(ex.orig_attr), sizeof(ex)));
	CHECK(ex.orig_attr.max_qp == attr.max_qp);
	FILL(ex);
	CALL_INT(query_ex(c, &ex, offsetof(struct ibv_device_attr_ex, tso_caps)));
	CHECK(untouched(&ex, offsetof(struct ibv_device_attr_ex, tso_caps), sizeof(ex)));
	FIELD_X(ex, device_cap_flags_ex);
	FILL(ex);
	CALL_INT(query_ex(c, &ex, offsetof(struct ibv_device_attr_ex, completion_timestamp_mask)));
	CHECK(untouched(&ex, offsetof(struct ibv_device_attr_ex, completion_timestamp_mask), sizeof(ex)));
	FILL(ex);
	CALL_INT(query_ex(c, &ex, sizeof(ex.orig_attr) - 1));
	FILL(ex);
	CALL_INT(query_ex(c, &ex, 0));
}

static void import(struct ibv_context *c)
{
	int null = open("/dev/null", O_RDWR), file = open("/proc/self/status", O_RDONLY);

	CALL_PTR(ibv_import_device(-1));
	CALL_PTR(ibv_import_device(12345));
	CALL_PTR(ibv_import_device(file));
	CALL_PTR(ibv_import_device(null));
	CALL_PTR(ibv_import_dm(c, 0));
	close(null);
	close(file);
}

int main(void)
{
	begin();
	list_devices();
	open_and_close();
	close_with_objects();

	struct ibv_context *c = open_device("rxe0");
	tables(c);
	old_slots(c);
	attributes(c);
	import(c);
	CALL_INT(ibv_close_device(c));
	return end();
}
