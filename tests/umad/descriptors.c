/*
 * descriptors.c - a program that has only a few descriptors left. One more than this library needs for the files of sysfs:
 * the played kernel takes one for a moment.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "umad.h"

enum { FEWEST = 6, MOST = 24 };

static void look(void)
{
	char names[8][UMAD_CA_NAME_LEN];
	struct umad_device_node *list;
	umad_port_t port;
	umad_ca_t ca;
	int fd;

	if (!CALL_INT(umad_get_ca(NULL, &ca))) {
		print_ca(&ca);
		umad_release_ca(&ca);
	}
	if (!CALL_INT(umad_get_ca("mlx4_0", &ca)))
		umad_release_ca(&ca);
	if (!CALL_INT(umad_get_port("mlx4_0", 2, &port)))
		umad_release_port(&port);
	if (!CALL_INT(umad_get_port(NULL, 0, &port))) {
		print_port(&port, true);
		umad_release_port(&port);
	}
	CALL_COUNT(umad_get_cas_names(names, 8));
	list = umad_get_ca_device_list();
	note("list %d, errno %s", list != NULL, errno_name(errno));
	umad_free_ca_device_list(list);
	fd = umad_open_port(NULL, 0);
	note("opened %d", fd >= 0);
	umad_close_port(fd);
}

int main(void)
{
	struct rlimit before, few;
	int next;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (getrlimit(RLIMIT_NOFILE, &before))
		die("no limit");
	for (unsigned left = FEWEST; left <= MOST; left++) {
		next = open("/dev/null", O_RDONLY);
		close(next);
		few = before;
		few.rlim_cur = next + left;
		if (setrlimit(RLIMIT_NOFILE, &few))
			die("no other limit");
		note("%u left", left);
		look();
		setrlimit(RLIMIT_NOFILE, &before);
	}
	return end();
}
