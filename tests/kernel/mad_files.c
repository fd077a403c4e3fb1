/*
 * mad_files.c - the files of user_mad: umadN, by which a process sends and receives MADs, and issmN, which one
 * process at
 * a time has open while it is the subnet manager of the port.
 */
#include "mads.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct mad_file mad_files[128];
unsigned mad_file_count;
static struct mad_port ports[256];
/* Answers that the program wants, the next one first. */
static struct { char call[16]; long result; int error; } answers[4];
static unsigned answer_count;

/* For the program. */
void hardware_mad_answer(const char *call, long result, int error);
void hardware_mad_answer_then(const char *call, long result, int error);
void hardware_mad_receive(unsigned number, const void *hdr, const void *mad, size_t length);
void hardware_mad_plug(unsigned number, bool in);
void hardware_mad_pass(unsigned ms);

static void note_bytes(const void *bytes, size_t size)
{
	for (size_t i = 0; record && i < size; i++)
		NOTE("%02x", ((const uint8_t *)bytes)[i]);
}

/* Whether this kernel lacks something: words of HARDWARE_MAD_LACKS. */
static bool lacks(const char *word)
{
	return strstr(getenv("HARDWARE_MAD_LACKS") ?: "", word);
}

static struct mad_file *mad_file(int fd)
{
	for (unsigned i = 0; fd >= 0 && i < mad_file_count; i++)
		if (mad_files[i].fd == fd)
			return &mad_files[i];
	return NULL;
}
bool is_mad_file(int fd)
{
	return mad_file(fd) != NULL;
}

static long result(long value, int error)
{
	if (error) {
		errno = error;
		return -1;
	}
	return value;
}

/* What the program wants the next such call to answer. */
static bool answered(const char *call, long *value)
{
	if (!answer_count || strcmp(answers[0].call, call))
		return false;
	*value = answers[0].result;
	if (*value < 0)
		errno = answers[0].error;
	memmove(answers, answers + 1, --answer_count * sizeof *answers);
	return true;
}

/* Behind those that are wanted already. */
void hardware_mad_answer_then(const char *call, long value, int error)
{
	if (answer_count == sizeof answers / sizeof *answers)
		abort();
	snprintf(answers[answer_count].call, sizeof answers->call, "%s", call);
	answers[answer_count].result = value;
	answers[answer_count++].error = error;
}

/* In the place of all that nobody has asked for. */
void hardware_mad_answer(const char *call, long value, int error)
{
	answer_count = 0;
	hardware_mad_answer_then(call, value, error);
}

/* --- ports ------------------------------------------------------------------------------------------------- */

static void read_line(char *line, size_t size, const char *format, const char *name, unsigned port)
{
	char path[PATH_MAX], room[PATH_MAX];
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof path, format, name, port);
	fd = SYSTEM_CALL(SYS_openat, AT_FDCWD, sysfs_path(path, room, sizeof room), O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = SYSTEM_CALL(SYS_read, fd, line, size - 1);
		SYSTEM_CALL(SYS_close, fd);
	}
	line[length < 0 ? 0 : length] = 0;
	line[strcspn(line, "\n")] = 0;
}

static struct mad_port *port_of(unsigned number)
{
	struct mad_port *port = &ports[number];
	char line[64], name[32];

	if (port->known)
		return port;
	port->known = true;
	port->number = number;
	snprintf(name, sizeof name, "umad%u", number);
	read_line(port->ibdev, sizeof port->ibdev, "/sys/class/infiniband_mad/%s/ibdev", name, 0);
	read_line(line, sizeof line, "/sys/class/infiniband_mad/%s/port", name, 0);
	port->port = strtoul(line, NULL, 0);
	read_line(line, sizeof line, "/sys/class/infiniband/%s/ports/%u/link_layer", port->ibdev, port->port);
	port->ethernet = !strcmp(line, "Ethernet");
	read_line(line, sizeof line, "/sys/class/infiniband/%s/ports/%u/lid", port->ibdev, port->port);
	port->lid = strtoul(line, NULL, 0);
	return port;
}

