/*
 * raw_answers.c - every byte of the answers to queries, and of events, in every state of an identifier.
 *
 * Words that differ from run to run are printed as zero or not.
 */
#include "raw_reach.h"

static char text[8][64];

static const char *address(const void *a)
{
	static unsigned int next;
	const struct sockaddr_in *four = a;
	const struct sockaddr_in6 *six = a;
	char *out = text[next++ % 8], plain[64] = "";
	int port = ntohs(four->sin_port);

	if (four->sin_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, plain, sizeof(plain));
	else if (four->sin_family == AF_INET6)
		inet_ntop(AF_INET6, &six->sin6_addr, plain, sizeof(plain));
	if (port >= 32768)
		snprintf(out, sizeof(text[0]), "%d %.40s chosen", four->sin_family, plain);
	else
		snprintf(out, sizeof(text[0]), "%d %.40s %d", four->sin_family, plain, port);
	return out;
}

static const char *gid(const void *g)
{
	static unsigned int next;

	return inet_ntop(AF_INET6, g, text[next++ % 8], sizeof(text[0]));
}

/* What of an answer was written: bytes behind it still have the pattern. */
static void written(int size)
{
	int n = sizeof(raw_answer);

	while (n && raw_answer[n - 1] == 0xa5)
		n--;
	if (n > size)
		note("        %d bytes are written where %d have room", n, size);
}

static int ask(int fd, int command, uint32_t id, uint32_t option, int out)
{
	struct raw_command c;
	int result;

	raw_fill(&c, command, id);
	c.u.query.option = option;
	c.header.out = out;
	result = raw_write(fd, &c, 8 + sizeof(c.u.query));
	transcript_calls++;
	note("    %s option %u room %d: %s", raw_names[command], option, out, raw_result(result));
	written(out);
	return result;
}

static void sockaddr_ib(const char *what, const uint8_t *b, uint16_t size)
{
	uint64_t sid, mask, scope;

	memcpy(&sid, b + 24, 8);
	memcpy(&mask, b + 32, 8);
	memcpy(&scope, b + 40, 8);
	sid = be64toh(sid);
	note("        %s size %d family %d pkey 0x%x flow %d gid %s space 0x%llx port %s mask 0x%llx scope %llu", what, size,
	     *(const uint16_t *)b, ntohs(*(const uint16_t *)(b + 2)), !!*(const uint32_t *)(b + 4), gid(b + 8),
	     (unsigned long long)sid >> 16, (sid & 0xffff) >= 32768 ? "chosen" : sid & 0xffff ? "given" : "none",
	     (unsigned long long)be64toh(mask), (unsigned long long)scope);
}

static void path_record(const uint8_t *b)
{
	uint32_t flags;

	memcpy(&flags, b, 4);
	b += 8;
	note("        path: flags %u service 0 %d dgid %s sgid %s lids %d %d hop_limit %d flow %d", flags, !memcmp(b, "\0\0\0\0\0\0\0", 8),
	     gid(b + 8), gid(b + 24), b[40] << 8 | b[41], b[42] << 8 | b[43], b[47], !!(b[45] | b[46]));
	note("        tclass %d reversible %d numb %d pkey 0x%x qos %d sl %d mtu %d/%d rate %d/%d life %d/%d preference %d rest %d", b[48],
	     b[49] >> 7, b[49] & 127, b[50] << 8 | b[51], b[52] << 4 | b[53] >> 4, b[53] & 15, b[54] >> 6, b[54] & 63, b[55] >> 6,
	     b[55] & 63, b[56] >> 6, b[56] & 63, b[57], b[58] | b[59] | b[60] | b[61] | b[62] | b[63]);
}

