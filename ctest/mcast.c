/*
 * mcast.c - multicast: attaching and detaching, what is refused, and datagrams that reach every attached queue pair.
 */
#include <net/if.h>

#include "setup.h"

static union ibv_gid group(int last)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 1}};

	gid.raw[15] = last;
	return gid;
}

static struct endpoint ud = {.type = IBV_QPT_UD}, second = {.type = IBV_QPT_UD}, rc;

static void attach_and_detach(void)
{
	union ibv_gid gid = group(9), unicast = ud.gid, zero = {0};

	CALL_INT(ibv_attach_mcast(ud.qp, &gid, 0));
	CALL_INT(ibv_attach_mcast(ud.qp, &gid, 0)); /* twice */
	CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0xc001)); /* never attached */
	CALL_INT(ibv_destroy_qp(ud.qp));                 /* in a group, so in use */
	CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0));
	CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0)); /* no longer there */
	gid = group(10);
	CALL_INT(ibv_attach_mcast(ud.qp, &gid, 0xc001));
	CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0xc001));
	CALL_INT(ibv_attach_mcast(ud.qp, &unicast, 0));
	CALL_INT(ibv_detach_mcast(ud.qp, &unicast, 0));
	CALL_INT(ibv_attach_mcast(ud.qp, &zero, 0));
	CALL_INT(ibv_attach_mcast(rc.qp, &gid, 0)); /* connected queue pairs have no groups */
	CALL_INT(ibv_detach_mcast(rc.qp, &gid, 0));

	for (int i = 0; i < 20; i++) {
		gid = group(20 + i);
		CALL_INT(ibv_attach_mcast(ud.qp, &gid, 0));
	}
	for (int i = 0; i < 20; i++) {
		gid = group(20 + i);
		CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0));
	}
}

/* A datagram from rxe1 to the group reaches every attached queue pair on rxe0. */
static void traffic(struct endpoint *from)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 239, 1, 1, 77}}; /* as the kernel reads it off the datagram */
	struct ibv_ah_attr attr = {.grh = {.dgid = gid, .sgid_index = GID_INDEX, .hop_limit = 1},
				   .is_global = 1,
				   .port_num = PORT};
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah(from->pd, &attr));
	struct ibv_sge sge = {(uintptr_t)from->buffer, 256, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(0x12345678)},
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	pattern(from->buffer, 256, 5);
	/* The host's IP layer must be a member of the group, too: the datagrams come through it. */
	int ip = socket(AF_INET, SOCK_DGRAM, 0);
	struct ip_mreqn member = {.imr_ifindex = if_nametoindex("v0")};
	memcpy(&member.imr_multiaddr, gid.raw + 12, 4);
	if (setsockopt(ip, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof(member)))
		die("joining: %s", errno_name(errno));
	for (int round = 0; round < 3; round++) {
		note("attached: %d", round);
		CALL_INT(post_recv(&ud, 1, 0, 512));
		CALL_INT(post_recv(&second, 2, 0, 512));
		if (round == 1)
			CALL_INT(ibv_attach_mcast(ud.qp, &gid, 0));
		if (round == 2)
			CALL_INT(ibv_attach_mcast(second.qp, &gid, 0));
		wr.wr_id = 10 + round;
		CALL_INT(ibv_post_send(from->qp, &wr, &bad));
		expect_wc("sent", from->send_cq, from->qp, NULL);
		if (round >= 1 && expect_wc("received", ud.recv_cq, ud.qp, from->qp))
			check_data(ud.buffer + 40, from->buffer, 256);
		if (round >= 2 && expect_wc("received", second.recv_cq, second.qp, from->qp))
			check_data(second.buffer + 40, from->buffer, 256);
		expect_empty("first", ud.recv_cq);
		expect_empty("second", second.recv_cq);
		memset(ud.buffer, 0, 512);
		memset(second.buffer, 0, 512);
	}
	CALL_INT(ibv_detach_mcast(ud.qp, &gid, 0));
	CALL_INT(ibv_detach_mcast(second.qp, &gid, 0));
	CALL_INT(ibv_destroy_ah(ah));
	close(ip);
}

int main(void)
{
	begin();
	endpoint_open(&ud, "rxe0");
	endpoint_open(&second, "rxe0");
	endpoint_open(&rc, "rxe0");
	attach_and_detach();
	struct endpoint from = {.type = IBV_QPT_UD};

	endpoint_open(&from, "rxe1");
	ready(&from, &from.gid, 0);
	ready(&ud, &ud.gid, 0);
	ready(&second, &second.gid, 0);
	traffic(&from);
	endpoint_close(&from);
	endpoint_close(&rc);
	endpoint_close(&second);
	endpoint_close(&ud);
	return end();
}
