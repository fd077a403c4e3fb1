/*
 * recorder.h - a provider in the program, which registers itself as rdma-core 44's plugins do. It drives the device
 * "recorder0", which tests/commands/run puts into a sysfs of its own. It has every operation: each prints its arguments
 * and answers as the test says.
 */
#ifndef COMMANDS_RECORDER_H
#define COMMANDS_RECORDER_H

#include "kernel.h"

enum {
	ASYNC_FD = 0x40,  /* the number that kernel.h gives to the file of asynchronous events */
	CHANNEL_FD = 0x21 /* and to a completion channel */
};

/*
 * The layout of the private ABI in which the provider was built: that of rdma-core 33, 34 (36 to 56), 57 (and 58), 59 (to 61),
 * 62 (and 63), 64 or 65. The last releases of 59 have its number and another layout.
 */
#ifndef PRIVATE
#define PRIVATE 34
#endif
#if PRIVATE == 62
#define NUMBER_OF_ABI 59
#else
#define NUMBER_OF_ABI PRIVATE
#endif
#define PASTE(a, b) a##b
#define NUMBERED(name, number) PASTE(name, number)
#define verbs_register_driver NUMBERED(verbs_register_driver_, NUMBER_OF_ABI)
#if PRIVATE != 34 /* under which a linker finds a name by itself */
#define BIND_HERE(function, number) BIND(function, number)
BIND_HERE(_verbs_init_and_alloc_context, NUMBER_OF_ABI);
BIND_HERE(ibv_cmd_create_qp_ex2, NUMBER_OF_ABI);
BIND_HERE(verbs_init_cq, NUMBER_OF_ABI);
BIND_HERE(verbs_open_device, NUMBER_OF_ABI);
BIND_HERE(verbs_set_ops, NUMBER_OF_ABI);
BIND_HERE(verbs_uninit_context, NUMBER_OF_ABI);
#endif

/* The layouts by what came with them. */
#if PRIVATE >= 34
#define SINCE_34(operation) operation
#else
#define SINCE_34(operation)
#endif
#if PRIVATE >= 59
#define SINCE_59(operation) operation
#else
#define SINCE_59(operation)
#endif
#if PRIVATE >= 62
#define SINCE_62(operation) operation
#else
#define SINCE_62(operation)
#endif
#if PRIVATE >= 64
#define SINCE_64(operation) operation
#else
#define SINCE_64(operation)
#endif
#if PRIVATE >= 65
#define SINCE_65(operation) operation
#else
#define SINCE_65(operation)
#endif
enum {
	OPERATIONS_SIZE = PRIVATE == 33 ? 576 : PRIVATE < 59 ? 608 : PRIVATE == 59 ? 632 : PRIVATE == 62 ? 648 :
			  PRIVATE == 64 ? 664 : 744,
	/* What a provider asks for as its context. By this the library tells the two layouts of number 59 apart: mlx4's. */
	CONTEXT_SIZE = PRIVATE == 59 ? 9160 : PRIVATE == 62 ? 9168 : 1024
};

/* The private ABI: what a provider registers, and its operations in their order, with those of later versions. */
struct match_line { void *driver_data; const char *modalias; uint16_t vendor, device; uint8_t kind; };
struct driver {
	const char *name;
	uint32_t min_abi_version, max_abi_version;
	const struct match_line *match_table;
	const void **static_providers;
	bool (*match_device)(void *sysfs);
	void *(*alloc_context)(struct ibv_device *, int fd, void *private_data);
	void *(*import_context)(struct ibv_device *, int fd);
	void *(*alloc_device)(void *sysfs);
	void (*uninit_device)(void *device);
};

