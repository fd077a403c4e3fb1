/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The verbs that are functions of this header, not of the library: data path calls go straight to
 * the provider through the tables of struct ibv_context and struct verbs_context.
 */

#ifndef INFINIBAND_VERBS_INLINE_H
#define INFINIBAND_VERBS_INLINE_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The verbs_context around a context, NULL where the library made none. */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
	if (ctx->abi_compat != __VERBS_ABI_IS_EXTENDED)
		return NULL;
	return (struct verbs_context *)((char *)ctx - offsetof(struct verbs_context, context));
}

/*
 * The verbs_context, if it offers the operation `op`: its size, counted back from its end, must
 * reach the member, and the member must be set. Else NULL.
 */
#define verbs_get_ctx_op(ctx, op) \
	__extension__({ \
		struct verbs_context *__vctx = verbs_get_ctx(ctx); \
		if (__vctx && \
		    (__vctx->sz < sizeof(*__vctx) - offsetof(struct verbs_context, op) || \
		     !__vctx->op)) \
			__vctx = NULL; \
		__vctx; \
	})

/* Ends a function with what `op` returns, or with EOPNOTSUPP. */
#define __VERBS_RETURN_INT(ctx, op, ...) \
	do { \
		struct verbs_context *vctx = verbs_get_ctx_op(ctx, op); \
		return vctx ? vctx->op(__VA_ARGS__) : EOPNOTSUPP; \
	} while (0)

/* Ends a function with the object that `op` returns, or with NULL and EOPNOTSUPP in errno. */
#define __VERBS_RETURN_PTR(ctx, op, ...) \
	do { \
		struct verbs_context *vctx = verbs_get_ctx_op(ctx, op); \
		if (vctx) \
			return vctx->op(__VA_ARGS__); \
		errno = EOPNOTSUPP; \
		return NULL; \
	} while (0)

/* -- Devices and ports -- */

/* Port properties. 0 or an errno value; fields that the library does not know are 0. */
static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
		struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	if (vctx)
		return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));
	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)port_attr);
}

#define ibv_query_port(context, port_num, port_attr) \
	___ibv_query_port(context, port_num, port_attr)

/* Extended device properties; the basic ones alone where the device has no more. 0 or an errno value. */
static inline int ibv_query_device_ex(struct ibv_context *context,
		const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx;

	if (input && input->comp_mask)
		return EINVAL;
	vctx = verbs_get_ctx_op(context, query_device_ex);
	if (vctx) {
		int ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));

		if (ret != EOPNOTSUPP && ret != ENOSYS)
			return ret;
	}
	memset(attr, 0, sizeof(*attr));
	return ibv_query_device(context, &attr->orig_attr);
}

/* One entry of a GID table. 0 or an errno value; ENODATA for an empty entry. flags must be 0. */
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
		uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/* The valid entries of all GID tables; their number, or a negative errno value. flags must be 0. */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
		struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/* Clock values that values->comp_mask asks for. 0 or an errno value. */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
{
	__VERBS_RETURN_INT(context, query_rt_values, context, values);
}

/* Whether a mask of `1 << ibv_qp_type` has a type. */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return !!(caps & (1 << qpt));
}

/* -- Protection, thread and connection domains -- */

/* New thread domain. NULL and errno on failure. */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
		struct ibv_td_init_attr *init_attr)
{
	__VERBS_RETURN_PTR(context, alloc_td, context, init_attr);
}

/* Frees a thread domain. 0 or an errno value. */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
	__VERBS_RETURN_INT(td->context, dealloc_td, td);
}

/* New parent domain; ibv_dealloc_pd frees it. NULL and errno on failure. */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
		struct ibv_parent_domain_init_attr *attr)
{
	__VERBS_RETURN_PTR(context, alloc_parent_domain, context, attr);
}

/* Opens an extended connection domain. NULL and errno on failure. */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
		struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	__VERBS_RETURN_PTR(context, open_xrcd, context, xrcd_init_attr);
}

/* Closes an extended connection domain. 0 or an errno value. */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

/* -- Memory -- */

