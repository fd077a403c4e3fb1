/*
 * random_rare.h - random calls of what soft-RoCE has not, and of helpers that ask no device.
 */
#ifndef CTEST_RANDOM_RARE_H
#define CTEST_RANDOM_RARE_H

#include <fcntl.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "random_rooms.h"

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#define VOID(name, call)                                                                                       \
	do {                                                                                                   \
		call;                                                                                          \
		transcript_calls++;                                                                            \
		note("%s", name);                                                                              \
	} while (0)

#define TEXT(name, call)                                                                                       \
	do {                                                                                                   \
		const char *text_ = (call);                                                                    \
		transcript_calls++;                                                                            \
		note("%s = %s", name, text_ ? text_ : "(null)");                                               \
	} while (0)

/* Any bits, mostly few and low ones. */
static inline uint32_t bits(void)
{
	return chance(60) ? rnd(4) : chance(50) ? 1u << rnd(32) : rnd(UINT32_MAX);
}

static inline void scramble(void *p, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((unsigned char *)p)[i] = (unsigned char)rnd(256);
}

static inline void print_bytes(const void *p, size_t length)
{
	for (size_t i = 0; i < length; i++)
		printf("%02x", ((const unsigned char *)p)[i]);
	putchar('\n');
}

/* Objects that no such device gives; their structs are the program's own. */
static inline void unsupported_objects(struct room *r)
{
	struct ibv_context *c = r->context;
	struct ibv_pd *pd = live(&r->pds);
	struct ibv_qp *qp = live(&r->qps);
	struct ibv_srq *srq = live(&r->srqs);
	struct ibv_xrcd xrcd = {.context = c};
	struct ibv_xrcd_init_attr xrcd_init = {.comp_mask = bits(), .fd = (int)rnd(3) - 1, .oflags = (int)bits()};
	struct ibv_qp_open_attr open_attr = {bits(), rnd(1000), &xrcd, r, rnd(12)};
	struct ibv_wq wq = {.context = c, .handle = rnd(20)};
	struct ibv_wq *wqs[2] = {&wq, &wq};
	struct ibv_wq_init_attr wq_init = {r, rnd(3), rnd(100), rnd(5), pd, live(&r->cqs), bits(), bits()};
	struct ibv_wq_attr wq_attr = {.attr_mask = bits(), .wq_state = rnd(4), .curr_wq_state = rnd(4)};
	struct ibv_rwq_ind_table table = {.context = c, .ind_tbl_handle = (int)rnd(20)};
	struct ibv_rwq_ind_table_init_attr table_init = {rnd(2), wqs, bits()};
	struct ibv_counters counters = {.context = c};
	struct ibv_counters_init_attr counters_init = {.comp_mask = bits()};
	struct ibv_counter_attach_attr attach = {.counter_desc = rnd(3), .index = rnd(5), .comp_mask = bits()};
	struct ibv_flow_action action = {.context = c};
	struct ibv_flow_action_esp_attr esp = {.comp_mask = bits()};
	struct ibv_flow flow = {.context = c, .handle = rnd(20)};
	struct ibv_flow_attr rule = {.comp_mask = bits(), .type = rnd(5), .size = sizeof(rule), .port = (uint8_t)rnd(3)};
	struct ibv_dm dm = {.context = c, .handle = rnd(20)};
	struct ibv_alloc_dm_attr dm_init = {rnd(10000), rnd(20), bits()};
	struct ibv_sge sge = {(uintptr_t)arena, rnd(5000), rnd(1000)};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = rnd(1000), .comp_mask = bits()};
	struct ibv_values_ex values = {.comp_mask = bits()};
	struct ibv_ops_wr op = {.opcode = rnd(4)}, *bad_op = NULL;
	uint64_t numbers[4] = {1, 2, 3, 4};
	uint32_t number = 5;
	struct ibv_device_attr_ex device = {0};

	/* A device that has such objects, which the software device is, would take these for its own. */
	if (ibv_query_device_ex(c, NULL, &device) || device.max_dm_size)
		return;
	switch (rnd(32)) {
	case 0: MADE("open_xrcd", ibv_open_xrcd(c, &xrcd_init)); break;
	case 1: RESULT("close_xrcd", ibv_close_xrcd(&xrcd)); break;
	case 2: MADE("open_qp", ibv_open_qp(c, &open_attr)); break;
	case 3:
		if (srq)
			RESULT("get_srq_num", ibv_get_srq_num(srq, &number));
		break;
	case 4:
		if (srq)
			RESULT("post_srq_ops", ibv_post_srq_ops(srq, &op, &bad_op));
		break;
	case 5: MADE("create_wq", ibv_create_wq(c, &wq_init)); break;
	case 6: RESULT("modify_wq", ibv_modify_wq(&wq, &wq_attr)); break;
	case 7: RESULT("destroy_wq", ibv_destroy_wq(&wq)); break;
	case 8: MADE("create_rwq_ind_table", ibv_create_rwq_ind_table(c, &table_init)); break;
	case 9: RESULT("destroy_rwq_ind_table", ibv_destroy_rwq_ind_table(&table)); break;
	case 10: MADE("create_counters", ibv_create_counters(c, &counters_init)); break;
	case 11: RESULT("attach_counters", ibv_attach_counters_point_flow(&counters, &attach, NULL)); break;
	case 12: RESULT("read_counters", ibv_read_counters(&counters, numbers, rnd(5), bits())); break;
	case 13: RESULT("destroy_counters", ibv_destroy_counters(&counters)); break;
	case 14: MADE("create_flow_action_esp", ibv_create_flow_action_esp(c, &esp)); break;
	case 15: RESULT("modify_flow_action_esp", ibv_modify_flow_action_esp(&action, &esp)); break;
	case 16: RESULT("destroy_flow_action", ibv_destroy_flow_action(&action)); break;
	case 17:
		if (qp)
			MADE("create_flow", ibv_create_flow(qp, &rule));
		break;
	case 18: RESULT("destroy_flow", ibv_destroy_flow(&flow)); break;
	case 19: MADE("alloc_dm", ibv_alloc_dm(c, &dm_init)); break;
	case 20: RESULT("free_dm", ibv_free_dm(&dm)); break;
	case 21:
		if (pd)
			MADE("reg_dm_mr", ibv_reg_dm_mr(pd, &dm, rnd(100), rnd(5000), bits()));
		break;
	case 22:
		if (pd)
			MADE("alloc_null_mr", ibv_alloc_null_mr(pd));
		break;
	case 23:
		/* From 59 on rdma-core passes on how the kernel refuses, and this library answers as 44: docs/differences.md. */
		if (pd && !NEWER)
			RESULT("advise_mr", ibv_advise_mr(pd, rnd(4), bits(), &sge, rnd(2)));
		break;
	case 24:
		if (pd)
			MADE("reg_dmabuf_mr", ibv_reg_dmabuf_mr(pd, rnd(5000), rnd(5000), rnd(5000), (int)rnd(3) - 1, (int)bits()));
		break;
	case 25:
		if (qp)
			RESULT("modify_qp_rate_limit", ibv_modify_qp_rate_limit(qp, &rate));
		break;
	case 26:
		RESULT("query_rt_values_ex", ibv_query_rt_values_ex(c, &values));
		note("    comp_mask 0x%x", values.comp_mask);
		break;
	case 27: MADE("import_dm", ibv_import_dm(c, rnd(20))); break;
	case 28: VOID("unimport_dm", ibv_unimport_dm(&dm)); break;
	case 29:
		if (qp)
			COUNTED("query_qp_data_in_order", ibv_query_qp_data_in_order(qp, rnd(16), rnd(2)));
		break;
	case 30: MADE("import_device", ibv_import_device(chance(50) ? -1 : 1 << 20)); break;
	default: {
		/* rdma-core gives soft-RoCE no thread domain, this library does: ours_only_domains.c. */
		struct ibv_td_init_attr td_init = {0};
		struct ibv_td *td = ibv_alloc_td(c, &td_init);
		struct ibv_parent_domain_init_attr parent = {.pd = pd, .td = td};
		struct ibv_pd *domain = pd ? ibv_alloc_parent_domain(c, &parent) : NULL;

		if (domain && ibv_dealloc_pd(domain))
			note("a parent domain stays");
		if (td && ibv_dealloc_td(td))
			note("a thread domain stays");
		transcript_calls += 2;
	}
	}
}

