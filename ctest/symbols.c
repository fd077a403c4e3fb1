/*
 * symbols.c - the library as programs see it that load it at run time.
 *
 * Proves: that dlopen finds every public symbol under the version NCCL, UCX and others ask for with dlvsym, under the
 * historical version where there is one, and not under versions it never had; that a program using only symbols found
 * so can open a device and make a queue.
 */
#include <dlfcn.h>

#include "setup.h"

static void *library;

static void look_up(const char *name, const char *version)
{
	transcript_calls++;
	note("%s@%s %s", name, version, dlvsym(library, name, version) ? "found" : "missing");
}

static const char *const public_1_1[] = {
	"ibv_ack_async_event", "ibv_ack_cq_events", "ibv_alloc_pd", "ibv_attach_mcast", "ibv_close_device",
	"ibv_create_ah", "ibv_create_ah_from_wc", "ibv_create_cq", "ibv_create_qp", "ibv_create_srq", "ibv_dealloc_pd",
	"ibv_dereg_mr", "ibv_destroy_ah", "ibv_destroy_cq", "ibv_destroy_qp", "ibv_destroy_srq", "ibv_detach_mcast",
	"ibv_dofork_range", "ibv_dontfork_range", "ibv_event_type_str", "ibv_fork_init", "ibv_free_device_list",
	"ibv_get_async_event", "ibv_get_cq_event", "ibv_get_device_guid", "ibv_get_device_list", "ibv_get_device_name",
	"ibv_init_ah_from_wc", "ibv_modify_qp", "ibv_modify_srq", "ibv_node_type_str", "ibv_open_device",
	"ibv_port_state_str", "ibv_query_device", "ibv_query_gid", "ibv_query_pkey", "ibv_query_port", "ibv_query_qp",
	"ibv_query_srq", "ibv_rate_to_mbps", "ibv_reg_mr", "ibv_register_driver", "ibv_rereg_mr", "ibv_resize_cq",
	"ibv_resolve_eth_l2_from_gid", "ibv_wc_status_str", "mbps_to_ibv_rate", "ibv_copy_ah_attr_from_kern",
	"ibv_create_comp_channel", "ibv_destroy_comp_channel"};

static const char *const public_1_0[] = {
	"ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_rate_to_mult", "mult_to_ibv_rate",
	"ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern", "ibv_copy_qp_attr_from_kern", "ibv_get_sysfs_path",
	"ibv_read_sysfs_file", "ibv_query_device_ex"};

static const struct {
	const char *name, *version;
} later[] = {{"ibv_get_pkey_index", "IBVERBS_1.5"}, {"ibv_qp_to_qp_ex", "IBVERBS_1.6"},
	     {"ibv_reg_mr_iova", "IBVERBS_1.7"}, {"ibv_reg_mr_iova2", "IBVERBS_1.8"},
	     {"ibv_get_device_index", "IBVERBS_1.9"}, {"ibv_import_device", "IBVERBS_1.10"},
	     {"ibv_import_mr", "IBVERBS_1.10"}, {"ibv_import_pd", "IBVERBS_1.10"}, {"ibv_query_ece", "IBVERBS_1.10"},
	     {"ibv_set_ece", "IBVERBS_1.10"}, {"ibv_unimport_mr", "IBVERBS_1.10"}, {"ibv_unimport_pd", "IBVERBS_1.10"},
	     {"_ibv_query_gid_ex", "IBVERBS_1.11"}, {"_ibv_query_gid_table", "IBVERBS_1.11"},
	     {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"}, {"ibv_import_dm", "IBVERBS_1.13"},
	     {"ibv_is_fork_initialized", "IBVERBS_1.13"}, {"ibv_unimport_dm", "IBVERBS_1.13"},
	     {"ibv_query_qp_data_in_order", "IBVERBS_1.14"}};

/* A program that has nothing but what it looked up, as NCCL has. */
static void use(void)
{
	struct ibv_device **(*get_device_list)(int *) = dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
	void (*free_device_list)(struct ibv_device **) = dlvsym(library, "ibv_free_device_list", "IBVERBS_1.1");
	struct ibv_context *(*open)(struct ibv_device *) = dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	int (*close)(struct ibv_context *) = dlvsym(library, "ibv_close_device", "IBVERBS_1.1");
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *) =
		dlvsym(library, "ibv_query_port", "IBVERBS_1.1");
	struct ibv_pd *(*alloc_pd)(struct ibv_context *) = dlvsym(library, "ibv_alloc_pd", "IBVERBS_1.1");
	int (*dealloc_pd)(struct ibv_pd *) = dlvsym(library, "ibv_dealloc_pd", "IBVERBS_1.1");
	struct ibv_device **list;
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_port_attr port;

	list = CALL_PTR(get_device_list(NULL));
	c = CALL_PTR(open(list[0]));
	CALL_VOID(free_device_list(list));
	FILL(port);
	CALL_INT(query_port(c, 1, &port));
	FIELD(port, state);
	FIELD(port, link_layer);
	FIELD_X(port, port_cap_flags2); /* the old symbol ends before it */
	pd = CALL_PTR(alloc_pd(c));
	CALL_INT(dealloc_pd(pd));
	CALL_INT(close(c));
}

int main(void)
{
	begin();
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!library)
		die("%s", dlerror());
	CHECK(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) == library);
	for (size_t i = 0; i < sizeof(public_1_1) / sizeof(*public_1_1); i++) {
		look_up(public_1_1[i], "IBVERBS_1.1");
		look_up(public_1_1[i], "IBVERBS_1.0");
		look_up(public_1_1[i], "IBVERBS_1.2");
	}
	for (size_t i = 0; i < sizeof(public_1_0) / sizeof(*public_1_0); i++) {
		look_up(public_1_0[i], "IBVERBS_1.0");
		look_up(public_1_0[i], "IBVERBS_1.1");
	}
	for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++) {
		look_up(later[i].name, later[i].version);
		look_up(later[i].name, "IBVERBS_1.1");
		look_up(later[i].name, "IBVERBS_1.4");
	}
	look_up("ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	look_up("ibv_cmd_create_qp", "IBVERBS_1.1");
	look_up("ibv_no_such_verb", "IBVERBS_1.1");
	use();
	return end();
}
