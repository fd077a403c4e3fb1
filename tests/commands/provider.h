/*
 * provider.h - the private ABI as rdma-core 44's providers see it, as far as this test needs it. The structures are
 * declared by the fields that the test looks at.
 */
#ifndef COMMANDS_PROVIDER_H
#define COMMANDS_PROVIDER_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <stdint.h>

/* Of a library that has a name under several versions, the one that a plugin of this private version calls. */
#define BIND_AS(function, name, version) __asm__(".symver " #function ", " #name "@IBVERBS_PRIVATE_" #version)
#define BIND(function, version) BIND_AS(function, function, version)

struct command_buffer {
	struct command_buffer *next;
	struct ib_uverbs_attr *next_attr, *last_attr;
	uint8_t uhw_in_idx, uhw_out_idx, uhw_in_headroom_dwords, uhw_out_headroom_dwords;
	uint8_t flags;
	struct ib_uverbs_ioctl_hdr hdr;
};
_Static_assert(sizeof(struct command_buffer) == 56, "attributes follow at 56");

struct private_device {
	struct ibv_device device;
	const void *ops;
	int refcount;
	void *entry[2], *sysfs;
	uint64_t core_support;
};
_Static_assert(sizeof(struct private_device) == 712, "verbs_device");

struct private_mr { struct ibv_mr mr; uint32_t mr_type, access; };
struct private_xrcd { struct ibv_xrcd xrcd; uint32_t comp_mask, handle; };
struct private_srq { struct ibv_srq srq; uint32_t srq_type; struct private_xrcd *xrcd; struct ibv_cq *cq; uint32_t srq_num; };
struct private_dm { struct ibv_dm dm; uint32_t handle; };
struct private_counters { struct ibv_counters counters; uint32_t handle; };
struct private_action { struct ibv_flow_action action; uint32_t handle, type; };

void *_verbs_init_and_alloc_context(struct ibv_device *, int fd, size_t size, void *offset, uint32_t driver_id);
extern bool verbs_allow_disassociate_destroy;
int execute_ioctl(struct ibv_context *, struct command_buffer *);
unsigned __ioctl_final_num_attrs(unsigned, struct command_buffer *);
int ibv_read_ibdev_sysfs_file(char *, size_t, const void *sysfs, const char *format, ...);

int ibv_cmd_get_context(struct verbs_context *, void *cmd, size_t, void *resp, size_t);
int ibv_cmd_query_context(struct ibv_context *, struct command_buffer *);
int ibv_cmd_query_device_any(struct ibv_context *, const struct ibv_query_device_ex_input *, void *attr, size_t,
			     void *resp, size_t *);
int ibv_cmd_query_port(struct ibv_context *, uint8_t, struct ibv_port_attr *, void *cmd, size_t);
int ibv_cmd_alloc_pd(struct ibv_context *, struct ibv_pd *, void *, size_t, void *, size_t);
int ibv_cmd_dealloc_pd(struct ibv_pd *);
int ibv_cmd_open_xrcd(struct ibv_context *, struct private_xrcd *, int, struct ibv_xrcd_init_attr *, void *, size_t,
		      void *, size_t);
int ibv_cmd_close_xrcd(struct private_xrcd *);
int ibv_cmd_reg_mr(struct ibv_pd *, void *, size_t, uint64_t, int, struct private_mr *, void *, size_t, void *, size_t);
int ibv_cmd_rereg_mr(struct private_mr *, uint32_t, void *, size_t, uint64_t, int, struct ibv_pd *, void *, size_t,
		     void *, size_t);
int ibv_cmd_dereg_mr(struct private_mr *);
int ibv_cmd_query_mr(struct ibv_pd *, struct private_mr *, uint32_t);
int ibv_cmd_advise_mr(struct ibv_pd *, int, uint32_t, struct ibv_sge *, uint32_t);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int, struct private_mr *);
int ibv_cmd_alloc_mw(struct ibv_pd *, int, struct ibv_mw *, void *, size_t, void *, size_t);
int ibv_cmd_dealloc_mw(struct ibv_mw *);
int ibv_cmd_create_cq(struct ibv_context *, int, struct ibv_comp_channel *, int, struct ibv_cq *, void *, size_t, void *,
		      size_t);
int ibv_cmd_create_cq_ex(struct ibv_context *, const struct ibv_cq_init_attr_ex *, struct ibv_cq *, void *, size_t,
			 void *, size_t, uint32_t);
