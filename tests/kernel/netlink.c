/*
 * netlink.c - RDMA netlink. The sockets are real ones of the routing family, so that what libraries do with a socket
 * works; requests and answers of RDMA do not go through them.
 */
#include "kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Answers that wait at a socket, one after the other, each behind its length. */
static struct queue {
	int fd; /* plus 1; 0 for none */
	size_t start, end;
	char bytes[65536];
} queues[8];

static struct queue *queue_of(int fd)
{
	for (unsigned i = 0; i < sizeof queues / sizeof *queues; i++)
		if (queues[i].fd == fd + 1)
			return &queues[i];
	return NULL;
}

void forget_socket(int fd)
{
	struct queue *queue = queue_of(fd);

	if (queue)
		queue->fd = 0;
}

int socket(int domain, int type, int protocol)
{
	struct queue *queue = queue_of(-1);
	int fd;

	if (domain != AF_NETLINK || protocol != NETLINK_RDMA)
		return SYSTEM_CALL(SYS_socket, domain, type, protocol);
	if (!has_netlink) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	fd = SYSTEM_CALL(SYS_socket, domain, type, NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	if (!queue)
		abort();
	*queue = (struct queue){.fd = fd + 1};
	return fd;
}

/* An answer in the making. */
struct message {
	struct nlmsghdr header;
	char bytes[1024];
};

static void attribute(struct message *message, uint16_t type, const void *value, size_t size)
{
	struct nlattr attribute = {.nla_len = NLA_HDRLEN + size, .nla_type = type};
	char *end = (char *)message + message->header.nlmsg_len;

	memcpy(end, &attribute, sizeof attribute);
	memcpy(end + NLA_HDRLEN, value, size);
	message->header.nlmsg_len += NLMSG_ALIGN(NLA_HDRLEN + size);
}
#define ATTRIBUTE(message, type, value) attribute(message, type, &(value), sizeof(value))

static struct message answer_to(const struct nlmsghdr *request, uint16_t type, uint16_t flags)
{
	return (struct message){.header = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = type, .nlmsg_flags = flags,
					   .nlmsg_seq = request->nlmsg_seq, .nlmsg_pid = request->nlmsg_pid}};
}

static void send_back(struct queue *queue, const struct message *message)
{
	size_t size = message->header.nlmsg_len;

	if (queue->end + sizeof size + size > sizeof queue->bytes)
		abort();
	memcpy(queue->bytes + queue->end, &size, sizeof size);
	memcpy(queue->bytes + queue->end + sizeof size, message, size);
	queue->end += sizeof size + size;
}

static void send_error(struct queue *queue, const struct nlmsghdr *request, int error)
{
	struct message message = answer_to(request, NLMSG_ERROR, 0);
	struct nlmsgerr body = {.error = -error, .msg = *request};

	memcpy(message.bytes, &body, sizeof body);
	message.header.nlmsg_len += sizeof body;
	send_back(queue, &message);
}

static void list(struct queue *queue, const struct nlmsghdr *request)
{
	struct message done = answer_to(request, NLMSG_DONE, NLM_F_MULTI);

	for (unsigned i = 0; i < device_count; i++) {
		struct message message = answer_to(request, request->nlmsg_type, NLM_F_MULTI);
		uint32_t index = 40 + i + 100 * devices[i].times, ports = 1;
		uint64_t guid = 0x0250b6fffe000000 + i;
		uint8_t node_type = devices[i].node_type;

		if (devices[i].absent)
			continue;
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_DEV_INDEX, index);
		attribute(&message, RDMA_NLDEV_ATTR_DEV_NAME, devices[i].name, strlen(devices[i].name) + 1);
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_PORT_INDEX, ports);
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_NODE_GUID, guid);
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, node_type);
		send_back(queue, &message);
	}
	memset(done.bytes, 0, 4);
	done.header.nlmsg_len += 4;
	send_back(queue, &done);
}

