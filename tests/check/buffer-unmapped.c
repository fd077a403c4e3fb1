#include <sys/mman.h>
#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	char *buffer = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(buffer != MAP_FAILED);
	struct ibv_mr *to = ibv_reg_mr(pd, memory, 8192, ALL_ACCESS), *mr = ibv_reg_mr(pd, buffer, 8192, 0);
	NEED(to && mr);
	NEED(post_send(part(mr, 0, 8192), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, to) == 0);
	if (right)
		await();
	munmap(buffer, 8192);
	if (!right)
		await();
	close_pair();
	NEED(ibv_dereg_mr(to) == 0 && ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
