/* The functions of the private provider ABI that take arguments as printf does. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

bool ironverbs_log_enabled(uint32_t level);
void ironverbs_log_write(const char *text, size_t length);
int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size);

struct verbs_context;

/* Of rdma-core's verbs_sysfs_dev: where ibdev_path stands. */
enum { IBDEV_PATH_AT = 176 };

void __verbs_log(struct verbs_context *context, uint32_t level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int ibv_read_ibdev_sysfs_file(char *buffer, size_t size, const char *device, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

void __verbs_log(struct verbs_context *context, uint32_t level, const char *format, ...)
{
	char line[512], *text = line;
	int before = errno, length;
	va_list arguments;

	(void)context;
	if (!ironverbs_log_enabled(level))
		return;
	va_start(arguments, format);
	length = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	if (length >= (int)sizeof line) {
		text = malloc((size_t)length + 1);
		if (text) {
			va_start(arguments, format);
			vsnprintf(text, (size_t)length + 1, format, arguments);
			va_end(arguments);
		} else {
			text = line;
			length = sizeof line - 1;
		}
	}
	if (length > 0)
		ironverbs_log_write(text, (size_t)length);
	if (text != line)
		free(text);
	errno = before;
}

/* Reads a file below the folder of a device in sysfs; its length, or -1 with errno. */
int ibv_read_ibdev_sysfs_file(char *buffer, size_t size, const char *device, const char *format, ...)
{
	char file[256];
	va_list arguments;
	int length;

	if (!device) {
		errno = EINVAL;
		return -1;
	}
	va_start(arguments, format);
	length = vsnprintf(file, sizeof file, format, arguments);
	va_end(arguments);
	if (length < 0 || length >= (int)sizeof file) {
		errno = ENOMEM;
		return -1;
	}
	return ibv_read_sysfs_file(device + IBDEV_PATH_AT, file, buffer, size);
}
