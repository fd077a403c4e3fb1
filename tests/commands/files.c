/*
 * files.c - which files are closed with a context: those whose numbers its public fields have at the end. A provider may
 * have put files of its own there, or none, and then what the library opened stays open.
 *
 * Fact: Closing a context closes the files that cmd_fd and async_fd name then, and no other.
 */
#include "recorder.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int other_file(int number)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || dup2(fd, number) < 0)
		exit(1);
	close(fd);
	return number;
}

int main(void)
{
	enum { KEPT, NONE, OTHER };
	enum { OTHER_COMMAND = 1100, OTHER_ASYNC };

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	for (int command = KEPT; command <= OTHER; command++)
		for (int async = KEPT; async <= OTHER; async++) {
			static const char *const how[] = {"kept", "none", "other"};
			struct ibv_context *c = open_recorder(NULL);
			int ret, error;

			other_file(OTHER_COMMAND);
			other_file(OTHER_ASYNC);
			if (command)
				c->cmd_fd = command == NONE ? -1 : OTHER_COMMAND;
			if (async)
				c->async_fd = async == NONE ? -1 : OTHER_ASYNC;
			printf("ibv_close_device command file %s, event file %s\n", how[command], how[async]);
			errno = 0;
			ret = ibv_close_device(c);
			error = errno;
			printf("  = %d errno %d; open: command %d, events %d, other command %d, other events %d\n", ret, error,
			       is_open(COMMAND_FD), is_open(ASYNC_FD), is_open(OTHER_COMMAND), is_open(OTHER_ASYNC));
			close(COMMAND_FD);
			close(ASYNC_FD);
		}
	return 0;
}