/*
 * Registration goes to the older entry point unless the rights, known when the program is compiled,
 * show that an optional one is asked for: so a program needs a newer library only if it uses more.
 */
__attribute__((__always_inline__)) static inline struct ibv_mr *__ibv_reg_mr(struct ibv_pd *pd,
		void *addr, size_t length, unsigned int access, int is_access_const)
{
	if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
	return ibv_reg_mr(pd, addr, length, (int)access);
}

#define ibv_reg_mr(pd, addr, length, access) \
	__ibv_reg_mr(pd, addr, length, access, \
		     __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/* The same with a starting address of the program's choice. */
__attribute__((__always_inline__)) static inline struct ibv_mr *__ibv_reg_mr_iova(struct ibv_pd *pd,
		void *addr, size_t length, uint64_t iova, unsigned int access, int is_access_const)
{
	if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova2(pd, addr, length, iova, access);
	return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
}

#define ibv_reg_mr_iova(pd, addr, length, iova, access) \
	__ibv_reg_mr_iova(pd, addr, length, iova, access, \
			  __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/* Region that swallows writes and reads as zero. NULL and errno on failure. */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
	__VERBS_RETURN_PTR(pd->context, alloc_null_mr, pd);
}

/* Advice about ranges of registered memory. 0 or an errno value. */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		struct ibv_sge *sg_list, uint32_t num_sge)
{
	__VERBS_RETURN_INT(pd->context, advise_mr, pd, advice, flags, sg_list, num_sge);
}

/* Allocates memory on the device. NULL and errno on failure. */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
		struct ibv_alloc_dm_attr *attr)
{
	__VERBS_RETURN_PTR(context, alloc_dm, context, attr);
}

/* Frees device memory. 0 or an errno value. */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	__VERBS_RETURN_INT(dm->context, free_dm, dm);
}

/* Copies from host to device memory. 0 or an errno value. */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
		size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/* Copies from device to host memory. 0 or an errno value. */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
		size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/* Registers a part of device memory. NULL and errno on failure. */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
		size_t length, unsigned int access)
{
	__VERBS_RETURN_PTR(pd->context, reg_dm_mr, pd, dm, dm_offset, length, access);
}

/* What completion counters of the device can do. 0 or an errno value. */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/* New memory window. NULL and errno on failure. */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (pd->context->ops.alloc_mw)
		return pd->context->ops.alloc_mw(pd, type);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Frees a memory window. 0 or an errno value. */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/* The key with its low 8 bits, which the program owns, counted up by one. */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & ~(uint32_t)0xff) | ((rkey + 1) & 0xff);
}

/* Posts the binding of a window of type 1. 0 or an errno value. */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	const struct ibv_mw_bind_info *info = &mw_bind->bind_info;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (info->mr) {
		if (info->mr->pd != mw->pd)
			return EPERM;
	} else if (info->addr || info->length) {
		return EINVAL;
	}
	return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

/* -- Completion queues -- */

/* New extended completion queue. NULL and errno on failure. */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
		struct ibv_cq_init_attr_ex *cq_attr)
{
	__VERBS_RETURN_PTR(context, create_cq_ex, context, cq_attr);
}

/* The completion queue that an extended one begins with. */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/* Changes moderation. 0 or an errno value. */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	__VERBS_RETURN_INT(cq->context, modify_cq, cq, attr);
}

/* Takes up to num_entries completions; their number, or a negative value on failure. */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/* Asks for an event at the next, or the next solicited, completion. 0 or an errno value. */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/* Takes the first completion of a batch. 0, ENOENT where there is none, or an errno value. */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/* Takes the next completion of a batch. 0, ENOENT where there is none, or an errno value. */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/* Ends a batch that ibv_start_poll began with success. */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/* Operation of the current completion. */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
	return cq->read_opcode(cq);
}

/* Vendor's error code of the current completion. */
static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

/* Bytes that the current completion transferred. */
static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

/* Immediate data of the current completion. */
static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/* Key that the peer of the current completion invalidated. */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/* Local queue pair number of the current completion. */
static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

/* Sender's queue pair number of the current completion. */
static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

/* Flags of the current completion. */
static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

