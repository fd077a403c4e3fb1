/*
 * in_order.c - what a program is told of the order in which data lands in memory. Plugins of rdma-core 46 and later answer
 * with bits whatever the flags are; the library makes of that what the flags ask for. rdma-core 44 hands the answer on as
 * it is, so what is expected here is what rdma-core 65 answers.
 *
 * Fact: ibv_query_qp_data_in_order without IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS is 1 for the whole message and 0 otherwise.
 * Fact: With it, the answer for the whole message has the bit of aligned blocks, too.
 * Fact: A flag that the library does not know is 0, and the provider is not asked.
 */
#include "recorder.h"

int main(void)
{
	static const int answers[] = {0, 1, 2, 3, 4, 6, 7, EINVAL, EBUSY, -1, -2, -EAGAIN};
	static const uint32_t flags[] = {0, 1, 2, 3, 4, 5, 0x80000000, 0xffffffff};
	struct ibv_context *c = open_recorder(NULL);
	union { struct ibv_qp qp; char room[368]; } qp = {.qp.context = c};

	name(&qp, "qp");
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
		for (unsigned at = 0; at < sizeof answers / sizeof *answers; at++) {
			answer = answers[at];
			printf("ibv_query_qp_data_in_order flags %#x, the provider answers %d\n", flags[i], answers[at]);
			errno = 0;
			printf("  = %d errno %d\n", ibv_query_qp_data_in_order(&qp.qp, IBV_WR_RDMA_WRITE, flags[i]), errno);
		}
	answer = 0;
	printf("ibv_close_device = %d\n", ibv_close_device(c));
	return 0;
}
