/*
 * addrinfo.c - rdma_getaddrinfo, and endpoints of what it answers.
 */
#include "cm.h"
#include <netdb.h>

static void show(const struct rdma_addrinfo *info)
{
	for (; info; info = info->ai_next) {
		note("    flags 0x%x family %d qp_type %d space 0x%x src_len %d dst_len %d route_len %zu connect_len %zu", info->ai_flags,
		     info->ai_family, info->ai_qp_type, info->ai_port_space, info->ai_src_len, info->ai_dst_len, info->ai_route_len,
		     info->ai_connect_len);
		if (info->ai_src_addr)
			show_address("src", info->ai_src_addr);
		if (info->ai_dst_addr)
			show_address("dst", info->ai_dst_addr);
		CHECK(info->ai_src_canonname == NULL && info->ai_dst_canonname == NULL);
	}
}

static void one(const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *info = NULL;

	if (hints)
		note("node %s service %s flags 0x%x family %d qp_type %d space 0x%x", node ? node : "NULL", service ? service : "NULL",
		     hints->ai_flags, hints->ai_family, hints->ai_qp_type, hints->ai_port_space);
	else
		note("node %s service %s", node ? node : "NULL", service ? service : "NULL");
	if (CALL_INT(rdma_getaddrinfo(node, service, hints, &info)) == 0) {
		show(info);
		rdma_freeaddrinfo(info);
	}
}

int main(void)
{
	static const struct rdma_addrinfo hints[] = {
		{0},
		{.ai_flags = RAI_PASSIVE},
		{.ai_flags = RAI_NUMERICHOST},
		{.ai_flags = RAI_NOROUTE},
		{.ai_flags = RAI_FAMILY, .ai_family = AF_INET},
		{.ai_flags = RAI_FAMILY, .ai_family = AF_INET6},
		{.ai_port_space = RDMA_PS_UDP},
		{.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC},
		{.ai_qp_type = IBV_QPT_UD},
		{.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_UDP, .ai_qp_type = IBV_QPT_UD},
	};
	static const char *nodes[] = {HERE, "fd77::1", "127.0.0.1", "::1", NULL};

	begin();
	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++)
		for (int j = 0; j < 5; j++) {
			one(nodes[j], "7471", &hints[i]);
			if (i < 2)
				one(nodes[j], NULL, &hints[i]);
		}
	one(HERE, "7471", NULL);
	one(HERE, "no such service", NULL);
	one("no.such.host.invalid", "7471", &hints[2]);
	one(NULL, NULL, NULL);
	CALL_VOID(rdma_freeaddrinfo(NULL));
	return end();
}
