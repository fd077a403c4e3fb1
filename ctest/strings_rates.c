/*
 * strings_rates.c - names of values, and conversions of rates. No device is needed.
 */
#include "setup.h"

int main(void)
{
	begin();
	for (int i = -2; i < 40; i++) {
		note("%d", i);
		CALL_STRING(ibv_wc_status_str(i));
		if (i == 20) /* came with rdma-core 65: a line of its own, which chosen-differences.txt names */
			CALL_STRING(ibv_event_type_str(20));
		else
			CALL_STRING(ibv_event_type_str(i));
		CALL_STRING(ibv_node_type_str(i));
		CALL_STRING(ibv_port_state_str(i));
		CALL_COUNT(ibv_rate_to_mult(i));
		CALL_COUNT(ibv_rate_to_mbps(i));
	}
	for (int i = -2; i < 500; i++) {
		int rate = mult_to_ibv_rate(i);

		if (rate)
			note("mult_to_ibv_rate(%d) = %d", i, rate);
	}
	for (int i = -2500; i < 1300000; i++) {
		int rate = mbps_to_ibv_rate(i);

		if (rate)
			note("mbps_to_ibv_rate(%d) = %d", i, rate);
	}
	CALL_STRING(ibv_wc_status_str(INT32_MAX));
	CALL_STRING(ibv_wc_status_str(INT32_MIN));
	CALL_STRING(ibv_event_type_str(INT32_MAX));
	CALL_STRING(ibv_node_type_str(INT32_MIN));
	CALL_STRING(ibv_port_state_str(INT32_MAX));
	CALL_COUNT(ibv_rate_to_mbps(INT32_MAX));
	CALL_INT(ibv_is_qpt_supported(1 << IBV_QPT_RC, IBV_QPT_RC));
	CALL_INT(ibv_is_qpt_supported(1 << IBV_QPT_RC, IBV_QPT_UD));
	for (uint32_t label = 0; label < 0x100000; label += 0x1357)
		note("udp source port of 0x%x: %u", label, ibv_flow_label_to_udp_sport(label));
	return end();
}
