/*
 * requests.c - how a process asks: written commands, commands inside the ioctl, and methods of the ioctl. Each request is
 * taken apart, written down, and run.
 */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "../commands/methods.h"

void hardware_name(const void *start, const char *text);

/* An address of the program appears under this name. */
void hardware_name(const void *start, const char *text)
{
	name(start, text);
}

/* Where memory is differs between runs and libraries; that it is memory does not. */
static const char *name_memory(uint64_t word)
{
	unsigned char resident;

	if (word < 1 << 16 || word >> 47 || mincore((void *)(uintptr_t)(word & ~(uint64_t)4095), 4096, &resident))
		return NULL;
	return "address";
}

/* Sizes of the core's part of legacy commands, which a written command does not tell. */
static const struct legacy { uint32_t command; size_t in, out; } legacies[] = {
#define LEGACY(command, in, out) {IB_USER_VERBS_CMD_##command, sizeof(struct in), out}
#define RESP(type) sizeof(struct type)
	LEGACY(GET_CONTEXT, ib_uverbs_get_context, RESP(ib_uverbs_get_context_resp)),
	LEGACY(QUERY_DEVICE, ib_uverbs_query_device, RESP(ib_uverbs_query_device_resp)),
	LEGACY(QUERY_PORT, ib_uverbs_query_port, RESP(ib_uverbs_query_port_resp)),
	LEGACY(ALLOC_PD, ib_uverbs_alloc_pd, RESP(ib_uverbs_alloc_pd_resp)),
	LEGACY(DEALLOC_PD, ib_uverbs_dealloc_pd, 0),
	LEGACY(CREATE_AH, ib_uverbs_create_ah, RESP(ib_uverbs_create_ah_resp)),
	LEGACY(DESTROY_AH, ib_uverbs_destroy_ah, 0),
	LEGACY(REG_MR, ib_uverbs_reg_mr, RESP(ib_uverbs_reg_mr_resp)),
	LEGACY(REREG_MR, ib_uverbs_rereg_mr, RESP(ib_uverbs_rereg_mr_resp)),
	LEGACY(DEREG_MR, ib_uverbs_dereg_mr, 0),
	LEGACY(ALLOC_MW, ib_uverbs_alloc_mw, RESP(ib_uverbs_alloc_mw_resp)),
	LEGACY(DEALLOC_MW, ib_uverbs_dealloc_mw, 0),
	LEGACY(CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel, RESP(ib_uverbs_create_comp_channel_resp)),
	LEGACY(CREATE_CQ, ib_uverbs_create_cq, RESP(ib_uverbs_create_cq_resp)),
	LEGACY(RESIZE_CQ, ib_uverbs_resize_cq, RESP(ib_uverbs_resize_cq_resp)),
	LEGACY(DESTROY_CQ, ib_uverbs_destroy_cq, RESP(ib_uverbs_destroy_cq_resp)),
	LEGACY(REQ_NOTIFY_CQ, ib_uverbs_req_notify_cq, 0),
	LEGACY(CREATE_QP, ib_uverbs_create_qp, RESP(ib_uverbs_create_qp_resp)),
	LEGACY(OPEN_QP, ib_uverbs_open_qp, RESP(ib_uverbs_create_qp_resp)),
	LEGACY(QUERY_QP, ib_uverbs_query_qp, RESP(ib_uverbs_query_qp_resp)),
	LEGACY(MODIFY_QP, ib_uverbs_modify_qp, 0),
	LEGACY(DESTROY_QP, ib_uverbs_destroy_qp, RESP(ib_uverbs_destroy_qp_resp)),
	LEGACY(ATTACH_MCAST, ib_uverbs_attach_mcast, 0),
	LEGACY(DETACH_MCAST, ib_uverbs_detach_mcast, 0),
	LEGACY(CREATE_SRQ, ib_uverbs_create_srq, RESP(ib_uverbs_create_srq_resp)),
	LEGACY(CREATE_XSRQ, ib_uverbs_create_xsrq, RESP(ib_uverbs_create_srq_resp)),
	LEGACY(MODIFY_SRQ, ib_uverbs_modify_srq, 0),
	LEGACY(QUERY_SRQ, ib_uverbs_query_srq, RESP(ib_uverbs_query_srq_resp)),
	LEGACY(DESTROY_SRQ, ib_uverbs_destroy_srq, RESP(ib_uverbs_destroy_srq_resp)),
	LEGACY(OPEN_XRCD, ib_uverbs_open_xrcd, RESP(ib_uverbs_open_xrcd_resp)),
	LEGACY(CLOSE_XRCD, ib_uverbs_close_xrcd, 0),
};

