/*
 * setup.c - how the programs begin: a device by its name, and a queue pair that may send.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct ibv_context *open_named(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	MUST(devices);
	for (int i = 0; devices[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	ibv_free_device_list(devices);
	MUST(context);
	is_siw = context->device->transport_type == IBV_TRANSPORT_IWARP;
	return context;
}

void ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.port_num = 1, .path_mtu = IBV_MTU_1024, .ah_attr = {.is_global = 1, .port_num = 1}};

	attr.qp_state = IBV_QPS_INIT;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC));
}
