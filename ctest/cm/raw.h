/*
 * raw.h - commands to /dev/infiniband/rdma_cm without librdmacm: what any program may write there.
 */
#ifndef CTEST_CM_RAW_H
#define CTEST_CM_RAW_H

#include "../transcript.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define DEVICE "/dev/infiniband/rdma_cm"
#define HERE "10.77.0.1"
#define PS_TCP 0x0106
#define PS_UDP 0x0111

static const char *const raw_names[] = {
	"CREATE_ID", "DESTROY_ID", "BIND_IP", "RESOLVE_IP", "RESOLVE_ROUTE", "QUERY_ROUTE", "CONNECT", "LISTEN", "ACCEPT", "REJECT",
	"DISCONNECT", "INIT_QP_ATTR", "GET_EVENT", "GET_OPTION", "SET_OPTION", "NOTIFY", "JOIN_IP_MCAST", "LEAVE_MCAST", "MIGRATE_ID",
	"QUERY", "BIND", "RESOLVE_ADDR", "JOIN_MCAST",
};
#define RAW_COMMANDS ((int)(sizeof(raw_names) / sizeof(*raw_names)))

/* Size of the body of each command, and of the largest answer. */
static const uint16_t raw_bodies[] = {24, 16, 40, 64, 8, 16, 288, 8, 296, 264, 4, 16, 8, 0, 24, 8, 48, 16, 16, 16, 136, 272, 152};
static const uint16_t raw_answers[] = {4, 4, 0, 0, 0, 208, 0, 0, 0, 0, 0, 144, 336, 0, 0, 0, 4, 4, 4, 280, 0, 0, 4};
/* Where the body has the id (-1: nowhere), and where the pointer to the answer. */
static const int raw_ids[] = {-1, 8, 36, 56, 0, 8, 272, 0, 280, 0, 0, 8, -1, -1, 8, 0, 44, 8, 8, 8, 0, 0, 16};
static const int raw_pointers[] = {8, 0, -1, -1, -1, 0, -1, -1, -1, -1, -1, 0, 0, -1, -1, -1, 0, 0, 0, 0, -1, -1, 0};

struct raw_command {
	struct rdma_ucm_cmd_hdr header;
	union {
		uint8_t bytes[512];
		struct rdma_ucm_create_id create;
		struct rdma_ucm_destroy_id destroy;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_bind_ip bind_ip;
		struct rdma_ucm_resolve_addr resolve;
		struct rdma_ucm_resolve_ip resolve_ip;
		struct rdma_ucm_resolve_route route;
		struct rdma_ucm_query query;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_init_qp_attr attr;
		struct rdma_ucm_get_event event;
		struct rdma_ucm_set_option option;
		struct rdma_ucm_notify notify;
		struct rdma_ucm_join_ip_mcast join_ip;
		struct rdma_ucm_join_mcast join;
		struct rdma_ucm_migrate_id migrate;
	} u;
};

static uint8_t raw_answer[1024] __attribute__((aligned(8)));
static uint8_t raw_option[144];

static inline int raw_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die(DEVICE ": %s", errno_name(errno));
	return fd;
}

/* What write() answered: 0 for all of the length, else -errno, or 1 for another count. */
static inline int raw_write(int fd, const void *data, size_t length)
{
	ssize_t written;

	errno = 0;
	written = write(fd, data, length);
	if (written < 0)
		return -errno;
	return (size_t)written == length ? 0 : 1;
}

static inline const char *raw_result(int result)
{
	return result == 0 ? "all" : result == 1 ? "another count" : errno_name(-result);
}

/* A queue pair number that nobody has used: one in the time-wait state would be refused. */
static inline uint32_t raw_qp(void)
{
	static uint32_t next;

	return 0x800000 | ((uint32_t)getpid() * 1024 + next++) % 0x7ffff0;
}

static inline void raw_four(void *where, const char *text, int port)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &four.sin_addr);
	memcpy(where, &four, sizeof(four));
}