static void queries(int fd, uint32_t id)
{
	static const int rooms[] = {271, 272, 276, 280, 400};
	const struct rdma_ucm_query_addr_resp *a = (void *)raw_answer;
	const struct rdma_ucm_query_route_resp *r = (void *)raw_answer;

	for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++)
		if (!ask(fd, RDMA_USER_CM_CMD_QUERY, id, 0, rooms[i]))
			note("        guid %d port %d pkey 0x%x sizes %d %d src %s dst %s index %d reserved %d %x", !!a->node_guid, a->port_num,
			     ntohs(a->pkey), a->src_size, a->dst_size, address(&a->src_addr), address(&a->dst_addr),
			     rooms[i] < 276 ? -1 : (int)a->ibdev_index >= 0, a->reserved, rooms[i] < 280 ? 0 : a->reserved1);
	if (!ask(fd, RDMA_USER_CM_CMD_QUERY, id, 2, 280)) {
		note("        guid %d port %d pkey 0x%x", !!a->node_guid, a->port_num, ntohs(a->pkey));
		sockaddr_ib("src", raw_answer + 16, a->src_size);
		sockaddr_ib("dst", raw_answer + 144, a->dst_size);
	}
	for (int paths = -1; paths < 3; paths++)
		if (!ask(fd, RDMA_USER_CM_CMD_QUERY, id, 1, paths < 0 ? 4 : 8 + 72 * paths)) {
			note("        paths %u", *(uint32_t *)raw_answer);
			if (paths == 2)
				for (uint32_t n = 0; n < *(uint32_t *)raw_answer && n < 2; n++)
					path_record(raw_answer + 8 + 72 * n);
		}
	ask(fd, RDMA_USER_CM_CMD_QUERY, id, 3, 600);
	ask(fd, RDMA_USER_CM_CMD_QUERY, id, 0xffffffff, 600);
	for (int out = 196; out <= 208; out += 4)
		if (!ask(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, id, 0, out)) {
			const struct ib_user_path_rec *p = &r->ib_route[0];

			note("        guid %d paths %u port %d src %s dst %s index %d", !!r->node_guid, r->num_paths, r->port_num,
			     address(&r->src_addr), address(&r->dst_addr), out < 204 ? -1 : (int)r->ibdev_index >= 0);
			note("        path: dgid %s sgid %s lids %d %d raw %u flow %d reversible %u mtu %u pkey 0x%x hop_limit %d tclass %d numb %d "
			     "sl %d selectors %d %d %d rate %d life %d preference %d", gid(p->dgid), gid(p->sgid), ntohs(p->dlid),
			     ntohs(p->slid), p->raw_traffic, !!p->flow_label, p->reversible, p->mtu, ntohs(p->pkey), p->hop_limit,
			     p->traffic_class, p->numb_path, p->sl, p->mtu_selector, p->rate_selector, p->packet_life_time_selector, p->rate,
			     p->packet_life_time, p->preference);
		}
	ask(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, id, 7, 208);
}

/* What an identifier that could not be bound shows, and whether it can be bound elsewhere then. */
static void refused(void)
{
	static const struct {
		const char *tried, *then;
	} cases[] = {{HERE, HERE}, {HERE, "10.77.0.2"}, {"10.77.0.9", HERE}, {"10.77.0.9", "10.77.0.2"}};
	const struct rdma_ucm_query_addr_resp *a = (void *)raw_answer;
	int fd = raw_open();

	raw_must("bind", raw_bind(fd, raw_create(fd, PS_TCP, 1), HERE, 7471), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t id = raw_create(fd, PS_TCP, 2);
		int ports[] = {7471, 7472};

		for (int n = 0; n < 2; n++) {
			const char *where = n ? cases[i].then : cases[i].tried;

			note("    BIND %s %d: %s", where, ports[n], raw_result(raw_bind(fd, id, where, ports[n])));
			raw_must("query", raw_do(fd, RDMA_USER_CM_CMD_QUERY, id), 0);
			note("        guid %d sizes %d %d src %s dst %s", !!a->node_guid, a->src_size, a->dst_size, address(&a->src_addr),
			     address(&a->dst_addr));
		}
		raw_must("destroy", raw_do(fd, RDMA_USER_CM_CMD_DESTROY_ID, id), 0);
	}
	close(fd);
}

