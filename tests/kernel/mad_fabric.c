/*
 * mad_fabric.c - the nodes behind a port. The destination says how a node behaves: the upper byte of its LID,
 * or of its
 * GID's last two bytes where the request has a global route.
 *
 *   0x00  answers at once
 *   0x01  never answers, as nodes of any other number do
 *   0x02  answers with a global route
 *   0x03  answers with a status
 *   0x04  answers after 30 milliseconds
 *   0x05  answers the second try
 *   0x06  answers with another transaction id
 *
 * A table of the subnet administrator is as long as the request's attribute modifier says.
 */
#include "mads.h"

#include <arpa/inet.h>

bool mad_class_has_rmpp(uint8_t class)
{
	return class == CLASS_SA || class == 0x06 || class == 0x10 || class == 0x12 || (class >= 0x30 && class <= 0x4f);
}

unsigned mad_data_offset(uint8_t class)
{
	if (class == CLASS_SA)
		return 56;
	if (class >= 0x30 && class <= 0x4f)
		return 40;
	return mad_class_has_rmpp(class) ? 64 : MAD_HEADER;
}

/* The bytes that a node answers: those of the request with others in the place of its data. */
static size_t contents(const uint8_t *mad, size_t length, bool rmpp, unsigned node, uint8_t *out)
{
	uint8_t class = mad[AT_CLASS], method = mad[AT_METHOD];
	unsigned first = mad_data_offset(class), last = MAD_BYTES;

	if (class == CLASS_SMP || class == CLASS_ROUTED_SMP) {
		first = 64;
		last = 128;
	}
	memset(out, 0, MAD_BYTES);
	memcpy(out, mad, length < MAD_BYTES ? length : MAD_BYTES);
	out[AT_METHOD] = method == 0x02 ? 0x81 : method | 0x80;
	if (class == CLASS_ROUTED_SMP)
		out[AT_STATUS] |= 0x80;
	if (rmpp && (method == 0x12 || method == 0x14)) {
		size_t data = word_at(mad, AT_MODIFIER) & 0xffff;

		last = first + (data < MAD_ROOM - MAD_BYTES ? data : MAD_ROOM - MAD_BYTES);
		out[24] = out[AT_RMPP_TYPE] = 1;
		out[AT_RMPP_FLAGS] = RMPP_ACTIVE | 2 | (last <= MAD_BYTES ? 4 : 0);
		put_word(out, 28, 1);
		put_word(out, 32, last - RMPP_HEADER);
	}
	for (unsigned i = first; i < last; i++)
		out[i] = i * 7 + (i >> 8) + mad[AT_ATTRIBUTE + 1] + node;
	return last > MAD_BYTES || (rmpp && out[AT_RMPP_FLAGS] & RMPP_ACTIVE) ? last : MAD_BYTES;
}

size_t mad_answer(const struct mad_port *port, const struct ib_user_mad_hdr *to, const uint8_t *mad, size_t length,
		  bool rmpp, unsigned tries, struct mad_answer *answer)
{
	unsigned node = to->grh_present ? to->gid[14] << 8 | to->gid[15] : ntohs(to->lid);

	(void)port;
	if (mad[AT_CLASS] == CLASS_ROUTED_SMP)
		node = ntohs(to->lid) == 0xffff ? 0 : node;
	if (mad[AT_METHOD] & 0x80 || mad[AT_METHOD] == 7)
		return 0;
	memset(&answer->hdr, 0, sizeof answer->hdr);
	answer->delay = 0;
	answer->hdr.qpn = to->qpn;
	answer->hdr.lid = to->lid;
	answer->hdr.sl = to->sl;
	answer->hdr.pkey_index = to->pkey_index;
	length = contents(mad, length, rmpp, node, answer->mad);
	switch (node >> 8) {
	case 0:
		break;
	case 2:
		answer->hdr.grh_present = 1;
		answer->hdr.gid_index = 1;
		answer->hdr.hop_limit = 63;
		answer->hdr.traffic_class = 5;
		answer->hdr.flow_label = htonl(0x12345);
		for (unsigned i = 0; i < 16; i++)
			answer->hdr.gid[i] = 0xf0 + i;
		break;
	case 3: answer->mad[AT_STATUS + 1] = 0x1c; break;
	case 4: answer->delay = 30; break;
	case 5:
		if (!tries)
			return 0;
		break;
	case 6: answer->mad[AT_TID + 7] ^= 1; break;
	default: return 0;
	}
	return length;
}
