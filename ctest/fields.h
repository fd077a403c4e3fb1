/*
 * fields.h - print the structs that verbs fill, every field that both libraries must answer alike.
 */
#ifndef CTEST_FIELDS_H
#define CTEST_FIELDS_H

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>

#include "transcript.h"

static inline void print_gid(const char *name, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	printf("    %s = %s\n", name, text);
}

static inline void print_device_attr(const struct ibv_device_attr *a)
{
	printf("    fw_ver = \"%.64s\"\n", a->fw_ver);
	FIELD_X(*a, node_guid);
	FIELD_X(*a, sys_image_guid);
	FIELD_X(*a, max_mr_size);
	FIELD_X(*a, page_size_cap);
	FIELD_X(*a, vendor_id);
	FIELD(*a, vendor_part_id);
	FIELD(*a, hw_ver);
	FIELD(*a, max_qp);
	FIELD(*a, max_qp_wr);
	FIELD_X(*a, device_cap_flags);
	FIELD(*a, max_sge);
	FIELD(*a, max_sge_rd);
	FIELD(*a, max_cq);
	FIELD(*a, max_cqe);
	FIELD(*a, max_mr);
	FIELD(*a, max_pd);
	FIELD(*a, max_qp_rd_atom);
	FIELD(*a, max_ee_rd_atom);
	FIELD(*a, max_res_rd_atom);
	FIELD(*a, max_qp_init_rd_atom);
	FIELD(*a, max_ee_init_rd_atom);
	FIELD(*a, atomic_cap);
	FIELD(*a, max_ee);
	FIELD(*a, max_rdd);
	FIELD(*a, max_mw);
	FIELD(*a, max_raw_ipv6_qp);
	FIELD(*a, max_raw_ethy_qp);
	FIELD(*a, max_mcast_grp);
	FIELD(*a, max_mcast_qp_attach);
	FIELD(*a, max_total_mcast_qp_attach);
	FIELD(*a, max_ah);
	FIELD(*a, max_fmr);
	FIELD(*a, max_map_per_fmr);
	FIELD(*a, max_srq);
	FIELD(*a, max_srq_wr);
	FIELD(*a, max_srq_sge);
	FIELD(*a, max_pkeys);
	FIELD(*a, local_ca_ack_delay);
	FIELD(*a, phys_port_cnt);
}

static inline void print_device_attr_ex(const struct ibv_device_attr_ex *a)
{
	print_device_attr(&a->orig_attr);
	FIELD_X(*a, comp_mask);
	FIELD_X(*a, odp_caps.general_caps);
	FIELD_X(*a, odp_caps.per_transport_caps.rc_odp_caps);
	FIELD_X(*a, odp_caps.per_transport_caps.uc_odp_caps);
	FIELD_X(*a, odp_caps.per_transport_caps.ud_odp_caps);
	FIELD_X(*a, completion_timestamp_mask);
	FIELD(*a, hca_core_clock);
	FIELD_X(*a, device_cap_flags_ex);
	FIELD(*a, tso_caps.max_tso);
	FIELD_X(*a, tso_caps.supported_qpts);
	FIELD_X(*a, rss_caps.supported_qpts);
	FIELD(*a, rss_caps.max_rwq_indirection_tables);
	FIELD(*a, rss_caps.max_rwq_indirection_table_size);
	FIELD_X(*a, rss_caps.rx_hash_fields_mask);
	FIELD_X(*a, rss_caps.rx_hash_function);
	FIELD(*a, max_wq_type_rq);
	FIELD(*a, packet_pacing_caps.qp_rate_limit_min);
	FIELD(*a, packet_pacing_caps.qp_rate_limit_max);
	FIELD_X(*a, packet_pacing_caps.supported_qpts);
	FIELD_X(*a, raw_packet_caps);
	FIELD(*a, tm_caps.max_rndv_hdr_size);
	FIELD(*a, tm_caps.max_num_tags);
	FIELD_X(*a, tm_caps.flags);
	FIELD(*a, tm_caps.max_ops);
	FIELD(*a, tm_caps.max_sge);
	FIELD(*a, cq_mod_caps.max_cq_count);
	FIELD(*a, cq_mod_caps.max_cq_period);
	FIELD(*a, max_dm_size);
	FIELD_X(*a, pci_atomic_caps.fetch_add);
	FIELD_X(*a, pci_atomic_caps.swap);
	FIELD_X(*a, pci_atomic_caps.compare_swap);
	FIELD_X(*a, xrc_odp_caps);
	FIELD(*a, phys_port_cnt_ex);
}

static inline void print_port_attr(const struct ibv_port_attr *a)
{
	FIELD(*a, state);
	FIELD(*a, max_mtu);
	FIELD(*a, active_mtu);
	FIELD(*a, gid_tbl_len);
	FIELD_X(*a, port_cap_flags);
	FIELD(*a, max_msg_sz);
	FIELD(*a, bad_pkey_cntr);
	FIELD(*a, qkey_viol_cntr);
	FIELD(*a, pkey_tbl_len);
	FIELD(*a, lid);
	FIELD(*a, sm_lid);
	FIELD(*a, lmc);
	FIELD(*a, max_vl_num);
	FIELD(*a, sm_sl);
	FIELD(*a, subnet_timeout);
	FIELD(*a, init_type_reply);
	FIELD(*a, active_width);
	FIELD(*a, active_speed);
	FIELD(*a, phys_state);
	FIELD(*a, link_layer);
	FIELD_X(*a, flags);
	FIELD_X(*a, port_cap_flags2);
}