/* A command that is right in every part, for this id; answers go to raw_answer. */
static inline void raw_fill(struct raw_command *c, int command, uint32_t id)
{
	uint64_t pointer = (uintptr_t)raw_answer;

	memset(c, 0, sizeof(*c));
	memset(raw_answer, 0xa5, sizeof(raw_answer));
	c->header = (struct rdma_ucm_cmd_hdr){command, raw_bodies[command], raw_answers[command]};
	if (raw_ids[command] >= 0)
		memcpy(c->u.bytes + raw_ids[command], &id, 4);
	if (raw_pointers[command] >= 0)
		memcpy(c->u.bytes + raw_pointers[command], &pointer, 8);
	switch (command) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		c->u.create.uid = 0x1111;
		c->u.create.ps = PS_TCP;
		c->u.create.qp_type = 2;
		break;
	case RDMA_USER_CM_CMD_BIND_IP:
		raw_four(&c->u.bind_ip.addr, HERE, 0);
		break;
	case RDMA_USER_CM_CMD_BIND:
		raw_four(&c->u.bind.addr, HERE, 0);
		c->u.bind.addr_size = sizeof(struct sockaddr_in);
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		raw_four(&c->u.resolve_ip.dst_addr, HERE, 7471);
		c->u.resolve_ip.timeout_ms = 1000;
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		raw_four(&c->u.resolve.dst_addr, HERE, 7471);
		c->u.resolve.dst_size = sizeof(struct sockaddr_in);
		c->u.resolve.timeout_ms = 1000;
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		c->u.route.timeout_ms = 1000;
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		c->u.connect.conn_param.valid = 1;
		c->u.connect.conn_param.qp_num = raw_qp();
		c->u.connect.conn_param.retry_count = 7;
		break;
	case RDMA_USER_CM_CMD_LISTEN:
		c->u.listen.backlog = 4;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		c->u.accept.uid = 0x2222;
		c->u.accept.conn_param.valid = 1;
		c->u.accept.conn_param.qp_num = raw_qp();
		break;
	case RDMA_USER_CM_CMD_SET_OPTION:
		c->u.option.optval = (uintptr_t)raw_option;
		c->u.option.optlen = 1;
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		raw_four(&c->u.join_ip.addr, "239.1.2.3", 0);
		c->u.join_ip.uid = 0x3333;
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		raw_four(&c->u.join.addr, "239.1.2.3", 0);
		c->u.join.addr_size = sizeof(struct sockaddr_in);
		c->u.join.uid = 0x3333;
		break;
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		c->u.migrate.fd = -1;
		break;
	}
}

/* One command as it should be. */
static inline int raw_do(int fd, int command, uint32_t id)
{
	struct raw_command c;

	raw_fill(&c, command, id);
	return raw_write(fd, &c, 8 + raw_bodies[command]);
}

static inline uint32_t raw_create(int fd, uint16_t space, uint64_t uid)
{
	struct raw_command c;
	uint32_t id;
	int result;

	raw_fill(&c, RDMA_USER_CM_CMD_CREATE_ID, 0);
	c.u.create.ps = space;
	c.u.create.qp_type = space == PS_UDP ? 4 : 2;
	c.u.create.uid = uid;
	result = raw_write(fd, &c, 8 + sizeof(c.u.create));
	if (result)
		die("CREATE_ID: %s", raw_result(result));
	memcpy(&id, raw_answer, 4);
	return id;
}

static inline int raw_bind(int fd, uint32_t id, const char *address, int port)
{
	struct raw_command c;

	raw_fill(&c, RDMA_USER_CM_CMD_BIND, id);
	raw_four(&c.u.bind.addr, address, port);
	return raw_write(fd, &c, 8 + sizeof(c.u.bind));
}

/* The next event: its number, or -errno; raw_answer has it. */
static inline int raw_event(int fd)
{
	struct raw_command c;
	int result;

	if (!readable(fd, 100000))
		return -ETIME;
	raw_fill(&c, RDMA_USER_CM_CMD_GET_EVENT, 0);
	result = raw_write(fd, &c, 8 + sizeof(c.u.event));
	return result ? result : (int)((struct rdma_ucm_event_resp *)raw_answer)->event;
}

static inline void raw_must(const char *what, int result, int wanted)
{
	if (result != wanted)
		die("%s: %d %s", what, result, result < 0 ? errno_name(-result) : "");
}

#endif