/* Whether the path is of such a file, which there is. */
static bool parse(const char *path, bool *issm, unsigned *number)
{
	static const char folder[] = "/dev/infiniband/";
	char rest, place[PATH_MAX], room[PATH_MAX];
	struct stat status;

	if (!path || !getenv("HARDWARE_SYSFS") || strncmp(path, folder, sizeof folder - 1))
		return false;
	path += sizeof folder - 1;
	*issm = !strncmp(path, "issm", 4);
	if (sscanf(path, *issm ? "issm%u%c" : "umad%u%c", number, &rest) != 1 || *number >= 256)
		return false;
	snprintf(place, sizeof place, "/sys/class/infiniband_mad/umad%u", *number);
	return !SYSTEM_CALL(SYS_newfstatat, AT_FDCWD, sysfs_path(place, room, sizeof room), &status, 0);
}

bool mad_path(const char *path)
{
	bool issm;
	unsigned number;

	return parse(path, &issm, &number);
}

/* One process has it: as the kernel, flock counts open files and not descriptors, and forgets those of the
 * dead. */
static int open_issm(unsigned number, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof path, "%s/issm%u", getenv("HARDWARE_SYSFS"), number);
	fd = SYSTEM_CALL(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | (flags & O_CLOEXEC), 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | (flags & O_NONBLOCK ? LOCK_NB : 0))) {
		SYSTEM_CALL(SYS_close, fd);
		return result(0, errno == EWOULDBLOCK ? EAGAIN : errno);
	}
	return fd;
}

int mad_open(const char *path, int flags)
{
	unsigned number, i = 0;
	char version[16];
	bool issm;
	int fd;
	long value;

	if (!parse(path, &issm, &number))
		return result(0, ENOENT);
	NOTE("  open %s%u flags %#x\n", issm ? "issm" : "umad", number, flags);
	FLUSH();
	if (answered("open", &value))
		return value;
	if (issm)
		return open_issm(number, flags);
	fd = eventfd(0, EFD_NONBLOCK | (flags & O_CLOEXEC ? EFD_CLOEXEC : 0));
	if (fd < 0)
		return fd;
	mad_lock();
	while (i < mad_file_count && mad_files[i].fd >= 0)
		i++;
	if (i == sizeof mad_files / sizeof *mad_files)
		abort();
	read_line(version, sizeof version, "/sys/class/infiniband_mad/abi_version", "", 0);
	mad_files[i] = (struct mad_file){.fd = fd, .flags = flags, .port = port_of(number),
					 .pkey_index = atoi(version) > IB_USER_MAD_ABI_VERSION};
	if (i == mad_file_count)
		mad_file_count++;
	mad_unlock();
	return fd;
}

static void forget(struct mad_file *file)
{
	for (unsigned i = 0; i < MAD_AGENTS; i++)
		if (file->agents[i].used)
			mad_unregister(file, i);
}

void mad_close(int fd)
{
	struct mad_file *file;

	mad_lock();
	file = mad_file(fd);
	NOTE("  close umad%u\n", file->port->number);
	FLUSH();
	forget(file);
	for (struct mad_packet *packet = file->packets, *next; packet; packet = next) {
		next = packet->next;
		free(packet);
	}
	file->packets = NULL;
	file->fd = -1;
	mad_unlock();
}

/* --- requests ---------------------------------------------------------------------------------------------- */

static int register_first(struct mad_file *file, struct ib_user_mad_reg_req *req)
{
	struct mad_agent wanted = {.qpn = req->qpn, .class = req->mgmt_class, .version = req->mgmt_class_version,
				   .rmpp = req->rmpp_version};

	NOTE(" REGISTER_AGENT ");
	/* The kernel writes the first word and does not read it; the last byte is padding. */
	note_bytes((uint8_t *)req + 4, sizeof *req - 5);
	if (file->dead)
		return EPIPE;
	if (req->qpn > 1)
		return EINVAL;
	memcpy(wanted.oui, req->oui, 3);
	memcpy(wanted.methods, req->method_mask, 16);
	return mad_register(file, wanted, &req->id);
}