/* Sender's local identifier of the current completion. */
static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

/* Service level of the current completion. */
static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

/* Destination path bits of the current completion. */
static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/* Timestamp of the current completion in device clock ticks. */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/* Timestamp of the current completion in nanoseconds of the real-time clock. */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

/* Customer VLAN tag of the current completion. */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

/* Flow tag of the current completion. */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

/* Tag matching information of the current completion. */
static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
	cq->read_tm_info(cq, tm_info);
}

/* -- Shared receive queues -- */

/* New shared receive queue; the plain verb serves the plain kind. NULL and errno on failure. */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
		struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	const uint32_t plain = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	const uint32_t mask = srq_init_attr_ex->comp_mask;

	if ((mask == plain && srq_init_attr_ex->srq_type == IBV_SRQT_BASIC) ||
	    mask == IBV_SRQ_INIT_ATTR_PD)
		return ibv_create_srq(srq_init_attr_ex->pd,
				      (struct ibv_srq_init_attr *)srq_init_attr_ex);
	__VERBS_RETURN_PTR(context, create_srq_ex, context, srq_init_attr_ex);
}

/* Number by which peers address an XRC queue. 0 or an errno value. */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	__VERBS_RETURN_INT(srq->context, get_srq_num, srq, srq_num);
}

/* Posts receives to a shared queue. 0 or an errno value, with the failing one in *bad_recv_wr. */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
		struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/* Posts tag matching operations. 0 or an errno value, with the failing one in *bad_op. */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
		struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (vctx)
		return vctx->post_srq_ops(srq, op, bad_op);
	*bad_op = op;
	return EOPNOTSUPP;
}

/* -- Queue pairs -- */

/* New queue pair; the plain verb serves the plain kind. NULL and errno on failure. */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
		struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd,
				     (struct ibv_qp_init_attr *)qp_init_attr_ex);
	__VERBS_RETURN_PTR(context, create_qp_ex, context, qp_init_attr_ex);
}

/* Opens a queue pair that another process shares. NULL and errno on failure. */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
		struct ibv_qp_open_attr *qp_open_attr)
{
	__VERBS_RETURN_PTR(context, open_qp, context, qp_open_attr);
}

/* Limits the rate of a queue pair. 0 or an errno value. */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	__VERBS_RETURN_INT(qp->context, modify_qp_rate_limit, qp, attr);
}

/* Posts sends. 0 or an errno value, with the failing one in *bad_wr. */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/* Posts receives. 0 or an errno value, with the failing one in *bad_wr. */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* UDP source port that RoCE v2 derives from a flow label: its upper 6 bits folded into its lower 14. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	const uint32_t folded = (fl & 0x3fff) ^ ((fl >> 14) & 0x3f);

	return (uint16_t)(folded | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

/* -- Send requests by function calls: between ibv_wr_start and ibv_wr_complete or ibv_wr_abort -- */

/* Compare and swap. */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
		uint64_t compare, uint64_t swap)
{
	qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

/* Fetch and add. */
static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
		uint64_t remote_addr, uint64_t add)
{
	qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/* Atomic write of the 8 bytes at atomic_wr. */
static inline void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
		const void *atomic_wr)
{
	qp->wr_atomic_write(qp, rkey, remote_addr, atomic_wr);
}

/* Flush of len bytes; type has bits of ibv_placement_type, level is a value of ibv_selectivity_level. */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		uint8_t type, uint8_t level)
{
	qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

/* Memory window bind. */
static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		const struct ibv_mw_bind_info *bind_info)
{
	qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/* Local invalidate. */
static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_local_inv(qp, invalidate_rkey);
}

/* RDMA read. */
static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_read(qp, rkey, remote_addr);
}

/* RDMA write. */
static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, rkey, remote_addr);
}

/* RDMA write with immediate data. */
static inline void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
		__be32 imm_data)
{
	qp->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

/* Send. */
static inline void ibv_wr_send(struct ibv_qp_ex *qp)
{
	qp->wr_send(qp);
}

/* Send with immediate data. */
static inline void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	qp->wr_send_imm(qp, imm_data);
}

