/*
 * ah.c - address handles.
 *
 * Proves: what is accepted and refused at creation; attributes from a received datagram's header (IPv4 in the
 * right place, both header versions, multicast, broken headers); creation from a completion; and resolving a GID
 * to an Ethernet address.
 */
#include <netinet/ip.h>

#include "setup.h"

static struct ibv_context *c;
static struct ibv_pd *pd;
static union ibv_gid own, peer;

static struct ibv_ah_attr to_peer(void)
{
	return (struct ibv_ah_attr){.grh = {.dgid = peer, .sgid_index = GID_INDEX, .hop_limit = 64},
				    .is_global = 1,
				    .port_num = PORT};
}

static void create(const char *what, struct ibv_ah_attr attr)
{
	struct ibv_ah *ah;

	note("%s", what);
	ah = CALL_PTR(ibv_create_ah(pd, &attr));
	if (ah) {
		CHECK(ah->context == c && ah->pd == pd);
		CALL_INT(ibv_destroy_ah(ah));
	}
}

static void creation(void)
{
	struct ibv_ah_attr attr = to_peer();

	create("peer", attr);
	attr.grh.dgid = own;
	create("itself", attr);
	attr = to_peer(), attr.is_global = 0;
	create("no global route", attr);
	attr = to_peer(), attr.port_num = 0;
	create("port 0", attr);
	attr = to_peer(), attr.port_num = 2;
	create("port 2", attr);
	attr = to_peer(), attr.grh.sgid_index = 0;
	create("IPv6 source for an IPv4 address", attr);
	attr = to_peer(), attr.grh.sgid_index = 5;
	create("empty source entry", attr);
	attr = to_peer(), attr.grh.sgid_index = 255;
	create("source entry 255", attr);
	attr = to_peer(), attr.grh.dgid.raw[12] = 192, attr.grh.dgid.raw[13] = 168;
	create("address without a route", attr);
	attr = to_peer(), attr.grh.dgid.raw[15] = 200;
	create("address that nobody has", attr);
	attr = to_peer(), memset(&attr.grh.dgid, 0, 16);
	create("no address", attr);
	attr = to_peer(), attr.sl = 7, attr.static_rate = 3, attr.dlid = 9, attr.src_path_bits = 1;
	create("other fields", attr);
	attr = to_peer(), attr.grh.flow_label = 0xfffff, attr.grh.traffic_class = 0xff, attr.grh.hop_limit = 255;
	create("largest route values", attr);
	attr = to_peer(), attr.grh.flow_label = 0xffffffff;
	create("flow label too large", attr);
	attr = to_peer();
	memset(attr.grh.dgid.raw, 0, 16);
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff, attr.grh.dgid.raw[12] = 239, attr.grh.dgid.raw[15] = 9;
	create("IPv4 multicast", attr);
}

static void init(const char *what, struct ibv_wc *wc, struct ibv_grh *grh, unsigned port)
{
	struct ibv_ah_attr attr;

	FILL(attr);
	note("%s", what);
	CALL_INT(ibv_init_ah_from_wc(c, port, wc, grh, &attr));
	print_ah_attr("ah_attr", &attr);
}

static uint16_t ip_checksum(const struct iphdr *ip)
{
	const uint16_t *p = (const uint16_t *)ip;
	uint32_t sum = 0;

	for (int i = 0; i < 10; i++)
		sum += p[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

/* The 40 bytes in front of a datagram that came over IPv4: 20 unknown ones, then the IP header. */
static struct ibv_grh from_ipv4(unsigned char fill)
{
	struct ibv_grh grh;
	struct iphdr ip = {.version = 4, .ihl = 5, .tos = 0x12, .ttl = 63, .protocol = 17};

	memset(&grh, fill, sizeof(grh));
	memcpy(&ip.saddr, peer.raw + 12, 4);
	memcpy(&ip.daddr, own.raw + 12, 4);
	ip.check = ip_checksum(&ip);
	memcpy((char *)&grh + 20, &ip, sizeof(ip));
	return grh;
}

static struct iphdr *ip_of(struct ibv_grh *grh)
{
	return (struct iphdr *)((char *)grh + 20);
}

static struct ibv_grh from_ipv6(const union ibv_gid *dgid, int next_header)
{
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28 | 0x5a << 20 | 0x12345),
			      .paylen = htobe16(100),
			      .next_hdr = next_header,
			      .hop_limit = 62,
			      .sgid = peer,
			      .dgid = *dgid};

	return grh;
}