/* Name and bytes of each argument; the callee looks at no more of a register. */
#define OPERATIONS(X)                                                                                                  \
	X(advise_mr, "84484") SINCE_64(X(alloc_buf, "888")) X(alloc_dm, "88")                                          \
	SINCE_59(X(alloc_dmah, "88")) X(alloc_mw, "84") X(alloc_null_mr, "8")                                          \
	X(alloc_parent_domain, "88") X(alloc_pd, "8") X(alloc_td, "88") X(async_event, "88")                           \
	X(attach_counters_point_flow, "888") X(attach_mcast, "882") X(bind_mw, "888") X(close_xrcd, "8")               \
	X(cq_event, "8") X(create_ah, "88") SINCE_65(X(create_comp_cntr, "88")) X(create_counters, "88")               \
	X(create_cq, "8484") X(create_cq_ex, "88") X(create_flow, "88") X(create_flow_action_esp, "88")                \
	X(create_qp, "88") X(create_qp_ex, "88") X(create_rwq_ind_table, "88") X(create_srq, "88")                     \
	X(create_srq_ex, "88") X(create_wq, "88") SINCE_59(X(dealloc_dmah, "8")) X(dealloc_mw, "8")                    \
	X(dealloc_pd, "8") X(dealloc_td, "8") X(dereg_mr, "8") X(destroy_ah, "8")                                      \
	SINCE_65(X(destroy_comp_cntr, "8")) X(destroy_counters, "8") X(destroy_cq, "8")                                \
	X(destroy_flow, "8") X(destroy_flow_action, "8") X(destroy_qp, "8") X(destroy_rwq_ind_table, "8")              \
	X(destroy_srq, "8") X(destroy_wq, "8") X(detach_mcast, "882")                                                  \
	SINCE_62(X(dm_export_dmabuf_fd, "8")) SINCE_64(X(free_buf, "8")) X(free_context, "8")                          \
	X(free_dm, "8") X(get_srq_num, "88") SINCE_34(X(import_dm, "84")) X(import_mr, "84")                           \
	X(import_pd, "84") SINCE_65(X(inc_comp_cntr, "88")) SINCE_65(X(inc_err_comp_cntr, "88"))                       \
	X(modify_cq, "88") X(modify_flow_action_esp, "88") X(modify_qp, "884")                                         \
	X(modify_qp_rate_limit, "88") X(modify_srq, "884") X(modify_wq, "88") X(open_qp, "88")                         \
	X(open_xrcd, "88") X(poll_cq, "848") X(post_recv, "888") X(post_send, "888")                                   \
	X(post_srq_ops, "888") X(post_srq_recv, "888") SINCE_65(X(qp_attach_comp_cntr, "888"))                         \
	SINCE_65(X(query_comp_cntr_caps, "888")) X(query_device_ex, "8888") X(query_ece, "88")                         \
	X(query_port, "818") SINCE_62(X(query_port_speed, "848")) X(query_qp, "8848")                                  \
	SINCE_34(X(query_qp_data_in_order, "844")) X(query_rt_values, "88") X(query_srq, "88")                         \
	SINCE_65(X(read_comp_cntr, "88")) X(read_counters, "8844") SINCE_65(X(read_err_comp_cntr, "88"))               \
	X(reg_dm_mr, "88884") SINCE_34(X(reg_dmabuf_mr, "888844")) X(reg_mr, "88884")                                  \
	SINCE_59(X(reg_mr_ex, "88")) X(req_notify_cq, "84") X(rereg_mr, "848884") X(resize_cq, "84")                   \
	SINCE_65(X(set_comp_cntr, "88")) X(set_ece, "88") SINCE_65(X(set_err_comp_cntr, "88"))                         \
	SINCE_34(X(unimport_dm, "8")) X(unimport_mr, "8") X(unimport_pd, "8")

void verbs_register_driver(const struct driver *);
void verbs_set_ops(struct verbs_context *, const void *operations);
void verbs_uninit_context(struct verbs_context *);
void verbs_init_cq(struct ibv_cq *, struct ibv_context *, struct ibv_comp_channel *, void *cq_context);
struct ibv_context *verbs_open_device(struct ibv_device *, void *private_data);
void __verbs_log(struct verbs_context *, uint32_t level, const char *format, ...);

/* What every operation answers, as a pointer or cut to its type; what it leaves in errno, and what it writes where one of
 * its arguments points, also when it fails. */
static uintptr_t answer;
static int answer_errno;
static struct { unsigned argument; size_t size; } writes;

/* A value that may be an address: by the name of what stands there, otherwise only as an address. */
static void show_value(uintptr_t value)
{
	for (unsigned i = 0; value && i < name_count; i++)
		if (value == (uintptr_t)names[i].start) {
			printf(" <%s>", names[i].name);
			return;
		}
	if (value >> 40 && value >> 40 < 0xffff)
		printf(" address");
	else
		printf(" %#lx", (unsigned long)value);
}

static uintptr_t recorded(const char *operation, const char *widths, const uintptr_t *arguments)
{
	printf("  %s(", operation);
	for (unsigned i = 0; widths[i]; i++) {
		unsigned bits = 8 * (widths[i] - '0');

		show_value(bits == 64 ? arguments[i] : arguments[i] & (((uintptr_t)1 << bits) - 1));
	}
	puts(" )");
	if (writes.size)
		fill((void *)arguments[writes.argument], writes.size, 0x11);
	if (answer_errno)
		errno = answer_errno;
	return answer;
}

