/*
 * files.c - the calls of a process that reach device files, in place of the C library's. All others go to the real kernel.
 */
#include "kernel.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

FILE *record;
struct device devices[32];
unsigned device_count;
enum ways ways;
bool has_netlink;

static struct file files[256];
static unsigned file_count;
static struct { void *start; size_t size; } mappings[256];

static const struct driver *driver_of(const char *provider)
{
	const struct driver *const *all[] = {mlx_drivers, nic_drivers, hca_drivers, soft_drivers};

	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct driver *const *driver = all[i]; *driver; driver++)
			if (!strcmp((*driver)->provider, provider))
				return *driver;
	return NULL;
}

long (*system_call(void))(long number, ...)
{
	static long (*found)(long, ...);

	if (!found)
		found = dlsym(RTLD_NEXT, "syscall");
	return found;
}

/* Devices, ways and the record come from the environment of the process. An empty name is for no record. */
__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("HARDWARE_RECORD");
	FILE *list = fopen(getenv("HARDWARE_DEVICES") ?: "", "re");
	char line[256];

	record = !name ? stderr : *name ? fopen(name, "ae") : NULL;
	if ((!record && !(name && !*name)) || !list) {
		fprintf(stderr, "HARDWARE_RECORD or HARDWARE_DEVICES cannot be opened\n");
		abort();
	}
	name = getenv("HARDWARE_WAYS") ?: "methods";
	ways = !strcmp(name, "write") ? WAY_WRITE : !strcmp(name, "invoke_write") ? WAY_INVOKE_WRITE : WAY_METHODS;
	has_netlink = getenv("HARDWARE_NETLINK") != NULL;
	while (fgets(line, sizeof line, list)) {
		struct device *device = &devices[device_count];

		if (*line == '#' ||
		    sscanf(line, "%15s %31s %u %u %u %u %x %x %95s", device->provider, device->name, &device->driver_id,
			   &device->node_type, &device->abi, &device->link_layer, &device->vendor, &device->part,
			   device->modalias) != 9)
			continue;
		device->driver = driver_of(device->provider);
		device->number = device_count++;
	}
	fclose(list);
}

struct file *file_of(int fd)
{
	for (unsigned i = 0; i < file_count; i++)
		if (fd >= 0 && files[i].fd == fd)
			return &files[i];
	return NULL;
}

struct file *new_file(int fd, enum file_kind kind, struct device *device)
{
	struct file *file;

	/* In a record, numbers are not used twice. */
	while (!record && file_count && files[file_count - 1].fd < 0)
		file_count--;
	file = &files[file_count];
	if (file_count == sizeof files / sizeof *files)
		abort();
	*file = (struct file){.fd = fd, .reports = -1, .kind = kind, .device = device, .times = device->times};
	for (unsigned i = 0; i < file_count; i++)
		file->number += files[i].kind == kind;
	file_count++;
	return file;
}

int event_file(enum file_kind kind, struct device *device)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	new_file(ends[0], kind, device)->reports = ends[1];
	return ends[0];
}

/* The device whose file stands at the path. */
static struct device *device_at(const char *path)
{
	unsigned number;
	char rest;

	if (sscanf(path, "/dev/infiniband/uverbs%u%c", &number, &rest) != 1 || number >= device_count)
		return NULL;
	return devices[number].absent ? NULL : &devices[number];
}

/* Whether the device that the file belongs to was taken out. */
static bool orphaned(const struct file *file)
{
	if (file->times == file->device->times)
		return false;
	NOTE("  request to %s, which is gone\n", file->device->name);
	FLUSH();
	errno = EIO;
	return true;
}

static dev_t number_of(const struct device *device)
{
	return makedev(231, 192 + device->number);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
	struct device *device = device_at(path);
	char room[PATH_MAX];
	int fd;

	if (mad_path(path))
		return mad_open(path, flags);
	fd = SYSTEM_CALL(SYS_openat, folder, device ? "/dev/null" : sysfs_path(path, room, sizeof room), flags, mode);

	if (device && fd >= 0)
		new_file(fd, FILE_COMMANDS, device);
	if (device)
		NOTE("  open %s flags %#x\n", device->name, flags);
	FLUSH();
	return fd;
}

#define OPEN(name, folder_parameter, folder)                                     \
	int name(folder_parameter const char *path, int flags, ...)              \
	{                                                                        \
		va_list arguments;                                               \
		mode_t mode;                                                     \
										 \
		va_start(arguments, flags);                                      \
		mode = va_arg(arguments, mode_t);                                \
		va_end(arguments);                                               \
		return open_at(folder, path, flags, mode);                       \
	}
#define NOTHING
#define FOLDER int folder,
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
OPEN(openat, FOLDER, folder)
OPEN(openat64, FOLDER, folder)

static int status(const struct device *device, struct stat *result)
{
	memset(result, 0, sizeof *result);
	result->st_mode = S_IFCHR | 0666;
	result->st_rdev = number_of(device);
	return 0;
}

int stat(const char *restrict path, struct stat *restrict result)
{
	struct device *device = device_at(path);
	char room[PATH_MAX];

	if (device)
		return status(device, result);
	return SYSTEM_CALL(SYS_newfstatat, AT_FDCWD, sysfs_path(path, room, sizeof room), result, 0);
}