/* The driver's input without what the plugin leaves as it finds it. */
static void print_driver_in(const struct request *request)
{
	const struct driver *driver = request->file->device->driver;
	_Alignas(8) uint8_t bytes[4096];
	size_t size = request->driver_in_size;

	if (!size)
		return;
	if (size > sizeof bytes)
		abort();
	memcpy(bytes, request->driver_in, size);
	if (driver && driver->forget)
		driver->forget(request->command & IB_USER_VERBS_CMD_COMMAND_MASK, bytes, size);
	NOTE(" driver[%zu]", size);
	dump(bytes, size);
}

/* rdma-core sets the fields that the mask names; the others are as the plugin's stack left them. */
static void forget_modify(struct ib_uverbs_modify_qp *in)
{
	struct ib_uverbs_modify_qp clean = {.qp_handle = in->qp_handle, .attr_mask = in->attr_mask};

#define KEEP(mask, field) do { if (in->attr_mask & IBV_QP_##mask) clean.field = in->field; } while (0)
	KEEP(STATE, qp_state);
	KEEP(CUR_STATE, cur_qp_state);
	KEEP(EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	KEEP(ACCESS_FLAGS, qp_access_flags);
	KEEP(PKEY_INDEX, pkey_index);
	KEEP(PORT, port_num);
	KEEP(QKEY, qkey);
	KEEP(AV, dest);
	KEEP(PATH_MTU, path_mtu);
	KEEP(TIMEOUT, timeout);
	KEEP(RETRY_CNT, retry_cnt);
	KEEP(RNR_RETRY, rnr_retry);
	KEEP(RQ_PSN, rq_psn);
	KEEP(MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(ALT_PATH, alt_dest);
	KEEP(ALT_PATH, alt_pkey_index);
	KEEP(ALT_PATH, alt_port_num);
	KEEP(ALT_PATH, alt_timeout);
	KEEP(MIN_RNR_TIMER, min_rnr_timer);
	KEEP(SQ_PSN, sq_psn);
	KEEP(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(PATH_MIG_STATE, path_mig_state);
	KEEP(DEST_QPN, dest_qp_num);
	*in = clean;
}

static void print_legacy(const char *way, const struct request *request)
{
	_Alignas(8) uint8_t core[8192];
	size_t place;
	struct file *channel;
	int32_t fd;

	if (!record)
		return;
	name_other = name_memory;
	if (request->in_size > sizeof core)
		abort();
	memcpy(core, request->in, request->in_size);
	/* Numbers of files differ: a library may have others open. */
	place = request->command == IB_USER_VERBS_CMD_CREATE_CQ ? offsetof(struct ib_uverbs_create_cq, comp_channel) :
		request->command == EX(IB_USER_VERBS_EX_CMD_CREATE_CQ) ? offsetof(struct ib_uverbs_ex_create_cq, comp_channel) : 0;
	if (place && request->in_size >= place + 4) {
		memcpy(&fd, core + place, 4);
		channel = file_of(fd);
		if (channel)
			fd = 0xc0 + channel->number;
		memcpy(core + place, &fd, 4);
	}
	/* The reserved bytes behind the type are as the plugin's stack left them. */
	if (request->command == IB_USER_VERBS_CMD_OPEN_QP && request->in_size >= sizeof(struct ib_uverbs_open_qp))
		memset(((struct ib_uverbs_open_qp *)core)->reserved, 0, 7);
	if ((request->command & IB_USER_VERBS_CMD_COMMAND_MASK) == IB_USER_VERBS_CMD_MODIFY_QP)
		forget_modify((void *)core);
	if (request->command == IB_USER_VERBS_CMD_POST_SEND) {
		const struct ib_uverbs_post_send *post = request->in;
		struct object *qp = object_of(request->file->device, OBJECT_QP, post->qp_handle);

		datagrams = qp && qp->type == IBV_QPT_UD;
	}
	NOTE("  %s %#x", way, request->command);
	print_core(request->command, core, request->in_size, request->out_size);
	print_driver_in(request);
	NOTE(" -> core[%zu] driver[%zu]\n", request->out_size, request->driver_out_size);
}

ssize_t run_write(struct file *file, const void *start, size_t size)
{
	const struct ib_uverbs_cmd_hdr *hdr = start;
	const struct ib_uverbs_ex_cmd_hdr *ex = (const void *)(hdr + 1);
	struct request request = {.file = file, .command = hdr->command};
	uint64_t response = 0;

	if (hdr->command & IB_USER_VERBS_CMD_FLAG_EXTENDED) {
		request.in = ex + 1;
		request.in_size = hdr->in_words * 8;
		request.driver_in_size = ex->provider_in_words * 8;
		request.out_size = hdr->out_words * 8;
		request.driver_out_size = ex->provider_out_words * 8;
		response = ex->response;
	} else {
		request.in = hdr + 1;
		request.in_size = size - sizeof *hdr;
		request.out_size = hdr->out_words * 4;
		for (unsigned i = 0; i < sizeof legacies / sizeof *legacies; i++)
			if (legacies[i].command == hdr->command && request.in_size >= legacies[i].in) {
				request.driver_in_size = request.in_size - legacies[i].in;
				request.in_size = legacies[i].in;
				if (request.out_size >= legacies[i].out) {
					request.driver_out_size = request.out_size - legacies[i].out;
					request.out_size = legacies[i].out;
				}
			}
		if (request.out_size)
			memcpy(&response, request.in, sizeof response);
	}
	request.driver_in = (const char *)request.in + request.in_size;
	request.out = (void *)(uintptr_t)response;
	request.driver_out = (char *)request.out + request.out_size;
	print_legacy("write", &request);
	errno = run_command(&request);
	return errno ? -1 : (ssize_t)size;
}

static struct ib_uverbs_attr *attr_of(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id)
{
	for (unsigned i = 0; i < hdr->num_attrs; i++)
		if (hdr->attrs[i].attr_id == id)
			return &hdr->attrs[i];
	return NULL;
}

static uint64_t number_in(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id)
{
	struct ib_uverbs_attr *attr = attr_of(hdr, id);
	uint64_t number = 0;

	if (attr)
		memcpy(&number, input_bytes(attr), attr->len && attr->len < 8 ? attr->len : 8);
	return number;
}

static void give_attr(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id, const void *answer, size_t size)
{
	struct ib_uverbs_attr *attr = attr_of(hdr, id);

	if (attr)
		give((void *)(uintptr_t)attr->data, attr->len, answer, size);
}
#define GIVE(hdr, id, value) give_attr(hdr, id, &(value), sizeof(value))

static void driver_parts(struct request *request, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *in = attr_of(hdr, UVERBS_ATTR_UHW_IN), *out = attr_of(hdr, UVERBS_ATTR_UHW_OUT);

	if (in) {
		request->driver_in = input_bytes(in);
		request->driver_in_size = in->len;
	}
	if (out) {
		request->driver_out = (void *)(uintptr_t)out->data;
		request->driver_out_size = out->len;
	}
}

static int invoke_write(struct file *file, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *in = attr_of(hdr, UVERBS_ATTR_CORE_IN), *out = attr_of(hdr, UVERBS_ATTR_CORE_OUT);
	struct request request = {.file = file, .command = number_in(hdr, UVERBS_ATTR_WRITE_CMD)};

	if (!in) {
		/* Too short for any command: a question whether the method exists. rdma-core asks when a device is opened, ours
		 * when a failure leaves it open; so the first question of a file is not written down. */
		if (file->asked)
			NOTE("  invoke_write %#x without a command\n", request.command);
		file->asked = true;
		return ENOSPC;
	}
	request.in = input_bytes(in);
	request.in_size = in->len;
	if (out) {
		request.out = (void *)(uintptr_t)out->data;
		request.out_size = out->len;
	}
	driver_parts(&request, hdr);
	print_legacy("invoke_write", &request);
	return run_command(&request);
}

/* The entry of an attribute in a list of outputs. */
static uint16_t output_of(const struct driver *driver, const struct method *method, const struct ib_uverbs_ioctl_hdr *hdr,
			  uint16_t id)
{
	for (const struct driver_output *out = driver ? driver->outputs : NULL; out && out->attr; out++)
		if (out->object == hdr->object_id && out->method == hdr->method_id && out->attr == id)
			return out->number ? OUT_OBJ(id) : OUT(id);
	if (id >= UVERBS_ATTR_UHW_IN) /* the driver's numbers begin where its parts of a command are in commands' methods */
		return id == UVERBS_ATTR_UHW_OUT && method && method->legacy ? OUT(id) : 0;
	return method ? core_output(method, id) : 0;
}

/* Files are named by their number among the files of their kind. */
static void print_method(const struct file *file, const struct method *method, struct ib_uverbs_ioctl_hdr *hdr)
{
	if (!record)
		return;
	name_other = name_memory;
	print_header(hdr);
	for (unsigned i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr attr = hdr->attrs[i];
		struct file *named = NULL;

		if (attr.attr_id == UVERBS_ATTR_UHW_IN && method && method->legacy) {
			struct request request = {.file = (struct file *)file, .command = ~0u};

			for (unsigned j = 0; j < sizeof legacies / sizeof *legacies; j++)
				if ((method->command & IB_USER_VERBS_CMD_COMMAND_MASK) == legacies[j].command)
					request.command = legacies[j].command;
			driver_parts(&request, hdr);
			NOTE("    attr %#x len %u flags %u", attr.attr_id, attr.len, attr.flags);
			print_driver_in(&request);
			fputc('\n', record);
			continue;
		}
		if (!attr.len && ((hdr->object_id == UVERBS_OBJECT_CQ && (attr.attr_id == UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL ||
									 attr.attr_id == UVERBS_ATTR_CREATE_CQ_EVENT_FD)) ||
				  (hdr->object_id == UVERBS_OBJECT_QP && attr.attr_id == UVERBS_ATTR_CREATE_QP_EVENT_FD) ||
				  (hdr->object_id == UVERBS_OBJECT_SRQ && attr.attr_id == UVERBS_ATTR_CREATE_SRQ_EVENT_FD) ||
				  (hdr->object_id == UVERBS_OBJECT_WQ && attr.attr_id == UVERBS_ATTR_CREATE_WQ_EVENT_FD)))
			named = file_of(attr.data);
		if (named)
			attr.data = (named->kind == FILE_CHANNEL ? 0xc0 : 0xa0) + named->number;
		print_attr(&attr, output_of(file->device->driver, method, hdr, attr.attr_id));
	}
}

#define CREATED(id) do { attr_of(hdr, id)->data = request.object->handle; } while (0)

/* Methods that replaced a command run as that command; the others are here in full. */
static int run_method(struct file *file, const struct method *method, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct request request = {.file = file, .command = method->command};
	struct ib_uverbs_attr *first = hdr->num_attrs ? &hdr->attrs[0] : NULL;
	union { struct ib_uverbs_create_cq cq; struct ib_uverbs_create_qp qp; struct ib_uverbs_create_srq srq;
		struct ib_uverbs_ex_create_wq wq; uint32_t words[32]; } in = {0};
	uint32_t out[64] = {0};
	struct object *object;
	int error;

	driver_parts(&request, hdr);
	request.in = &in;
	request.in_size = sizeof in;
	request.out = out;
	request.out_size = sizeof out;
#define METHOD(object, method) ((object) << 16 | (method))
	switch (METHOD(method->object, method->method)) {
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT): {
		uint32_t vectors = 4;
		uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

		error = failure();
		if (error)
			return error;
		if (request.driver_out_size)
			memset(request.driver_out, 0, request.driver_out_size);
		if (file->device->driver && file->device->driver->answer)
			file->device->driver->answer(&request);
		GIVE(hdr, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors);
		GIVE(hdr, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, support);
		return 0;
	}
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT): {
		struct ib_uverbs_query_port_resp_ex answer = {.legacy_resp = port_attributes(file->device)};

		error = run_command(&request);
		if (!error)
			GIVE(hdr, UVERBS_ATTR_QUERY_PORT_RESP, answer);
		return error;
	}
	case METHOD(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC):
		error = failure();
		if (error)
			return error;
		first->data = event_file(FILE_ASYNC, file->device);
		return 0;
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY): {
		struct ib_uverbs_gid_entry entry = {.gid_index = number_in(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
						    .port_num = number_in(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_PORT),
						    .gid_type = IB_UVERBS_GID_TYPE_ROCE_V2};

		if (entry.gid_index > 1 || entry.port_num != 1)
			return entry.gid_index > 3 || entry.port_num != 1 ? EINVAL : ENODATA;
		error = failure();
		if (error)
			return error;
		memcpy(entry.gid, "\xfe\x80\0\0\0\0\0\0\x02\x50\xb6\xff\xfe\0\0", 15);
		((uint8_t *)entry.gid)[15] = entry.gid_index;
		GIVE(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
		return 0;
	}
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE): {
		struct ib_uverbs_gid_entry entries[2] = {{.port_num = 1, .gid_type = IB_UVERBS_GID_TYPE_ROCE_V1},
							 {.port_num = 1, .gid_index = 1, .gid_type = IB_UVERBS_GID_TYPE_ROCE_V2}};
		uint64_t count = 2;

		error = failure();
		if (error)
			return error;
		entries[0].gid[0] = entries[1].gid[0] = 0x80fe;
		if (!getenv("HARDWARE_SAME_GID")) /* else one address for both */
			entries[1].gid[1] = 0x0100;
		GIVE(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries);
		GIVE(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count);
		return 0;
	}
	case METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE): {
		struct ib_uverbs_attr *channel = attr_of(hdr, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);

		in.cq.user_handle = number_in(hdr, UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
		in.cq.cqe = number_in(hdr, UVERBS_ATTR_CREATE_CQ_CQE);
		in.cq.comp_vector = number_in(hdr, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR);
		in.cq.comp_channel = channel ? (int)channel->data : -1;
		error = run_command(&request);
		if (error)
			return error;
		CREATED(UVERBS_ATTR_CREATE_CQ_HANDLE);
		GIVE(hdr, UVERBS_ATTR_CREATE_CQ_RESP_CQE, out[1]);
		return 0;
	}
	case METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE): {
		struct ib_uverbs_attr *cap = attr_of(hdr, UVERBS_ATTR_CREATE_QP_CAP);

		in.qp.user_handle = number_in(hdr, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
		in.qp.qp_type = number_in(hdr, UVERBS_ATTR_CREATE_QP_TYPE);
		if (cap)
			memcpy(&in.qp.max_send_wr, input_bytes(cap), 20);
		error = run_command(&request);
		if (error)
			return error;
		CREATED(UVERBS_ATTR_CREATE_QP_HANDLE);
		give_attr(hdr, UVERBS_ATTR_CREATE_QP_RESP_CAP, &out[2], 20);
		GIVE(hdr, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, out[1]);
		return 0;
	}
	case METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE):
		in.srq.user_handle = number_in(hdr, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE);
		in.srq.max_wr = number_in(hdr, UVERBS_ATTR_CREATE_SRQ_MAX_WR);
		in.srq.max_sge = number_in(hdr, UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
		error = run_command(&request);
		if (error)
			return error;
		CREATED(UVERBS_ATTR_CREATE_SRQ_HANDLE);
		GIVE(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, out[1]);
		GIVE(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, out[2]);
		GIVE(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, out[3]);
		return 0;
	case METHOD(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE):
		in.wq.user_handle = number_in(hdr, UVERBS_ATTR_CREATE_WQ_USER_HANDLE);
		in.wq.max_wr = number_in(hdr, UVERBS_ATTR_CREATE_WQ_MAX_WR);
		in.wq.max_sge = number_in(hdr, UVERBS_ATTR_CREATE_WQ_MAX_SGE);
		error = run_command(&request);
		if (error)
			return error;
		CREATED(UVERBS_ATTR_CREATE_WQ_HANDLE);
		GIVE(hdr, UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, out[3]);
		GIVE(hdr, UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, out[4]);
		GIVE(hdr, UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, out[5]);
		return 0;
	}
	if (method->legacy) {
		/* What is left destroys, and the handle is attribute 0. */
		in.words[0] = in.words[1] = in.words[2] = number_in(hdr, 0);
		error = run_command(&request);
		if (!error && method->outputs[0])
			give_attr(hdr, method->outputs[0] - 1, out + (method->object == UVERBS_OBJECT_WQ ? 2 : 0), 8);
		return error;
	}
	error = failure();
	if (error)
		return error;
	switch (METHOD(method->object, method->method)) {
	case METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC):
		request.object = new_object(file->device, OBJECT_DM, 0);
		CREATED(UVERBS_ATTR_ALLOC_DM_HANDLE);
		break;
	case METHOD(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE):
		request.object = new_object(file->device, OBJECT_COUNTERS, 0);
		CREATED(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
		break;
	case METHOD(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE):
		request.object = new_object(file->device, OBJECT_ACTION, 0);
		CREATED(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE);
		break;
	case METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG):
	case METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR): {
		uint32_t lkey = 0x5001, rkey = 0x5002;
		bool dm = method->method == UVERBS_METHOD_DM_MR_REG;

		request.object = new_object(file->device, OBJECT_MR, 0);
		CREATED(dm ? UVERBS_ATTR_REG_DM_MR_HANDLE : UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
		GIVE(hdr, dm ? UVERBS_ATTR_REG_DM_MR_RESP_LKEY : UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, lkey);
		GIVE(hdr, dm ? UVERBS_ATTR_REG_DM_MR_RESP_RKEY : UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, rkey);
		break;
	}
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT): {
		uint32_t vectors = 4;
		uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

		GIVE(hdr, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, vectors);
		GIVE(hdr, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, support);
		break;
	}
	case METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR): {
		uint32_t lkey = 0x6001, rkey = 0x6002;
		uint64_t length = 4096;

		GIVE(hdr, UVERBS_ATTR_QUERY_MR_RESP_LKEY, lkey);
		GIVE(hdr, UVERBS_ATTR_QUERY_MR_RESP_RKEY, rkey);
		GIVE(hdr, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, length);
		break;
	}
	case METHOD(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ): {
		uint64_t values[4] = {11, 22, 33, 44};

		give_attr(hdr, UVERBS_ATTR_READ_COUNTERS_BUFF, values, sizeof values);
		break;
	}
	case METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE):
	case METHOD(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY):
	case METHOD(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY):
		object = object_of(file->device, method->object == UVERBS_OBJECT_DM ? OBJECT_DM :
				   method->object == UVERBS_OBJECT_COUNTERS ? OBJECT_COUNTERS : OBJECT_ACTION, first->data);
		if (!object)
			return EINVAL;
		object->gone = true;
		break;
	case METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR):
	case METHOD(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY): break;
	default: return EPROTONOSUPPORT;
	}
	if (file->device->driver && file->device->driver->method)
		file->device->driver->method(file, hdr);
	return 0;
}