static void from_headers(void)
{
	struct ibv_wc wc = {.slid = 77, .sl = 3, .dlid_path_bits = 2, .wc_flags = 0};
	struct ibv_grh grh = from_ipv4(0);
	union ibv_gid link_local;

	init("no header flag", &wc, &grh, PORT);
	wc.wc_flags = IBV_WC_GRH;
	init("IPv4", &wc, &grh, PORT);
	init("IPv4, port 2", &wc, &grh, 2);
	init("IPv4, port 0", &wc, &grh, 0);
	grh = from_ipv4(0xff);
	init("IPv4 after bytes of ones", &wc, &grh, PORT);
	grh = from_ipv4(0x66);
	init("IPv4 after bytes that look like version 6", &wc, &grh, PORT);
	ip_of(&grh)->check ^= 1;
	init("the same with a wrong checksum", &wc, &grh, PORT);
	grh = from_ipv4(0);
	ip_of(&grh)->check ^= 1;
	init("IPv4 with a wrong checksum", &wc, &grh, PORT);
	ip_of(&grh)->version = 3;
	init("no version", &wc, &grh, PORT);
	grh = from_ipv4(0);
	memcpy(&ip_of(&grh)->daddr, "\xe0\x00\x00\x09", 4);
	init("to an IPv4 multicast address", &wc, &grh, PORT);
	memcpy(&ip_of(&grh)->daddr, "\x0a\x4d\x00\x09", 4);
	init("to an IPv4 address that is not ours", &wc, &grh, PORT);

	ibv_query_gid(c, PORT, 0, &link_local);
	grh = from_ipv6(&link_local, 17);
	init("IPv6 over UDP", &wc, &grh, PORT);
	grh = from_ipv6(&link_local, 0x1b);
	init("IPv6, RoCE v1", &wc, &grh, PORT);
	grh = from_ipv6(&link_local, 6);
	init("IPv6 over something else", &wc, &grh, PORT);
	grh = from_ipv6(&own, 17);
	init("IPv6 with a mapped address", &wc, &grh, PORT);
	grh = from_ipv6(&link_local, 17);
	grh.dgid.raw[0] = 0xff;
	init("IPv6 multicast", &wc, &grh, PORT);
	grh = from_ipv6(&link_local, 17);
	grh.dgid.raw[15] ^= 0x55;
	init("IPv6 address that is not ours", &wc, &grh, PORT);
}

static void from_completion(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = from_ipv4(0);
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah_from_wc(pd, &wc, &grh, PORT));

	if (ah) {
		CHECK(ah->pd == pd && ah->context == c);
		CALL_INT(ibv_destroy_ah(ah));
	}
	CALL_PTR(ibv_create_ah_from_wc(pd, &wc, &grh, 2));
	wc.wc_flags = 0;
	CALL_PTR(ibv_create_ah_from_wc(pd, &wc, &grh, PORT));
	wc.wc_flags = IBV_WC_GRH;
	memcpy(&ip_of(&grh)->daddr, "\xe0\x00\x00\x09", 4);
	ip_of(&grh)->check = 0;
	ip_of(&grh)->check = ip_checksum(ip_of(&grh));
	CALL_PTR(ibv_create_ah_from_wc(pd, &wc, &grh, PORT));
}

static void resolve(const char *what, struct ibv_ah_attr attr, bool with_vlan)
{
	uint8_t mac[ETHERNET_LL_SIZE];
	uint16_t vlan = 0x5a5a;

	FILL(mac);
	note("%s", what);
	if (with_vlan)
		CALL_INT(ibv_resolve_eth_l2_from_gid(c, &attr, mac, &vlan));
	else
		CALL_INT(ibv_resolve_eth_l2_from_gid(c, &attr, mac, NULL));
	note("    mac %02x:%02x:%02x:%02x:%02x:%02x vlan 0x%x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], vlan);
}

static void resolution(void)
{
	struct ibv_ah_attr attr = to_peer();

	resolve("peer", attr, true);
	resolve("peer, no place for the vlan", attr, false);
	attr.grh.dgid = own;
	resolve("itself", attr, true);
	attr = to_peer(), attr.port_num = 2;
	resolve("port 2", attr, true);
	attr = to_peer(), attr.grh.sgid_index = 0;
	resolve("IPv6 source, IPv4 destination", attr, true);
	attr = to_peer(), attr.grh.sgid_index = 9;
	resolve("empty source entry", attr, true);
	attr = to_peer();
	memset(attr.grh.dgid.raw, 0, 10);
	memcpy(attr.grh.dgid.raw + 10, "\xff\xff\xe0\x00\x00\x09", 6);
	resolve("IPv4 multicast", attr, true);
}

int main(void)
{
	begin();
	struct ibv_context *other = open_device("rxe1");

	c = open_device("rxe0");
	pd = ibv_alloc_pd(c);
	ibv_query_gid(c, PORT, GID_INDEX, &own);
	ibv_query_gid(other, PORT, GID_INDEX, &peer);
	creation();
	from_headers();
	from_completion();
	resolution();
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(other));
	CALL_INT(ibv_close_device(c));
	return end();
}
