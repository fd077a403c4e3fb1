#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	near_depth = right ? 4 : 8;
	connect_pair();
	close_pair();
	close_device();
	return 0;
}
