#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	struct ibv_sge sge = part(mr, 64, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = (uintptr_t)memory + (right ? 8 : 4), .compare_add = 1, .rkey = mr->rkey },
	}, *bad;
	if (ibv_post_send(near_qp, &wr, &bad) == 0)
		await();
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