static int register_second(struct mad_file *file, struct ib_user_mad_reg_req2 *req)
{
	struct mad_agent wanted = {.qpn = req->qpn, .class = req->mgmt_class, .version = req->mgmt_class_version,
				   .rmpp = req->rmpp_version, .user_rmpp = req->flags & IB_USER_MAD_USER_RMPP,
				   .oui = {req->oui >> 16, req->oui >> 8, req->oui}};
	int error;

	NOTE(" REGISTER_AGENT2 ");
	note_bytes(&req->qpn, sizeof *req - 4);
	if (lacks("register2"))
		return ENOTTY;
	if (file->dead)
		return EPIPE;
	if (req->qpn > 1)
		return EINVAL;
	if (req->flags & ~IB_USER_MAD_USER_RMPP) {
		req->flags = IB_USER_MAD_USER_RMPP;
		return EINVAL;
	}
	if (req->mgmt_class && req->oui & 0xff000000)
		return EINVAL;
	memcpy(wanted.methods, req->method_mask, 16);
	error = mad_register(file, wanted, &req->id);
	if (!error)
		file->pkey_index = true;
	return error;
}

int mad_ioctl(int fd, unsigned long request, void *argument)
{
	struct mad_file *file;
	int error = ENOTTY;
	long value = 0;

	mad_lock();
	file = mad_file(fd);
	NOTE("  ioctl umad%u", file->port->number);
	if (answered("ioctl", &value)) {
		error = value < 0 ? errno : 0;
	} else if (request == IB_USER_MAD_REGISTER_AGENT) {
		error = register_first(file, argument);
		file->used |= !error;
	} else if (request == IB_USER_MAD_REGISTER_AGENT2) {
		error = register_second(file, argument);
		file->used |= !error;
	} else if (request == IB_USER_MAD_UNREGISTER_AGENT) {
		NOTE(" UNREGISTER_AGENT %u", *(uint32_t *)argument);
		error = file->dead ? EINVAL : mad_unregister(file, *(uint32_t *)argument);
	} else if (request == IB_USER_MAD_ENABLE_PKEY) {
		NOTE(" ENABLE_PKEY");
		error = lacks("pkey") ? ENOTTY : file->used ? EINVAL : 0;
		file->pkey_index |= !error;
	} else {
		NOTE(" %#lx", request);
	}
	NOTE(" = %d\n", error);
	FLUSH();
	mad_unlock();
	return result(value < 0 ? 0 : value, error);
}

ssize_t mad_write(int fd, const void *bytes, size_t size)
{
	struct ib_user_mad_hdr hdr = {0};
	struct mad_file *file;
	int error = 0;
	long value;

	mad_lock();
	file = mad_file(fd);
	NOTE("  write umad%u %zu ", file->port->number, size);
	/* The kernel refuses more before it looks at any of it, as it could not allocate it. */
	if (size <= MAD_ROOM)
		note_bytes(bytes, size);
	NOTE("\n");
	FLUSH();
	if (answered("write", &value)) {
		mad_unlock();
		return value;
	}
	if (size < header_size(file) + RMPP_HEADER) {
		error = EINVAL;
	} else if (size > MAD_ROOM) {
		error = EFAULT;
	} else {
		memcpy(&hdr, bytes, header_size(file));
		if (hdr.id >= MAD_AGENTS)
			error = EINVAL;
		else if (file->dead || !file->agents[hdr.id].used)
			error = EIO;
		else
			error = mad_send(file, &hdr, (const uint8_t *)bytes + header_size(file),
					 size - header_size(file));
	}
	mad_unlock();
	return result(size, error);
}

/* Takes the first packet, which stays where there is no room for it. */
static int take(struct mad_file *file, uint8_t *to, size_t *size)
{
	struct mad_packet *packet = file->packets;
	size_t header = header_size(file), first = packet->length < MAD_BYTES ? packet->length : MAD_BYTES;
	uint64_t none;

	if (*size < header + first)
		return EINVAL;
	memcpy(to, &packet->hdr, header);
	memcpy(to + header, packet->mad, first);
	if (*size < header + packet->length)
		return ENOSPC;
	memcpy(to + header, packet->mad, packet->length);
	*size = header + packet->length;
	file->packets = packet->next;
	free(packet);
	if (!file->packets)
		SYSTEM_CALL(SYS_read, file->fd, &none, sizeof none);
	return 0;
}

/* Whether time has passed for a wait until `end`. Without one that lets it pass there would be nothing to wait for. */
static bool let_time_pass(uint64_t end)
{
	bool ends;

	mad_lock();
	ends = mad_let_time_pass(end);
	mad_unlock();
	return ends;
}