/* Send with invalidate. */
static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_send_inv(qp, invalidate_rkey);
}

/* Segmented send. */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/* Destination of the last request. */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
		uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/* Peer's shared receive queue for the last request. */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/* Data of the last request, copied now. */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

/* Data of the last request in several pieces, copied now. */
static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
		const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/* Buffer of the last request. */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
		uint32_t length)
{
	qp->wr_set_sge(qp, lkey, addr, length);
}

/* Buffers of the last request. */
static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge,
		const struct ibv_sge *sg_list)
{
	qp->wr_set_sge_list(qp, num_sge, sg_list);
}

/* Begins a batch. */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/* Posts the batch. 0 or an errno value; on failure nothing was posted. */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/* Drops the batch. */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/* -- Work queues -- */

/* New work queue; the sizes made are written back. NULL and errno on failure. */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
		struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	wq = vctx->create_wq(context, wq_init_attr);
	if (!wq)
		return NULL;
	/* The provider leaves these to its caller. */
	wq->wq_context = wq_init_attr->wq_context;
	wq->events_completed = 0;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	return wq;
}

/* Changes a work queue. 0 or an errno value. */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	__VERBS_RETURN_INT(wq->context, modify_wq, wq, wq_attr);
}

/* Frees a work queue. 0 or an errno value. */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
	__VERBS_RETURN_INT(wq->context, destroy_wq, wq);
}

/* Posts receives to a work queue. 0 or an errno value, with the failing one in *bad_recv_wr. */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
		struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/* New indirection table. NULL and errno on failure. */
static inline struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(struct ibv_context *context,
		struct ibv_rwq_ind_table_init_attr *init_attr)
{
	__VERBS_RETURN_PTR(context, create_rwq_ind_table, context, init_attr);
}

/* Frees an indirection table. 0 or an errno value. */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	__VERBS_RETURN_INT(rwq_ind_table->context, destroy_rwq_ind_table, rwq_ind_table);
}

/* -- Flow steering and counters -- */

/* Installs a rule. NULL and errno on failure. */
static inline struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
{
	__VERBS_RETURN_PTR(qp->context, ibv_create_flow, qp, flow);
}

/* Removes a rule. 0 or an errno value. */
static inline int ibv_destroy_flow(struct ibv_flow *flow_id)
{
	__VERBS_RETURN_INT(flow_id->context, ibv_destroy_flow, flow_id);
}

/* New ESP action. NULL and errno on failure. */
static inline struct ibv_flow_action *ibv_create_flow_action_esp(struct ibv_context *ctx,
		struct ibv_flow_action_esp_attr *esp)
{
	__VERBS_RETURN_PTR(ctx, create_flow_action_esp, ctx, esp);
}

/* Changes an ESP action. 0 or an errno value. */
static inline int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
		struct ibv_flow_action_esp_attr *esp)
{
	__VERBS_RETURN_INT(action->context, modify_flow_action_esp, action, esp);
}

/* Frees a flow action. 0 or an errno value. */
static inline int ibv_destroy_flow_action(struct ibv_flow_action *action)
{
	__VERBS_RETURN_INT(action->context, destroy_flow_action, action);
}

/* New counters. NULL and errno on failure. */
static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
		struct ibv_counters_init_attr *init_attr)
{
	__VERBS_RETURN_PTR(context, create_counters, context, init_attr);
}

/* Frees counters. 0 or an errno value. */
static inline int ibv_destroy_counters(struct ibv_counters *counters)
{
	__VERBS_RETURN_INT(counters->context, destroy_counters, counters);
}

/* Attaches a counter to a rule. 0 or an errno value. */
static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
		struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	__VERBS_RETURN_INT(counters->context, attach_counters_point_flow, counters, attr, flow);
}

/* Reads counters. 0 or an errno value. */
static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
		uint32_t ncounters, uint32_t flags)
{
	__VERBS_RETURN_INT(counters->context, read_counters, counters, counters_value, ncounters, flags);
}

#undef __VERBS_RETURN_INT
#undef __VERBS_RETURN_PTR

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_INLINE_H */