static void character_device(struct queue *queue, const struct nlmsghdr *request)
{
	struct message message = answer_to(request, request->nlmsg_type, 0);
	const char *at = (const char *)NLMSG_DATA(request), *end = (const char *)request + request->nlmsg_len;
	uint32_t index = 0, driver;
	uint64_t abi, number;
	char name[32];

	for (const struct nlattr *attr; at + NLA_HDRLEN <= end; at += NLA_ALIGN(attr->nla_len)) {
		attr = (const void *)at;
		if (attr->nla_len < NLA_HDRLEN)
			break;
		if (attr->nla_type == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, at + NLA_HDRLEN, sizeof index);
	}
	if (!strcmp(getenv("HARDWARE_NETLINK"), "names")) { /* a kernel before 5.1 */
		send_error(queue, request, EINVAL);
		return;
	}
	index = index < 40 ? device_count : (index - 40) % 100;
	if (index >= device_count || devices[index].absent) {
		send_error(queue, request, ENODEV);
		return;
	}
	driver = devices[index].driver_id;
	abi = devices[index].abi;
	number = 231 << 8 | (192 + index);
	snprintf(name, sizeof name, "uverbs%u", index);
	ATTRIBUTE(&message, RDMA_NLDEV_ATTR_CHARDEV, number);
	ATTRIBUTE(&message, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
	attribute(&message, RDMA_NLDEV_ATTR_CHARDEV_NAME, name, strlen(name) + 1);
	ATTRIBUTE(&message, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, driver);
	send_back(queue, &message);
}

/* The attributes of one object, as those of any list. */
static void objects(struct message *message, uint16_t command)
{
	uint32_t pid = 1, pd = 3, lqpn = 0x11, rqpn = 0x12, port = 1, rq_psn = 7, sq_psn = 8, number, cqe = 255, space = 0x106;
	uint8_t type = 2, state = 3;
	uint64_t users = 2, length = 4096;
	struct sockaddr_in addresses[2];

	switch (command) {
	case RDMA_NLDEV_CMD_RES_QP_GET:
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_PORT_INDEX, port);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_LQPN, lqpn);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_RQPN, rqpn);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_RQ_PSN, rq_psn);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_SQ_PSN, sq_psn);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_TYPE, type);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_STATE, state);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_PDN, pd);
		break;
	case RDMA_NLDEV_CMD_RES_CQ_GET:
		number = 5;
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_CQE, cqe);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_USECNT, users);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_CQN, number);
		break;
	case RDMA_NLDEV_CMD_RES_MR_GET:
		number = 6;
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_MRLEN, length);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_MRN, number);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_PDN, pd);
		break;
	case RDMA_NLDEV_CMD_RES_PD_GET:
		users = 4;
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_PDN, pd);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_USECNT, users);
		break;
	case RDMA_NLDEV_CMD_RES_CM_ID_GET:
		state = 5;
		for (uint16_t i = 0; i < 2; i++) {
			addresses[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(i ? 4000 : 7471),
							    .sin_addr.s_addr = htonl(0xc0000201 + i)};
			ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_SRC_ADDR + i, addresses[i]);
		}
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_PS, space);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_STATE, state);
		ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_LQPN, lqpn);
		break;
	}
	ATTRIBUTE(message, RDMA_NLDEV_ATTR_RES_PID, pid);
}

/* Closes an attribute that has others in it and began so many bytes into the message. */
static void close_attribute(struct message *message, size_t at, uint16_t type)
{
	struct nlattr attribute = {.nla_len = message->header.nlmsg_len - at, .nla_type = type | NLA_F_NESTED};

	memcpy((char *)message + at, &attribute, sizeof attribute);
}

/* The objects of one kind of a device: one of a process, and of queue pairs one of the kernel. */
static void resources(struct queue *queue, const struct nlmsghdr *request, uint16_t table)
{
	struct message message = answer_to(request, request->nlmsg_type, NLM_F_MULTI);
	struct message done = answer_to(request, NLMSG_DONE, NLM_F_MULTI);
	uint16_t command = request->nlmsg_type & 0x3ff;
	size_t outer = message.header.nlmsg_len, inner = outer + NLA_HDRLEN;

	message.header.nlmsg_len = inner + NLA_HDRLEN;
	objects(&message, command);
	close_attribute(&message, inner, table + 1);
	if (command == RDMA_NLDEV_CMD_RES_QP_GET) {
		uint32_t number = 1;
		uint8_t type = 1, state = 3;

		inner = message.header.nlmsg_len;
		message.header.nlmsg_len += NLA_HDRLEN;
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_RES_LQPN, number);
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_RES_TYPE, type);
		ATTRIBUTE(&message, RDMA_NLDEV_ATTR_RES_STATE, state);
		attribute(&message, RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core", 8);
		close_attribute(&message, inner, table + 1);
	}
	close_attribute(&message, outer, table);
	send_back(queue, &message);
	memset(done.bytes, 0, 4);
	done.header.nlmsg_len += 4;
	send_back(queue, &done);
}