/* As the kernel's file, one that another thread closes is there for who waits at it. */
static int wait_beside(struct pollfd *list, nfds_t count, uint64_t end)
{
	struct pollfd kept[count];
	int ready;

	for (nfds_t i = 0; i < count; i++) {
		kept[i] = list[i];
		if (is_mad_file(list[i].fd))
			kept[i].fd = SYSTEM_CALL(SYS_fcntl, list[i].fd, F_DUPFD_CLOEXEC, 512);
	}
	/* The length of a look says nothing of how much time passes here. */
	do
		ready = SYSTEM_CALL(SYS_poll, kept, count, end == UINT64_MAX ? -1 : 10);
	while (!ready && mad_now() < end);
	for (nfds_t i = 0; i < count; i++) {
		list[i].revents = kept[i].revents;
		if (kept[i].fd != list[i].fd)
			SYSTEM_CALL(SYS_close, kept[i].fd);
	}
	return ready;
}

static int wait_for(struct pollfd *list, nfds_t count, int timeout)
{
	uint64_t end = timeout < 0 ? UINT64_MAX : mad_now() + timeout;
	bool is_first = SYSTEM_CALL(SYS_gettid) == SYSTEM_CALL(SYS_getpid);
	int ready = SYSTEM_CALL(SYS_poll, list, count, 0);

	if (!ready && !is_first && mad_now() < end)
		return wait_beside(list, count, end);
	while (!ready && mad_now() < end) {
		int rest = let_time_pass(end) ? 0 : -1;

		ready = SYSTEM_CALL(SYS_poll, list, count, rest);
	}
	return ready;
}

ssize_t mad_read(int fd, void *bytes, size_t size)
{
	struct mad_file *file;
	long value = 0;
	int error;

	mad_lock();
	file = mad_file(fd);
	if (answered("read", &value)) {
		error = value < 0 ? errno : 0;
	} else {
		size_t taken = size;

		while (!file->packets && !file->dead && size >= header_size(file) && !(file->flags & O_NONBLOCK)) {
			mad_unlock();
			wait_for(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
			mad_lock();
		}
		error = size < header_size(file) ? EINVAL : file->dead ? EIO : !file->packets ? EAGAIN :
			take(file, bytes, &taken);
		value = taken;
	}
	NOTE("  read umad%u %zu = %ld %d\n", file->port->number, size, error ? -1 : value, error);
	FLUSH();
	mad_unlock();
	return result(value, error);
}

int poll(struct pollfd *list, nfds_t count, int timeout)
{
	bool any = false;
	long value;

	for (nfds_t i = 0; list && i < count; i++)
		any |= is_mad_file(list[i].fd);
	if (any && answered("poll", &value))
		return value;
	value = any ? wait_for(list, count, timeout) : SYSTEM_CALL(SYS_poll, list, count, timeout);
	for (nfds_t i = 0; any && i < count; i++) {
		struct mad_file *file = mad_file(list[i].fd);

		if (file && file->dead && list[i].revents)
			list[i].revents = POLLERR;
	}
	return value;
}

/* --- for the program --------------------------------------------------------------------------------------- */

void hardware_mad_receive(unsigned number, const void *hdr, const void *mad, size_t length)
{
	mad_lock();
	mad_arrive(port_of(number), hdr, mad, length);
	mad_unlock();
}

void hardware_mad_pass(unsigned ms)
{
	uint64_t end = mad_now() + ms;

	while (mad_now() < end)
		let_time_pass(end);
}

static void move(const char *class, const char *name, bool in)
{
	const char *folder = getenv("HARDWARE_SYSFS");
	char here[PATH_MAX], gone[PATH_MAX];

	snprintf(here, sizeof here, "%s/class/%s/%s", folder, class, name);
	snprintf(gone, sizeof gone, "%s/gone.%s.%s", folder, class, name);
	if (in ? rename(gone, here) : rename(here, gone))
		abort();
}

void hardware_mad_plug(unsigned number, bool in)
{
	struct mad_port *port = port_of(number);
	char name[32];

	snprintf(name, sizeof name, "umad%u", number);
	mad_lock();
	move("infiniband_mad", name, in);
	move("infiniband", port->ibdev, in);
	for (unsigned i = 0; !in && i < mad_file_count; i++)
		if (mad_files[i].fd >= 0 && mad_files[i].port == port) {
			forget(&mad_files[i]);
			mad_files[i].dead = true;
			SYSTEM_CALL(SYS_write, mad_files[i].fd, &(uint64_t){1}, sizeof(uint64_t));
		}
	mad_unlock();
}
