/*
 * sysfs_helpers.c - the helpers for reading sysfs that other libraries of rdma-core import.
 *
 * Proves: the path with and without the variable, trailing slashes, reading with and without room, what is no file.
 * The path is remembered, so the variable is tested in processes of their own.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "setup.h"

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static void read_file(const char *dir, const char *file, size_t size)
{
	char buffer[256];

	FILL(buffer);
	note("%s / %s, room %zu", dir, file, size);
	CALL_COUNT(ibv_read_sysfs_file(dir, file, buffer, size));
	printf("    ");
	for (size_t i = 0; i < 40 && (unsigned char)buffer[i] != 0xa5; i++)
		printf(buffer[i] >= 32 ? "%c" : "\\%d", buffer[i]);
	printf("\n");
}

static void path_with(const char *value)
{
	fflush(stdout);
	transcript_calls++;
	if (fork() == 0) {
		if (value)
			setenv("SYSFS_PATH", value, 1);
		note("SYSFS_PATH=%s", value ? value : "(not set)");
		CALL_STRING(ibv_get_sysfs_path());
		unsetenv("SYSFS_PATH");
		CALL_STRING(ibv_get_sysfs_path());
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

static void make(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		die("%s", name);
}

int main(void)
{
	begin();
	path_with(NULL);
	path_with("/tmp");
	path_with("/tmp/");
	path_with("/tmp///");
	path_with("/");
	path_with("relative");
	char longer[400];
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/', longer[399] = 0;
	path_with(longer);

	make("/tmp/ctest_line", "hello\n");
	make("/tmp/ctest_bare", "hello");
	make("/tmp/ctest_lines", "one\ntwo\n");
	make("/tmp/ctest_empty", "");
	for (size_t room = 0; room < 9; room++) {
		read_file("/tmp", "ctest_line", room);
		read_file("/tmp", "ctest_bare", room);
	}
	read_file("/tmp", "ctest_lines", 100);
	read_file("/tmp", "ctest_empty", 100);
	read_file("/tmp", "ctest_missing", 100);
	read_file("/nowhere", "file", 100);
	read_file("/tmp", ".", 100);
	read_file("", "tmp/ctest_line", 100);
	read_file("/sys/class/infiniband/rxe0", "node_type", 64);
	read_file("/sys/class/infiniband/rxe0", "ports/1/state", 64);
	unlink("/tmp/ctest_line"), unlink("/tmp/ctest_bare"), unlink("/tmp/ctest_lines"), unlink("/tmp/ctest_empty");
	return end();
}