int ibv_cmd_poll_cq(struct ibv_cq *, int, struct ibv_wc *);
int ibv_cmd_req_notify_cq(struct ibv_cq *, int);
int ibv_cmd_resize_cq(struct ibv_cq *, int, void *, size_t, void *, size_t);
int ibv_cmd_destroy_cq(struct ibv_cq *);
int ibv_cmd_modify_cq(struct ibv_cq *, struct ibv_modify_cq_attr *, void *, size_t);
int ibv_cmd_create_srq(struct ibv_pd *, struct ibv_srq *, struct ibv_srq_init_attr *, void *, size_t, void *, size_t);
int ibv_cmd_create_srq_ex(struct ibv_context *, struct private_srq *, struct ibv_srq_init_attr_ex *, void *, size_t,
			  void *, size_t);
int ibv_cmd_modify_srq(struct ibv_srq *, struct ibv_srq_attr *, int, void *, size_t);
int ibv_cmd_query_srq(struct ibv_srq *, struct ibv_srq_attr *, void *, size_t);
int ibv_cmd_destroy_srq(struct ibv_srq *);
int ibv_cmd_create_qp(struct ibv_pd *, struct ibv_qp *, struct ibv_qp_init_attr *, void *, size_t, void *, size_t);
int ibv_cmd_create_qp_ex(struct ibv_context *, void *, struct ibv_qp_init_attr_ex *, void *, size_t, void *, size_t);
int ibv_cmd_create_qp_ex2(struct ibv_context *, void *, struct ibv_qp_init_attr_ex *, void *, size_t, void *, size_t);
int ibv_cmd_open_qp(struct ibv_context *, void *, int, struct ibv_qp_open_attr *, void *, size_t, void *, size_t);
int ibv_cmd_query_qp(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *, void *, size_t);
int ibv_cmd_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int, void *, size_t);
int ibv_cmd_modify_qp_ex(struct ibv_qp *, struct ibv_qp_attr *, int, void *, size_t, void *, size_t);
int ibv_cmd_destroy_qp(struct ibv_qp *);
int ibv_cmd_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int ibv_cmd_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int ibv_cmd_post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int ibv_cmd_create_ah(struct ibv_pd *, struct ibv_ah *, struct ibv_ah_attr *, void *, size_t);
int ibv_cmd_destroy_ah(struct ibv_ah *);
int ibv_cmd_attach_mcast(struct ibv_qp *, const union ibv_gid *, uint16_t);
int ibv_cmd_detach_mcast(struct ibv_qp *, const union ibv_gid *, uint16_t);
int ibv_cmd_create_flow(struct ibv_qp *, struct ibv_flow *, struct ibv_flow_attr *, void *, size_t);
int ibv_cmd_destroy_flow(struct ibv_flow *);
int ibv_cmd_create_flow_action_esp(struct ibv_context *, struct ibv_flow_action_esp_attr *, struct private_action *,
				   struct command_buffer *);
int ibv_cmd_modify_flow_action_esp(struct private_action *, struct ibv_flow_action_esp_attr *, struct command_buffer *);
int ibv_cmd_destroy_flow_action(struct private_action *);
int ibv_cmd_create_wq(struct ibv_context *, struct ibv_wq_init_attr *, struct ibv_wq *, void *, size_t, void *, size_t);
int ibv_cmd_modify_wq(struct ibv_wq *, struct ibv_wq_attr *, void *, size_t);
int ibv_cmd_destroy_wq(struct ibv_wq *);
int ibv_cmd_create_rwq_ind_table(struct ibv_context *, struct ibv_rwq_ind_table_init_attr *, struct ibv_rwq_ind_table *,
				 void *, size_t);
int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *);
int ibv_cmd_create_counters(struct ibv_context *, struct ibv_counters_init_attr *, struct private_counters *,
			    struct command_buffer *);
int ibv_cmd_destroy_counters(struct private_counters *);
int ibv_cmd_read_counters(struct private_counters *, uint64_t *, uint32_t, uint32_t, struct command_buffer *);
int ibv_cmd_alloc_dm(struct ibv_context *, const struct ibv_alloc_dm_attr *, struct private_dm *, struct command_buffer *);
int ibv_cmd_free_dm(struct private_dm *);
int ibv_cmd_reg_dm_mr(struct ibv_pd *, struct private_dm *, uint64_t, size_t, unsigned, struct private_mr *,
		      struct command_buffer *);

#endif