#define X(name, widths)                                                                                                \
	static uintptr_t record_##name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)   \
	{                                                                                                              \
		return recorded(#name, widths, (const uintptr_t[]){a, b, c, d, e, f});                                 \
	}
OPERATIONS(X)
#undef X

typedef uintptr_t operation(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
static struct operations {
#define X(name, widths) operation *name;
	OPERATIONS(X)
#undef X
} operations = {
#define X(name, widths) .name = record_##name,
	OPERATIONS(X)
#undef X
};
_Static_assert(sizeof(struct operations) == OPERATIONS_SIZE, "verbs_context_ops");

/* The provider's context begins with the library's, which is as long as its release had it. */
static struct verbs_context *outer_context;
static uintptr_t free_context(uintptr_t context, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
{
	(void)context, (void)b, (void)c, (void)d, (void)e, (void)f;
	puts("  free_context");
	verbs_uninit_context(outer_context);
	free(outer_context);
	return 0;
}

static void *make_context(const char *how, struct ibv_device *device, int fd, uintptr_t private_data)
{
	printf("  %s file %d private data %#lx\n", how, fd == COMMAND_FD, (unsigned long)private_data);
	/* A driver whose plugin makes its queue pairs as struct verbs_qp. */
	outer_context = _verbs_init_and_alloc_context(device, fd, CONTEXT_SIZE, NULL, RDMA_DRIVER_MLX4);
	if (outer_context) {
		operations.free_context = free_context;
		verbs_set_ops(outer_context, &operations);
	}
	return outer_context;
}

static void *alloc_context(struct ibv_device *device, int fd, void *private_data)
{
	return make_context("alloc_context", device, fd, (uintptr_t)private_data);
}

static void *import_context(struct ibv_device *device, int fd)
{
	return make_context("import_context", device, fd, 0);
}

static void *alloc_device(void *sysfs)
{
	(void)sysfs;
	return calloc(1, sizeof(struct private_device));
}

static void uninit_device(void *device)
{
	free(device);
}

static const struct match_line lines[] = {{.modalias = "rdma_device:Nrecorder*", .kind = 2}, {.kind = 0}};
static const struct driver driver_ops = {
	.name = "recorder",
	.min_abi_version = 1,
	.max_abi_version = 3,
	.match_table = lines,
	.alloc_context = alloc_context,
	.import_context = import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

static __attribute__((constructor)) void register_driver(void)
{
	verbs_register_driver(&driver_ops);
}

/* The device file: any character device, with a number that nothing else has. */
static int open_file(int folder, const char *path, int flags, mode_t mode)
{
	int fd;

	if (strncmp(path, "/dev/infiniband/", 16))
		return syscall(SYS_openat, folder, path, flags, mode);
	fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", flags, mode);
	if (fd < 0 || dup2(fd, COMMAND_FD) < 0)
		return -1;
	close(fd);
	return COMMAND_FD;
}

static mode_t mode_of(int flags, va_list arguments)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                                                                                     \
	int name(const char *path, int flags, ...)                                                                     \
	{                                                                                                              \
		va_list arguments;                                                                                     \
		int fd;                                                                                                \
                                                                                                                       \
		va_start(arguments, flags);                                                                            \
		fd = open_file(AT_FDCWD, path, flags, mode_of(flags, arguments));                                      \
		va_end(arguments);                                                                                     \
		return fd;                                                                                             \
	}
OPEN(open)
OPEN(open64)

/* A file that the library gets by number, and the end that the test writes to. */
static int event_end;
static void make_pipe(int number, int *end)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) || dup2(ends[0], number) < 0) {
		perror("pipe");
		exit(1);
	}
	close(ends[0]);
	*end = ends[1];
}

static inline struct ibv_context *open_recorder(void *private_data)
{
	struct ibv_device **list;
	struct ibv_context *context = NULL;
	int count = -1;

	kernel.ioctl = kernel.methods = true;
	make_pipe(ASYNC_FD, &event_end);
	list = ibv_get_device_list(&count);
	printf("devices %d\n", count);
	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), "recorder0"))
			continue;
		printf("node type %d transport %d guid %016llx index %d\n", list[i]->node_type, list[i]->transport_type,
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])), ibv_get_device_index(list[i]));
		context = private_data ? verbs_open_device(list[i], private_data) : ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!context) {
		printf("recorder0 was not opened: errno %d\n", errno);
		exit(1);
	}
	name(context, "context");
	return context;
}

#endif
