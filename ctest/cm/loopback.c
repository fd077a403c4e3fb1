/*
 * loopback.c - destinations that soft-RoCE reaches in its own way, or not: loopback, every address, a
 * link-local address without its interface.
 */
#include "resolving.h"

int main(void)
{
	static const char *const all[][2] = {
		{NULL, "127.0.0.1"}, {"127.0.0.1", "127.0.0.1"}, {HERE, "127.0.0.1"}, {NULL, "::1"}, {NULL, "0.0.0.0"}, {NULL, "::"},
		{NULL, "fe80::ff:fe00:1"},
	};

	begin();
	channel = make_channel();
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		one(all[i][0], 0, all[i][1], RDMA_PS_TCP);
	rdma_destroy_event_channel(channel);
	return end();
}
