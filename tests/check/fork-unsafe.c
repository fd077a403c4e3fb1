#include <sys/wait.h>
#include "plant.h"

/* On the kernel that tests play, which leaves registered pages to a child as those before 5.12 do. */
int main(int argc, char **argv)
{
	open_device(argc, argv);
	if (right)
		NEED(ibv_fork_init() == 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	pid_t child = fork();
	NEED(child >= 0);
	if (!child)
		_exit(0);
	NEED(waitpid(child, NULL, 0) == child);
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
