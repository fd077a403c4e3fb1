/*
 * pkeys.c - partition keys of tables that no software device has: the key comes in network byte order with the membership
 * bit as it stands in the table, and is looked for with it; an index past the table and a port that is not there are -1,
 * and leave the caller's key alone. tests/commands/run has made the tables.
 *
 * Fact: ibv_query_pkey gives the key in network byte order, with the membership bit as it stands in the table.
 * Fact: ibv_query_pkey for an index past the table, or for port 0 or one past the last, is -1, and the key is untouched.
 * Fact: ibv_get_pkey_index compares the membership bit as well; a key that is not there is -1.
 */
#include <arpa/inet.h>

#include "recorder.h"

int main(void)
{
	static const int indices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 100, -1, INT32_MAX, INT32_MIN};
	static const uint16_t keys[] = {0xffff, 0x7fff, 0x8001, 0x0001, 0x0000, 0x8000, 0x1234, 0x9234, 0x0180, 0xff7f};
	struct ibv_context *c = open_recorder(NULL);

	for (unsigned port = 0; port < 4; port++) {
		for (unsigned i = 0; i < sizeof indices / sizeof *indices; i++) {
			union { __be16 key; uint8_t bytes[2]; } got = {.bytes = {0xa5, 0x5a}};
			int result;

			errno = 0;
			result = ibv_query_pkey(c, port, indices[i], &got.key);
			printf("ibv_query_pkey port %u index %d = %d errno %d, bytes %02x %02x\n", port, indices[i], result, errno,
			       got.bytes[0], got.bytes[1]);
		}
		for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
			int result;

			errno = 0;
			result = ibv_get_pkey_index(c, port, htons(keys[i]));
			printf("ibv_get_pkey_index port %u key %#06x = %d errno %d\n", port, keys[i], result, errno);
		}
	}
	printf("ibv_close_device = %d\n", ibv_close_device(c));
	return 0;
}
