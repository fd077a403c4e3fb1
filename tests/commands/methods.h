/*
 * methods.h - the methods of the uverbs ioctl that libraries and providers use: which attributes come out of them, and
 * whether a legacy command does the same; and how a call of one is written down.
 */
#ifndef COMMANDS_METHODS_H
#define COMMANDS_METHODS_H

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include "record.h"

/* Which attributes of a method are outputs, and which methods have a legacy form. */
static const struct method {
	uint16_t object, method;
	bool legacy;
	uint16_t outputs[6]; /* attr_id + 1; + NUMBER for object numbers and files */
} methods[] = {
#define NUMBER 0x8000
#define OUT(id) ((id) + 1)
#define OUT_OBJ(id) (((id) + 1) | NUMBER)
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, true, {OUT(UVERBS_ATTR_QUERY_PORT_RESP)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, true,
	 {OUT(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS), OUT(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, false,
	 {OUT(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS), OUT(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT)}},
	{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, false,
	 {OUT_OBJ(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)}},
	{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, true, {0}},
	{UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, true, {0}},
	{UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, true, {0}},
	{UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, true, {0}},
	{UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, true, {0}},
	{UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, true, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, true, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, false, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, false,
	 {OUT(UVERBS_ATTR_QUERY_MR_RESP_LKEY), OUT(UVERBS_ATTR_QUERY_MR_RESP_RKEY), OUT(UVERBS_ATTR_QUERY_MR_RESP_LENGTH)}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, false,
	 {OUT_OBJ(UVERBS_ATTR_REG_DMABUF_MR_HANDLE), OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY),
	  OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, false,
	 {OUT_OBJ(UVERBS_ATTR_REG_DM_MR_HANDLE), OUT(UVERBS_ATTR_REG_DM_MR_RESP_LKEY), OUT(UVERBS_ATTR_REG_DM_MR_RESP_RKEY)}},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, false, {OUT_OBJ(UVERBS_ATTR_ALLOC_DM_HANDLE)}},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, false, {0}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, false, {OUT_OBJ(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, false, {0}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, false, {OUT(UVERBS_ATTR_READ_COUNTERS_BUFF)}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE, false,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE)}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY, false, {0}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, false, {0}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_CQ_HANDLE), OUT(UVERBS_ATTR_CREATE_CQ_RESP_CQE)}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_CQ_RESP)}},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_SRQ_HANDLE), OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR),
	  OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE), OUT(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM)}},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_SRQ_RESP)}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_QP_HANDLE), OUT(UVERBS_ATTR_CREATE_QP_RESP_CAP), OUT(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM)}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_QP_RESP)}},
	{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_WQ_HANDLE), OUT(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR),
	  OUT(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE), OUT(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM)}},
	{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_WQ_RESP)}},
};

/* The entry of an attribute in the list of outputs; 0 for an input. Drivers' attributes are not in the list. */
static uint16_t core_output(const struct method *method, uint16_t attr_id)
{
	if (attr_id == UVERBS_ATTR_UHW_OUT)
		return OUT(attr_id);
	for (unsigned i = 0; i < 6; i++)
		if ((method->outputs[i] & ~NUMBER) == attr_id + 1)
			return method->outputs[i];
	return 0;
}

/* The bytes of an input: up to 8 are in the attribute itself. */
static const void *input_bytes(const struct ib_uverbs_attr *attr)
{
	return attr->len > 8 ? (const void *)(uintptr_t)attr->data : &attr->data;
}

static void print_header(const struct ib_uverbs_ioctl_hdr *hdr)
{
	fprintf(RECORD, "  ioctl object %u method %u driver %u length %u reserved %llu %u\n", hdr->object_id, hdr->method_id,
		hdr->driver_id, hdr->length, (unsigned long long)hdr->reserved1, hdr->reserved2);
}

/* One attribute; `output` is its entry in the list of outputs, or 0. */
static void print_attr(const struct ib_uverbs_attr *attr, uint16_t output)
{
	fprintf(RECORD, "    attr %#x len %u flags %u elem %u %s", attr->attr_id, attr->len, attr->flags,
		attr->attr_data.enum_data.elem_id, output ? "out" : "in");
	if (attr->attr_data.enum_data.reserved)
		fprintf(RECORD, " reserved %u", attr->attr_data.enum_data.reserved);
	if (!output || output & NUMBER)
		dump(input_bytes(attr), attr->len > 8 ? attr->len : 8);
	fputc('\n', RECORD);
}

#endif