int fstat(int fd, struct stat *result)
{
	struct file *file = file_of(fd);

	return file && file->kind == FILE_COMMANDS ? status(file->device, result) : SYSTEM_CALL(SYS_fstat, fd, result);
}

/* The same structure on a machine of 64 bits. */
int stat64(const char *restrict path, struct stat64 *restrict result)
{
	return stat(path, (struct stat *)result);
}
int fstat64(int fd, struct stat64 *result)
{
	return fstat(fd, (struct stat *)result);
}

/* What a program calls that was built for a C library before 2.33, which says first which struct it means. */
int __xstat(int version, const char *path, struct stat *result)
{
	(void)version;
	return stat(path, result);
}
int __fxstat(int version, int fd, struct stat *result)
{
	(void)version;
	return fstat(fd, result);
}

int close(int fd)
{
	static const char *const kinds[] = {"commands", "events", "channel"};
	struct file *file = file_of(fd);

	if (file) {
		NOTE("  close %s %u\n", kinds[file->kind], file->number);
		FLUSH();
		file->fd = -1;
		if (file->reports >= 0)
			SYSTEM_CALL(SYS_close, file->reports);
	}
	if (is_mad_file(fd))
		mad_close(fd);
	forget_socket(fd);
	return SYSTEM_CALL(SYS_close, fd);
}

/* Memory in place of a device's pages: doorbells land there. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	struct file *file = flags & MAP_ANONYMOUS ? NULL : file_of(fd);
	void *memory;

	if (!file)
		return (void *)SYSTEM_CALL(SYS_mmap, address, size, protection, flags, fd, offset);
	NOTE("  mmap size %zu protection %d flags %#x offset %#llx\n", size, protection, flags,
		(unsigned long long)offset);
	FLUSH();
	memory = (void *)SYSTEM_CALL(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return memory;
	if (file->device->driver && file->device->driver->map)
		file->device->driver->map(offset, memory, size);
	for (unsigned i = 0; i < sizeof mappings / sizeof *mappings; i++)
		if (!mappings[i].size) {
			mappings[i].start = memory;
			mappings[i].size = size;
			return memory;
		}
	abort();
}

void *hardware_pages(unsigned number, size_t *size);

/* The device's pages that are mapped, by number; NULL behind the last. */
void *hardware_pages(unsigned number, size_t *size)
{
	for (unsigned i = 0; i < sizeof mappings / sizeof *mappings; i++)
		if (mappings[i].size && !number--) {
			*size = mappings[i].size;
			return mappings[i].start;
		}
	return NULL;
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap(address, size, protection, flags, fd, offset);
}

int munmap(void *address, size_t size)
{
	for (unsigned i = 0; i < sizeof mappings / sizeof *mappings; i++)
		if (mappings[i].size && mappings[i].start == address) {
			NOTE("  munmap size %zu\n", size);
			FLUSH();
			mappings[i].size = 0;
		}
	return SYSTEM_CALL(SYS_munmap, address, size);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct file *file = file_of(fd);
	va_list arguments;
	int result, error = errno;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (is_mad_file(fd))
		return mad_ioctl(fd, request, argument);
	if (!file || file->kind != FILE_COMMANDS)
		return SYSTEM_CALL(SYS_ioctl, fd, request, argument);
	if (request != RDMA_VERBS_IOCTL || ways == WAY_WRITE) {
		errno = ENOTTY;
		return -1;
	}
	if (orphaned(file))
		return -1;
	result = run_ioctl(file, argument);
	FLUSH();
	if (!result)
		errno = error;
	return result;
}

/* Tells the driver to look at a queue: nothing else is in the command, and nothing comes back. */
static bool doorbell(const void *start, size_t size)
{
	const struct ib_uverbs_cmd_hdr *hdr = start;
	const struct ib_uverbs_post_send *post = (const void *)(hdr + 1);

	if (size != sizeof *hdr + sizeof *post || hdr->command != IB_USER_VERBS_CMD_POST_SEND || post->wr_count)
		return false;
	memset((void *)(uintptr_t)post->response, 0, sizeof(struct ib_uverbs_post_send_resp));
	return true;
}

ssize_t write(int fd, const void *start, size_t size)
{
	struct file *file = file_of(fd);
	int error = errno;
	ssize_t result;

	if (is_mad_file(fd))
		return mad_write(fd, start, size);
	if (!file || file->kind != FILE_COMMANDS)
		return SYSTEM_CALL(SYS_write, fd, start, size);
	if (orphaned(file))
		return -1;
	if (!record && doorbell(start, size))
		return size;
	result = run_write(file, start, size);
	FLUSH();
	if (result >= 0)
		errno = error;
	return result;
}

ssize_t read(int fd, void *start, size_t size)
{
	return is_mad_file(fd) ? mad_read(fd, start, size) : SYSTEM_CALL(SYS_read, fd, start, size);
}

/* A library may ring the doorbell past `write`. */
long syscall(long number, ...)
{
	long words[6];
	va_list arguments;

	va_start(arguments, number);
	for (unsigned i = 0; i < 6; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_write)
		return write(words[0], (const void *)words[1], words[2]);
	return SYSTEM_CALL(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
