#include "plant.h"

/* On the kernel that tests play, whose port has one address at index 0 for RoCE v1 and at index 1 for v2. */
int main(int argc, char **argv)
{
	open_device(argc, argv);
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1, .sgid_index = right } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	NEED(ah && ibv_destroy_ah(ah) == 0);
	close_device();
	return 0;
}