static inline void print_srq_attr(const struct ibv_srq_attr *a)
{
	printf("    max_wr = %u max_sge = %u srq_limit = %u\n", a->max_wr, a->max_sge, a->srq_limit);
}

static inline void print_cap(const struct ibv_qp_cap *c)
{
	printf("    cap: send_wr %u recv_wr %u send_sge %u recv_sge %u inline %u\n", c->max_send_wr, c->max_recv_wr,
	       c->max_send_sge, c->max_recv_sge, c->max_inline_data);
}

static inline void print_ah_attr(const char *name, const struct ibv_ah_attr *a)
{
	char dgid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, a->grh.dgid.raw, dgid, sizeof(dgid));
	printf("    %s: dgid %s flow_label 0x%x sgid_index %u hop_limit %u traffic_class %u dlid %u sl %u"
	       " src_path_bits %u static_rate %u is_global %u port_num %u\n",
	       name, dgid, a->grh.flow_label, a->grh.sgid_index, a->grh.hop_limit, a->grh.traffic_class, a->dlid,
	       a->sl, a->src_path_bits, a->static_rate, a->is_global, a->port_num);
}

/* Everything of ibv_qp_attr; the destination queue pair's number only as zero or not. */
static inline void print_qp_attr(const struct ibv_qp_attr *a)
{
	printf("    qp_state %u cur_qp_state %u path_mtu %u path_mig_state %u qkey 0x%x\n", a->qp_state,
	       a->cur_qp_state, a->path_mtu, a->path_mig_state, a->qkey);
	printf("    rq_psn 0x%x sq_psn 0x%x dest_qp_num %s qp_access_flags 0x%x\n", a->rq_psn, a->sq_psn,
	       a->dest_qp_num ? "nonzero" : "0", a->qp_access_flags);
	print_cap(&a->cap);
	print_ah_attr("ah_attr", &a->ah_attr);
	print_ah_attr("alt_ah_attr", &a->alt_ah_attr);
	printf("    pkey_index %u alt_pkey_index %u en_sqd_async_notify %u sq_draining %u\n", a->pkey_index,
	       a->alt_pkey_index, a->en_sqd_async_notify, a->sq_draining);
	printf("    max_rd_atomic %u max_dest_rd_atomic %u min_rnr_timer %u port_num %u\n", a->max_rd_atomic,
	       a->max_dest_rd_atomic, a->min_rnr_timer, a->port_num);
	printf("    timeout %u retry_cnt %u rnr_retry %u alt_port_num %u alt_timeout %u rate_limit %u\n", a->timeout,
	       a->retry_cnt, a->rnr_retry, a->alt_port_num, a->alt_timeout, a->rate_limit);
}

/* The queue pair that a query answered for, in relation to the one that was asked. */
static inline void print_init_attr(const struct ibv_qp_init_attr *a, const struct ibv_qp *qp)
{
	printf("    init: qp_context %s send_cq %s recv_cq %s srq %s qp_type %u sq_sig_all %d\n",
	       a->qp_context == qp->qp_context ? "same" : "other", a->send_cq == qp->send_cq ? "same" : "other",
	       a->recv_cq == qp->recv_cq ? "same" : "other", a->srq == qp->srq ? "same" : "other", a->qp_type,
	       a->sq_sig_all);
	print_cap(&a->cap);
}

/*
 * A completion, every field. Queue pair numbers are printed as "own" when they are the ones of qp, src_qp as
 * "peer" when it is the one of peer (which may be NULL).
 */
static inline void print_wc(const struct ibv_wc *wc, const struct ibv_qp *qp, const struct ibv_qp *peer)
{
	const char *src = wc->src_qp == 0 ? "0" : "other";
	/* Without the flag the field is an invalidated key or nothing. */
	char imm[16] = "0";

	if (wc->imm_data)
		strcpy(imm, "nonzero");
	if (peer && wc->src_qp == peer->qp_num)
		src = "peer";
	else if (qp && wc->src_qp == qp->qp_num)
		src = "own";
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		snprintf(imm, sizeof(imm), "0x%x", ntohl(wc->imm_data));
	printf("    wc: wr_id %" PRIu64 " status %u opcode %u vendor_err %u byte_len %u imm %s qp_num %s src_qp %s"
	       " flags 0x%x pkey_index %u slid %u sl %u path_bits %u\n",
	       wc->wr_id, wc->status, wc->opcode, wc->vendor_err, wc->byte_len, imm,
	       qp && wc->qp_num == qp->qp_num ? "own" : "other", src, wc->wc_flags, wc->pkey_index, wc->slid, wc->sl,
	       wc->dlid_path_bits);
}

/* A memory region: its struct against the arguments that made it. */
#define PRINT_MR(mr, pd_, addr_, length_)                                                                      \
	printf("    mr: context %d pd %d addr %d length %d lkey %s rkey %s same key %d\n",                      \
	       (mr)->context == (pd_)->context, (mr)->pd == (pd_), (mr)->addr == (void *)(addr_),              \
	       (mr)->length == (length_), (mr)->lkey ? "nonzero" : "0", (mr)->rkey ? "nonzero" : "0",          \
	       (mr)->lkey == (mr)->rkey)

#endif
