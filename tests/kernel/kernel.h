/*
 * kernel.h - a kernel in the process that has RDMA devices: loaded before the C library, it answers for the device files
 * and for RDMA netlink. sysfs is a folder of real files (SYSFS_PATH).
 *
 *   files.c    open, stat, mmap, close, write, ioctl: what a process calls
 *   netlink.c  the same for RDMA netlink
 *   requests.c takes a request apart, writes it down and has it run
 *   core.c     the verbs core: its answers
 *   objects.c  objects, events, and requests that are to fail
 *   mlx.c, nics.c, hcas.c   the drivers: their part of the answers
 *   soft.c     those of soft-RoCE and soft-iWARP, whose queues lie in memory that they share with the process
 *   mads.h     the files of user_mad
 *
 * tests/hardware compares what it writes down; bench/kernel measures over it, without writing.
 */
#ifndef HARDWARE_KERNEL_H
#define HARDWARE_KERNEL_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* Where requests are written down; NULL where a measurement wants none of that. */
extern FILE *record;
#define RECORD record
#define NOTE(...) do { if (record) fprintf(record, __VA_ARGS__); } while (0)
#define FLUSH() do { if (record) fflush(record); } while (0)

struct file;
struct request;

/* A driver's part of the kernel. */
struct driver {
	const char *provider;
	/* Puts the driver's answer into request->driver_out, which is zeroed; the core's answer is there already. */
	void (*answer)(struct request *);
	/* Fills memory that the process has mapped from the device file; NULL to leave zeros. */
	void (*map)(uint64_t offset, void *memory, size_t size);
	/* Attributes of methods that come out, and of methods that are the driver's own. */
	const struct driver_output { uint16_t object, method, attr; bool number; } *outputs;
	/* Answers such a method. */
	void (*method)(struct file *, struct ib_uverbs_ioctl_hdr *);
	/* Zeroes the bytes of a request that the provider's plugin leaves as it finds them. */
	void (*forget)(uint32_t command, uint8_t *in, size_t size);
};
extern const struct driver *const mlx_drivers[], *const nic_drivers[], *const hca_drivers[], *const soft_drivers[];

struct device {
	char provider[16], name[32], modalias[96];
	unsigned driver_id, node_type, abi, link_layer, vendor, part;
	unsigned number; /* of the device file */
	bool absent;     /* taken out */
	unsigned times;  /* how often it was taken out */
	const struct driver *driver;
};
extern struct device devices[32];
extern unsigned device_count;

/* What the kernel of this run knows. */
enum ways { WAY_METHODS, WAY_INVOKE_WRITE, WAY_WRITE };
extern enum ways ways;
extern bool has_netlink;

enum file_kind { FILE_COMMANDS, FILE_ASYNC, FILE_CHANNEL };

/* An open file of a device. */
struct file {
	int fd;                 /* -1 when it was closed */
	int reports;            /* the end of an event file into which the kernel writes */
	enum file_kind kind;
	unsigned number;        /* among the files of its kind */
	struct device *device;
	bool asked;             /* whether it was asked for INVOKE_WRITE */
	unsigned times;         /* how often the device had been taken out when it was opened */
};
struct file *file_of(int fd);
struct file *new_file(int fd, enum file_kind kind, struct device *device);
/* A new event file of the device. */
int event_file(enum file_kind kind, struct device *device);

enum object_kind {
	OBJECT_PD, OBJECT_MR, OBJECT_MW, OBJECT_AH, OBJECT_CQ, OBJECT_SRQ, OBJECT_QP, OBJECT_WQ, OBJECT_TABLE, OBJECT_FLOW,
	OBJECT_XRCD, OBJECT_DM, OBJECT_COUNTERS, OBJECT_ACTION, OBJECT_OF_DRIVER, OBJECT_KINDS
};

/* What a driver was told of a queue. Who plays the device finds it by hardware_rings. */
struct rings {
	void *ring, *record;    /* entries; doorbell record */
	void *send_ring;        /* of a queue pair: blocks to send */
	uint32_t entries;       /* of a completion queue or shared receive queue */
	uint32_t produced;      /* completions so far */
	uint32_t uidx;          /* how completions name the queue */
	uint32_t sends, receives, shift; /* blocks of 64 bytes; receive requests, of 1 << shift bytes */
};

struct object {
	enum object_kind kind;
	uint32_t handle;        /* different for all objects of a device */
	uint32_t index;         /* among the objects of its kind, from 1 */
	struct device *device;
	bool gone;
	uint64_t user_handle;
	struct file *channel;
	uint32_t completions, events; /* reported */
	uint32_t type, state;   /* of a queue pair or work queue */
	struct ib_uverbs_qp_cap cap;
	uint64_t memory;        /* the driver's: where the program has its ring */
	struct rings rings;     /* the same for a device whose queues somebody plays */
};
struct object *object_of(struct device *device, enum object_kind kind, uint32_t handle);
struct object *new_object(struct device *device, enum object_kind kind, uint64_t user_handle);

/* A request, whatever way it came. The command is the legacy one, with its flag for the extended form; a method that
 * replaced a command counts as that command. */
struct request {
	struct file *file;
	struct object *object;  /* created or named */
	uint32_t command;
	const void *in, *driver_in;
	void *out, *driver_out;
	size_t in_size, out_size, driver_in_size, driver_out_size;
};
#define EX(command) ((command) | IB_USER_VERBS_CMD_FLAG_EXTENDED)

/* Copies as much of an answer as there is room for. */
static inline void give(void *out, size_t size, const void *answer, size_t answer_size)
{
	memcpy(out, answer, answer_size < size ? answer_size : size);
}
/* The number of the object that a driver's answer is about. */
static inline uint32_t number(const struct request *request)
{
	return request->object ? request->object->index : 0;
}

#define ANSWER(request, ...) \
	give((request)->driver_out, (request)->driver_out_size, &(__VA_ARGS__), sizeof(__VA_ARGS__))

/* Runs a command; the result is an error number or 0. */
int run_command(struct request *request);
struct ib_uverbs_query_port_resp port_attributes(const struct device *device);

/* The error with which the program wants this request to fail, or 0. */
int failure(void);

/* The C library's `syscall`, as files.c has one of its own. */
long (*system_call(void))(long number, ...);
#define SYSTEM_CALL(...) system_call()(__VA_ARGS__)

/* Where a path of sysfs is that is played, as it is for all others; the room is for the new path. */
const char *sysfs_path(const char *path, char *room, size_t size);

/* The files of user_mad, each call for such a path or file only. */
bool mad_path(const char *path);
int mad_open(const char *path, int flags);
bool is_mad_file(int fd);
int mad_ioctl(int fd, unsigned long request, void *argument);
ssize_t mad_write(int fd, const void *bytes, size_t size);
ssize_t mad_read(int fd, void *bytes, size_t size);
void mad_close(int fd);

/* A socket of RDMA netlink is closed. */
void forget_socket(int fd);

/* The two ways in; the result is that of the system call. */
int run_ioctl(struct file *file, struct ib_uverbs_ioctl_hdr *hdr);
ssize_t run_write(struct file *file, const void *command, size_t size);

#endif
