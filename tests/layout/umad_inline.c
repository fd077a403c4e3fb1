/*
 * What the inline functions of libibumad's headers answer, for values at the edges of their fields. Compiled with
 * rdma-core's headers and with ours; the output must be the same. No library is linked.
 */
#include <infiniband/umad_sa_mcm.h>
#include <stdio.h>

static const uint32_t edges[] = { 0, 1, 0x1f, 0x20, 0xff, 0x100, 0xfffff, 0x100000, 0x80000000, 0xdeadbeef, 0xffffffff };
#define EDGES (sizeof(edges) / sizeof(edges[0]))

int main(void)
{
	for (size_t i = 0; i < EDGES; i++) {
		struct umad_class_port_info info = { .cap_mask2_resp_time = htobe32(edges[i]) };
		struct umad_sa_mcmember_record record = { .scope_state = edges[i], .proxy_join = edges[i] };
		uint8_t sl = 0, hop = 0, scope = 0, state = 0;
		uint32_t label = 0;

		printf("  umad_class_cap_mask2 %#x\n", umad_class_cap_mask2(&info));
		printf("  umad_class_resp_time %#x\n", umad_class_resp_time(&info));
		printf("  umad_sa_get_rate_mtu_or_life %#x\n", umad_sa_get_rate_mtu_or_life(edges[i]));
		umad_sa_mcm_get_sl_flow_hop(htobe32(edges[i]), &sl, &label, &hop);
		printf("  umad_sa_mcm_get_sl_flow_hop %#x %#x %#x\n", sl, label, hop);
		umad_sa_mcm_get_scope_state(edges[i], &scope, &state);
		printf("  umad_sa_mcm_get_scope_state %#x %#x\n", scope, state);
		printf("  umad_sa_mcm_get_proxy_join %d\n", umad_sa_mcm_get_proxy_join(&record));
		printf("  ntohll %#llx %#llx\n", (unsigned long long)ntohll(edges[i] * 0x123456789ULL),
		       (unsigned long long)htonll(edges[i] * 0x123456789ULL));
		for (size_t j = 0; j < EDGES; j++) {
			printf("  umad_sa_set_rate_mtu_or_life %#x\n", umad_sa_set_rate_mtu_or_life(edges[j], edges[i]));
			printf("  umad_sa_mcm_set_scope_state %#x\n", umad_sa_mcm_set_scope_state(edges[j], edges[i]));
			record.scope_state = edges[i];
			umad_sa_mcm_set_join_state(&record, edges[j]);
			printf("  umad_sa_mcm_set_join_state %#x\n", record.scope_state);
			for (size_t k = 0; k < EDGES; k++)
				printf("  umad_sa_mcm_set_sl_flow_hop %#x\n",
				       be32toh(umad_sa_mcm_set_sl_flow_hop(edges[i], edges[j], edges[k])));
		}
	}
	/* Places that nobody wants to know. */
	umad_sa_mcm_get_sl_flow_hop(0, NULL, NULL, NULL);
	umad_sa_mcm_get_scope_state(0, NULL, NULL);

	unsigned char *buffers = umad_alloc(3, 256);
	size_t zeros = 0;
	while (buffers && zeros < 3 * 256 && !buffers[zeros])
		zeros++;
	printf("  umad_alloc %zu\n", zeros);
	umad_free(buffers);
	return 0;
}