/* An event, to its last byte: what is not named must be zero. */
static void event(const char *what, int fd, int out, bool connection)
{
	const struct rdma_ucm_event_resp *r = (void *)raw_answer;
	struct raw_command c;
	int result;

	if (!readable(fd, 100000)) {
		note("    %s: no event", what);
		return;
	}
	raw_fill(&c, RDMA_USER_CM_CMD_GET_EVENT, 0);
	c.header.out = out;
	result = raw_write(fd, &c, 8 + sizeof(c.u.event));
	transcript_calls++;
	note("    %s, room %d: %s", what, out, raw_result(result));
	if (result)
		return;
	written(out);
	note("        event %u status %d uid 0x%llx id %d", r->event, (int)r->status, (unsigned long long)r->uid,
	     r->id == listener ? 1 : r->id == client ? 2 : r->id == server ? 3 : 0);
	if (connection) {
		const struct rdma_ucm_conn_param *p = &r->param.conn;

		note("        conn: qp %d qkey 0x%x len %d srq %d responder %d initiator %d flow %d retry %d rnr %d valid %d first %02x", p->qp_num >> 23,
		     p->qkey, p->private_data_len, p->srq, p->responder_resources, p->initiator_depth, p->flow_control, p->retry_count,
		     p->rnr_retry_count, p->valid, p->private_data[0]);
	} else {
		const struct rdma_ucm_ud_param *p = &r->param.ud;

		note("        ud: qp %d qkey 0x%x len %d dgid %s port %d global %d hop_limit %d first %02x", p->qp_num >> 23, p->qkey,
		     p->private_data_len, gid(p->ah_attr.grh.dgid), p->ah_attr.port_num, p->ah_attr.is_global, p->ah_attr.grh.hop_limit,
		     p->private_data[0]);
	}
	if (out >= 336)
		note("        reserved %u ece 0x%x 0x%x", r->reserved, r->ece.vendor_id, r->ece.attr_mod);
	if (r->event == 4) /* a request has brought the identifier */
		server = r->id;
}

static void events(uint16_t space)
{
	bool connection = space == PS_TCP;
	struct raw_command c;

	note("events of space 0x%x", space);
	server_fd = raw_open();
	client_fd = raw_open();
	listener = raw_create(server_fd, space, 0x5e57);
	client = raw_create(client_fd, space, 0xc11e);
	server = 0xffff;
	raw_must("bind", raw_bind(server_fd, listener, HERE, 7471), 0);
	raw_must("listen", write_listen(listener), 0);
	note("    resolve: %s", raw_result(raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, client)));
	event("too little room", client_fd, 323, connection);
	event("resolved", client_fd, 324, connection);
	note("    route: %s", raw_result(raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, client)));
	event("route", client_fd, 328, connection);
	raw_fill(&c, RDMA_USER_CM_CMD_CONNECT, client);
	memset(c.u.connect.conn_param.private_data, 0x5a, 256);
	c.u.connect.conn_param.private_data_len = 20;
	c.u.connect.conn_param.responder_resources = 3;
	c.u.connect.conn_param.initiator_depth = 2;
	c.u.connect.conn_param.rnr_retry_count = 4;
	c.u.connect.conn_param.qkey = 0x4242;
	c.u.connect.ece.vendor_id = 0x123;
	c.u.connect.ece.attr_mod = 0x456;
	note("    connect: %s", raw_result(raw_write(client_fd, &c, 8 + sizeof(c.u.connect))));
	event("request", server_fd, 336, connection);
	raw_fill(&c, RDMA_USER_CM_CMD_ACCEPT, server);
	c.u.accept.conn_param.qkey = 0x4343;
	c.u.accept.ece.attr_mod = 0x789;
	note("    accept: %s", raw_result(raw_write(server_fd, &c, 8 + sizeof(c.u.accept))));
	event("response", client_fd, 400, connection);
	raw_fill(&c, RDMA_USER_CM_CMD_ACCEPT, client);
	c.u.accept.conn_param.valid = 0;
	note("    ready: %s", raw_result(raw_write(client_fd, &c, 8 + sizeof(c.u.accept))));
	if (connection)
		event("established", server_fd, 336, connection);
	note("    disconnect: %s", raw_result(raw_do(client_fd, RDMA_USER_CM_CMD_DISCONNECT, client)));
	if (connection)
		event("disconnected", server_fd, 336, connection);
	close(client_fd);
	close(server_fd);
}