/* These methods are younger than those that replaced commands. */
static bool gid_query(const struct ib_uverbs_ioctl_hdr *hdr)
{
	return hdr->object_id == UVERBS_OBJECT_DEVICE &&
	       (hdr->method_id == UVERBS_METHOD_QUERY_GID_ENTRY || hdr->method_id == UVERBS_METHOD_QUERY_GID_TABLE);
}

int run_ioctl(struct file *file, struct ib_uverbs_ioctl_hdr *hdr)
{
	const struct driver *driver = file->device->driver;
	int error = EPROTONOSUPPORT;
	bool known = false;

	if (hdr->object_id == UVERBS_OBJECT_DEVICE && hdr->method_id == UVERBS_METHOD_INVOKE_WRITE) {
		error = invoke_write(file, hdr);
		goto done;
	}
	for (unsigned i = 0; i < sizeof methods / sizeof *methods && !known; i++)
		if (methods[i].object == hdr->object_id && methods[i].method == hdr->method_id) {
			if (ways != WAY_METHODS && (methods[i].legacy || gid_query(hdr)))
				break;
			known = true;
			print_method(file, &methods[i], hdr);
			error = run_method(file, &methods[i], hdr);
		}
	for (const struct driver_output *out = driver ? driver->outputs : NULL; out && out->attr && !known; out++)
		if (out->object == hdr->object_id && out->method == hdr->method_id && ways == WAY_METHODS) {
			known = true;
			print_method(file, NULL, hdr);
			error = failure();
			if (!error)
				driver->method(file, hdr);
		}
	if (!known)
		NOTE("  ioctl object %u method %u refused\n", hdr->object_id, hdr->method_id);
done:
	if (!error)
		return 0;
	errno = error;
	return -1;
}
