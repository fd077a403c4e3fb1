/*
 * pkey.c - partition keys: by index and back, wrong ports, indices past the end, keys that are not there.
 */
#include "setup.h"

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");
	static const unsigned ports[] = {1, 0, 2, 255};
	static const int indices[] = {0, 1, 63, 64, 65535, -1};

	for (int p = 0; p < 4; p++)
		for (int i = 0; i < 6; i++) {
			__be16 pkey = htobe16(0xa5a5);

			note("port %u index %d", ports[p], indices[i]);
			CALL_INT(ibv_query_pkey(c, ports[p], indices[i], &pkey));
			note("    pkey 0x%04x", be16toh(pkey));
		}
	CALL_COUNT(ibv_get_pkey_index(c, 1, htobe16(0xffff)));
	CALL_COUNT(ibv_get_pkey_index(c, 1, htobe16(0x7fff)));
	CALL_COUNT(ibv_get_pkey_index(c, 1, 0));
	CALL_COUNT(ibv_get_pkey_index(c, 0, htobe16(0xffff)));
	CALL_COUNT(ibv_get_pkey_index(c, 2, htobe16(0xffff)));
	CALL_INT(ibv_close_device(c));
	return end();
}