static inline void helpers(struct room *r)
{
	static const char *const files[] = {"node_type", "ports/1/state", "ports/1/rate", "nothing", "node_guid", ""};
	struct ibv_context *c = r->context;
	struct ibv_device *device = c->device;
	struct ib_uverbs_qp_attr kernel_qp;
	struct ib_uverbs_ah_attr kernel_ah;
	struct ib_user_path_rec kernel_path;
	struct ibv_sa_path_rec path;
	struct ibv_qp_attr qp;
	struct ibv_ah_attr ah;
	struct ibv_gid_entry entry;
	char text[64];
	int i = chance(80) ? (int)rnd(40) - 3 : (int)rnd(UINT32_MAX);

	switch (rnd(24)) {
	case 0: TEXT("node_type_str", ibv_node_type_str(i)); break;
	case 1: TEXT("port_state_str", ibv_port_state_str(i)); break;
	/* 20 came with rdma-core 65: strings_rates.c. */
	case 2: TEXT("event_type_str", ibv_event_type_str(i == 20 ? 19 : i)); break;
	case 3: TEXT("wc_status_str", ibv_wc_status_str(i)); break;
	case 4: COUNTED("rate_to_mult", ibv_rate_to_mult(i)); break;
	case 5: COUNTED("mult_to_ibv_rate", mult_to_ibv_rate(i)); break;
	case 6: COUNTED("rate_to_mbps", ibv_rate_to_mbps(i)); break;
	case 7: COUNTED("mbps_to_ibv_rate", mbps_to_ibv_rate(chance(50) ? i * 1000 : 2500 * i)); break;
	case 8: TEXT("get_device_name", ibv_get_device_name(device)); break;
	case 9:
		note("get_device_guid %016" PRIx64, (uint64_t)be64toh(ibv_get_device_guid(device)));
		transcript_calls++;
		break;
	case 10: COUNTED("get_device_index", ibv_get_device_index(device)); break;
	case 11: TEXT("get_sysfs_path", ibv_get_sysfs_path()); break;
	case 12:
		memset(text, 0, sizeof(text));
		COUNTED("read_sysfs_file", ibv_read_sysfs_file(device->ibdev_path, PICK(files), text, rnd(sizeof(text))));
		note("    %s", text);
		break;
	case 13:
		scramble(&kernel_qp, sizeof(kernel_qp));
		FILL(qp);
		VOID("copy_qp_attr_from_kern", ibv_copy_qp_attr_from_kern(&qp, &kernel_qp));
		print_bytes(&qp, sizeof(qp));
		break;
	case 14:
		scramble(&kernel_ah, sizeof(kernel_ah));
		FILL(ah);
		VOID("copy_ah_attr_from_kern", ibv_copy_ah_attr_from_kern(&ah, &kernel_ah));
		print_bytes(&ah, sizeof(ah));
		break;
	case 15:
		scramble(&kernel_path, sizeof(kernel_path));
		FILL(path);
		VOID("copy_path_rec_from_kern", ibv_copy_path_rec_from_kern(&path, &kernel_path));
		print_bytes(&path, sizeof(path));
		break;
	case 16:
		scramble(&path, sizeof(path));
		FILL(kernel_path);
		VOID("copy_path_rec_to_kern", ibv_copy_path_rec_to_kern(&kernel_path, &path));
		print_bytes(&kernel_path, sizeof(kernel_path));
		break;
	case 17:
		FILL(entry);
		RESULT("query_gid_ex", ibv_query_gid_ex(c, rnd(3), chance(70) ? rnd(3) : rnd(2000), &entry, bits() & 3));
		print_bytes(&entry, sizeof(entry));
		break;
	case 18: COUNTED("is_qpt_supported", ibv_is_qpt_supported(rnd(64), rnd(10))); break;
	case 19: COUNTED("flow_label_to_udp_sport", ibv_flow_label_to_udp_sport(rnd(1 << 20))); break;
	case 20: COUNTED("inc_rkey", ibv_inc_rkey(rnd(1 << 30))); break;
	case 21: COUNTED("is_fork_initialized", ibv_is_fork_initialized()); break;
	case 22: COUNTED("static_rate", mult_to_ibv_rate((int)rnd(64))); break;
	default: {
		struct ibv_device_attr attr;

		FILL(attr);
		RESULT("query_device", ibv_query_device(c, &attr));
		print_bytes(&attr, sizeof(attr));
	}
	}
}