/* What CONNECT, ACCEPT and REJECT make of each length and of their flags. */
static void parameters(uint16_t space)
{
	static const int lengths[] = {0, 56, 57, 92, 93, 136, 137, 148, 149, 180, 181, 196, 197, 216, 255};
	static const int reasons[] = {0, 1, 4, 8, 28, 35, 36, 255};
	struct raw_command c;
	uint32_t id;
	int fd;

	note("parameters in space 0x%x", space);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		static const enum state in[] = {ROUTED, REQUESTED, REQUESTED};
		static const int commands[] = {RDMA_USER_CM_CMD_CONNECT, RDMA_USER_CM_CMD_ACCEPT, RDMA_USER_CM_CMD_REJECT};

		for (int n = 0; n < 3; n++) {
			id = reach(in[n], space, &fd);
			raw_fill(&c, commands[n], id);
			if (n == 0)
				c.u.connect.conn_param.private_data_len = lengths[i];
			else if (n == 1)
				c.u.accept.conn_param.private_data_len = lengths[i];
			else
				c.u.reject.private_data_len = lengths[i];
			int result = raw_write(fd, &c, 8 + raw_bodies[commands[n]]);

			note("    %s with %d bytes: %s", raw_names[commands[n]], lengths[i], raw_result(result));
			if (n == 0 && !result)
				raw_event(fd); /* refused: it must not reach the next listener */
			close(client_fd);
			close(server_fd);
		}
	}
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		const struct rdma_ucm_event_resp *r = (void *)raw_answer;
		int result;

		id = reach(REQUESTED, space, &fd);
		raw_fill(&c, RDMA_USER_CM_CMD_REJECT, id);
		c.u.reject.reason = reasons[i];
		result = raw_write(fd, &c, 8 + sizeof(c.u.reject));
		note("    REJECT with reason %d: %s", reasons[i], raw_result(result));
		if (!result) {
			int number = raw_event(client_fd);

			note("        event %d status %d", number, (int)r->status);
		}
		close(client_fd);
		close(server_fd);
	}
	id = reach(ROUTED, space, &fd);
	raw_fill(&c, RDMA_USER_CM_CMD_CONNECT, id);
	c.u.connect.conn_param.valid = 0;
	note("    CONNECT without validity: %s", raw_result(raw_write(fd, &c, 8 + sizeof(c.u.connect))));
	close(client_fd);
	close(server_fd);
	id = reach(REQUESTED, space, &fd);
	raw_fill(&c, RDMA_USER_CM_CMD_ACCEPT, id);
	c.u.accept.conn_param.valid = 0;
	note("    ACCEPT without validity: %s", raw_result(raw_write(fd, &c, 8 + sizeof(c.u.accept))));
	close(client_fd);
	close(server_fd);
}

int main(void)
{
	begin();
	for (int state = 0; state < STATES; state++) {
		int fd;
		uint32_t id = reach(state, PS_TCP, &fd);

		note("%s", states[state]);
		queries(fd, id);
		close(client_fd);
		close(server_fd);
	}
	note("refused");
	refused();
	events(PS_TCP);
	events(PS_UDP);
	parameters(PS_TCP);
	parameters(PS_UDP);
	return end();
}