static void take(struct queue *queue, const char *bytes, size_t size)
{
	for (size_t at = 0; at + NLMSG_HDRLEN <= size;) {
		const struct nlmsghdr *request = (const void *)(bytes + at);
		struct message system;
		/* HARDWARE_FORK=moves: a kernel before 5.12, which leaves registered pages to the child. */
		uint8_t copies = !getenv("HARDWARE_FORK");

		if (request->nlmsg_len < NLMSG_HDRLEN || request->nlmsg_len > size - at)
			return;
		switch (request->nlmsg_type) {
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET): list(queue, request); break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV): character_device(queue, request); break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET):
			system = answer_to(request, request->nlmsg_type, 0);
			ATTRIBUTE(&system, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, copies);
			send_back(queue, &system);
			break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET):
			resources(queue, request, RDMA_NLDEV_ATTR_RES_QP);
			break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_CQ_GET):
			resources(queue, request, RDMA_NLDEV_ATTR_RES_CQ);
			break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_MR_GET):
			resources(queue, request, RDMA_NLDEV_ATTR_RES_MR);
			break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_PD_GET):
			resources(queue, request, RDMA_NLDEV_ATTR_RES_PD);
			break;
		case RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_CM_ID_GET):
			resources(queue, request, RDMA_NLDEV_ATTR_RES_CM_ID);
			break;
		default: send_error(queue, request, EOPNOTSUPP);
		}
		at += NLMSG_ALIGN(request->nlmsg_len);
	}
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct queue *queue = queue_of(fd);
	char bytes[4096];
	size_t size = 0;

	if (!queue)
		return SYSTEM_CALL(SYS_sendmsg, fd, message, flags);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		if (message->msg_iov[i].iov_len > sizeof bytes - size)
			abort();
		memcpy(bytes + size, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
		size += message->msg_iov[i].iov_len;
	}
	take(queue, bytes, size);
	return size;
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *address, socklen_t length)
{
	struct queue *queue = queue_of(fd);

	if (!queue)
		return SYSTEM_CALL(SYS_sendto, fd, bytes, size, flags, address, length);
	take(queue, bytes, size);
	return size;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	return sendto(fd, bytes, size, flags, NULL, 0);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct queue *queue = queue_of(fd);
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	size_t size, taken = 0;

	if (!queue)
		return SYSTEM_CALL(SYS_recvmsg, fd, message, flags);
	if (queue->start == queue->end) {
		errno = EAGAIN; /* a real socket would wait for ever */
		return -1;
	}
	memcpy(&size, queue->bytes + queue->start, sizeof size);
	for (size_t i = 0; i < message->msg_iovlen && taken < size; i++) {
		size_t some = message->msg_iov[i].iov_len < size - taken ? message->msg_iov[i].iov_len : size - taken;

		memcpy(message->msg_iov[i].iov_base, queue->bytes + queue->start + sizeof size + taken, some);
		taken += some;
	}
	if (message->msg_name) {
		memcpy(message->msg_name, &kernel,
		       message->msg_namelen < sizeof kernel ? message->msg_namelen : sizeof kernel);
		message->msg_namelen = sizeof kernel;
	}
	message->msg_flags = taken < size ? MSG_TRUNC : 0;
	message->msg_controllen = 0;
	if (!(flags & MSG_PEEK))
		queue->start += sizeof size + size;
	return flags & MSG_TRUNC ? size : taken;
}

ssize_t recvfrom(int fd, void *restrict bytes, size_t size, int flags, struct sockaddr *restrict address,
		 socklen_t *restrict length)
{
	struct iovec place = {bytes, size};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1, .msg_name = address,
				 .msg_namelen = length ? *length : 0};
	ssize_t result;

	if (!queue_of(fd))
		return SYSTEM_CALL(SYS_recvfrom, fd, bytes, size, flags, address, length);
	result = recvmsg(fd, &message, flags);
	if (length)
		*length = message.msg_namelen;
	return result;
}
