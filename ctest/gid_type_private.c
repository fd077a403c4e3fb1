/*
 * gid_type_private.c - ibv_query_gid_type, a symbol of the library's private version node that ibv_devinfo and
 * pyverbs import. A program of its own, because a library without the node cannot start it at all.
 */
#include "setup.h"

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type);

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");
	static const unsigned ports[] = {1, 0, 2, 255};
	static const unsigned indices[] = {0, 1, 2, 1023, 1024, UINT32_MAX};

	for (int p = 0; p < 4; p++)
		for (int i = 0; i < 6; i++) {
			int type = 0x5a5a5a5a;

			note("port %u index %u", ports[p], indices[i]);
			CALL_INT(ibv_query_gid_type(c, ports[p], indices[i], &type));
			note("    type 0x%x", type);
		}
	CALL_INT(ibv_close_device(c));
	return end();
}