/* Addresses from a completion, and where an address leads. */
static inline void addresses(struct room *r)
{
	struct ibv_wc wc = {.wc_flags = chance(80) ? IBV_WC_GRH : bits(), .sl = (uint8_t)rnd(16), .slid = (uint16_t)rnd(100)};
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28 | rnd(1 << 28)),
			      .paylen = htobe16(100),
			      .next_hdr = chance(70) ? 17 : 0x1b,
			      .hop_limit = (uint8_t)rnd(256),
			      .sgid = gids[rnd(2)],
			      .dgid = gids[rnd(2)]};
	struct ibv_pd *pd = live(&r->pds);
	struct ibv_ah_attr attr;
	uint8_t mac[6], port = chance(90) ? PORT : (uint8_t)rnd(4);
	uint16_t vlan = 0x5a5a;

	if (chance(20))
		scramble(&grh, 8); /* not its addresses: see av() */
	if (chance(5))
		grh.dgid.raw[rnd(16)] ^= 1;
	switch (rnd(3)) {
	case 0:
		FILL(attr);
		RESULT("init_ah_from_wc", ibv_init_ah_from_wc(r->context, port, &wc, &grh, &attr));
		print_bytes(&attr, sizeof(attr));
		break;
	case 1:
		if (pd)
			keep(&r->ahs, MADE("create_ah_from_wc", ibv_create_ah_from_wc(pd, &wc, &grh, port)));
		break;
	default:
		attr = av();
		memset(mac, 0xa5, sizeof(mac));
		RESULT("resolve_eth_l2_from_gid", ibv_resolve_eth_l2_from_gid(r->context, &attr, mac, chance(80) ? &vlan : NULL));
		print_bytes(mac, sizeof(mac));
		note("    vlan 0x%x", vlan);
	}
}

#endif
