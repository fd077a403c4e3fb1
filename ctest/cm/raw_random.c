/*
 * raw_random.c FIRST COUNT - random sequences of commands, one for each seed from FIRST on.
 *
 * Three files, identifiers that bind, listen, resolve, connect, accept, refuse, join and go; commands in the wrong state,
 * for identifiers of other files and for none, from memory and to memory that is not there, too short and too long. One line
 * for each command: what was asked, and the answer; then the events.
 *
 * Everything comes before the next command is given (settle), so the transcript does not depend on time. Left out: what the
 * kernel takes a minute for (struct slot, pending), the end of the time-wait state, which comes when it comes, ways from one
 * interface to the other (interface), and routes from and to the host itself that soft-RoCE does not have (inward, loops).
 */
#include "raw_random.h"

#define STEPS 60
#define NOBODYS "10.77.0.8"

static const char *const here[] = {HERE, HERE, HERE, "0.0.0.0", OTHER, "127.0.0.1", "fd77::1", "::", NOBODYS};
static const char *const there[] = {HERE, HERE, HERE, HERE, OTHER, "fd77::1", "127.0.0.1", "::1", "0.0.0.0"};
static const int ports[] = {0, 7471, 7471, 7472, 7473, 80};

static void print_param(const struct rdma_ucm_event_resp *r, bool datagrams)
{
	if (datagrams) {
		const struct rdma_ucm_ud_param *p = &r->param.ud;

		if (r->event >= REQUEST_EVENT)
			printf(" ud qp of %d qkey 0x%x data %d %d", slot_of_qp(p->qp_num), p->qkey, p->private_data_len, p->private_data[0]);
		return;
	}
	const struct rdma_ucm_conn_param *p = &r->param.conn;

	if (r->event >= REQUEST_EVENT)
		printf(" qp of %d data %d %d resources %d %d flow %d retry %d %d srq %d", slot_of_qp(p->qp_num), p->private_data_len,
		       p->private_data[0], p->responder_resources, p->initiator_depth, p->flow_control, p->retry_count,
		       p->rnr_retry_count, p->srq);
}

/* What an event means for who goes on. */
static void learn(struct slot *s, unsigned int event)
{
	static const int phases[] = {RESOLVED, -1, ROUTED, -1, -1, RESPONDED, OVER, OVER, OVER, JOINED_UP, OVER, OVER, -1, -1, -1, -1};

	if (event < sizeof(phases) / sizeof(*phases) && phases[event] >= 0)
		s->phase = phases[event];
	if (event >= RESPONSE_EVENT && event <= DISCONNECTED_EVENT)
		s->pending = false;
}

/* Takes an event, if there is one; whether there was. */
static bool take(int file, int out)
{
	const struct rdma_ucm_event_resp *r = (void *)raw_answer;
	struct raw_command c;
	int result, at = -1;

	do {
		raw_fill(&c, RDMA_USER_CM_CMD_GET_EVENT, 0);
		c.header.out = out;
		result = raw_write(files[file], &c, 8 + sizeof(c.u.event));
		if (result)
			break;
		at = slot_of(r->id);
		if (r->event == TIMEWAIT_EVENT && at >= 0)
			slots[at].unseen++;
	} while (r->event == TIMEWAIT_EVENT);
	if (result == -EAGAIN)
		return false;
	if (result) {
		note("    f%d: %s", file, raw_result(result));
		return false;
	}
	if (r->event == REQUEST_EVENT) {
		int listener = (int)r->uid - 1;

		if (listener < 0 || listener >= used)
			die("a request for nobody");
		at = new_slot(r->id, file, slots[listener].datagrams, REQUESTED);
	}
	printf("    f%d: event %u status %d uid %d id %d", file, r->event, (int)r->status, (int)r->uid - 1, at);
	if (at >= 0) {
		print_param(r, slots[at].datagrams);
		learn(&slots[at], r->event);
	}
	putchar('\n');
	return true;
}

static void drain(void)
{
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < FILES; i++)
			while (take(i, sizeof(struct rdma_ucm_event_resp)))
				more = true;
	}
}

static struct rdma_ucm_conn_param parameters(struct slot *s, bool right)
{
	static const int lengths[] = {0, 1, 56, 57, 92, 136, 137, 148, 180, 181, 196, 197, 255};
	struct rdma_ucm_conn_param p = {.valid = 1, .retry_count = rnd(9), .rnr_retry_count = rnd(9), .flow_control = rnd(2), .srq = rnd(2)};

	if (s)
		s->qpn = raw_qp();
	p.qp_num = s ? s->qpn : raw_qp();
	p.qkey = rnd(3);
	p.private_data_len = right ? (uint8_t)rnd(57) : (uint8_t)PICK(lengths);
	memset(p.private_data, 1 + (int)rnd(200), p.private_data_len);
	p.responder_resources = rnd(20);
	p.initiator_depth = rnd(20);
	return p;
}

/* What is right for an identifier now, or -1. */
static int next_command(const struct slot *s)
{
	switch (s->phase) {
	case FRESH: return chance(50) ? RDMA_USER_CM_CMD_BIND : RDMA_USER_CM_CMD_RESOLVE_ADDR;
	case BOUND: return chance(60) ? RDMA_USER_CM_CMD_LISTEN : RDMA_USER_CM_CMD_RESOLVE_ADDR;
	case RESOLVED: return s->datagrams && chance(30) ? RDMA_USER_CM_CMD_JOIN_MCAST : RDMA_USER_CM_CMD_RESOLVE_ROUTE;
	case ROUTED: return RDMA_USER_CM_CMD_CONNECT;
	case REQUESTED: return chance(80) ? RDMA_USER_CM_CMD_ACCEPT : RDMA_USER_CM_CMD_REJECT;
	case RESPONDED: return RDMA_USER_CM_CMD_ACCEPT;
	case JOINED_UP: return chance(50) ? RDMA_USER_CM_CMD_DISCONNECT : RDMA_USER_CM_CMD_QUERY;
	case OVER: return chance(70) ? RDMA_USER_CM_CMD_DESTROY_ID : RDMA_USER_CM_CMD_DISCONNECT;
	default: return -1;
	}
}

static bool is_any(const void *address)
{
	const char *name = place_name(address);

	return !strncmp(name, "127.", 4) || !strncmp(name, "0.0.0.0:", 8) || !strncmp(name, "::", 2);
}

/* Where an address leads; NEITHER: to no interface. */
static int interface_of(const void *address)
{
	const char *name = place_name(address);

	return !strncmp(name, OTHER ":", sizeof(OTHER)) ? SECOND
	       : !strncmp(name, HERE ":", sizeof(HERE)) || !strncmp(name, "fd77::1:", 8) ? FIRST : NEITHER;
}

/* A destination that an identifier reaches at once. */
static const char *within_reach(const struct slot *s, const char *peer)
{
	bool any = !strcmp(peer, "0.0.0.0") || !strcmp(peer, "127.0.0.1") || !strcmp(peer, "::1");

	if (!s || any || s->interface == NEITHER)
		return peer;
	return s->interface == SECOND ? OTHER : !strcmp(peer, OTHER) ? HERE : peer;
}

/* An address to bind to: what was tried once leaves an interface that the kernel does not leave again. */
static const char *of_own(const struct slot *s, const char *own)
{
	if (!s || s->interface == NEITHER)
		return own;
	if (!strcmp(own, NOBODYS))
		return s->interface == FIRST ? HERE : OTHER;
	if (s->interface == FIRST)
		return strcmp(own, OTHER) ? own : HERE;
	return strcmp(own, HERE) && strcmp(own, "fd77::1") ? own : OTHER;
}

/* Which interface an identifier has by its own address, and whether it has one for its destination. */
static void note_place(struct slot *s, const void *own, const void *peer, int result)
{
	int interface = interface_of(own);

	s->inward |= !strncmp(place_name(own), "127.", 4);
	/* What cannot be bound for its port, or since IPoIB has no addresses here, keeps the interface. */
	if (interface && (!result || result == -EADDRINUSE || result == -EADDRNOTAVAIL || result == -EACCES))
		s->interface = interface;
	else if (result == -EINVAL && s->ipoib && !s->interface)
		s->interface = interface;
	if (result || !peer)
		return;
	if (!s->interface)
		s->interface = interface_of(peer);
	s->loops = is_any(peer);
}

static bool may_ask_from(const char *own, const char *peer)
{
	return strcmp(own, OTHER) && strcmp(peer, OTHER) && strncmp(own, "127.", 4);
}

/* Fills in what a command says, and prints it. */
static void say(struct raw_command *c, int command, struct slot *s, bool right)
{
	const char *own = of_own(s, right ? here[rnd(4)] : PICK(here)), *peer = within_reach(s, right ? HERE : PICK(there));
	int port = right ? ports[1 + rnd(2)] : PICK(ports);

	switch (command) {
	case RDMA_USER_CM_CMD_CREATE_ID: {
		static const uint16_t spaces[] = {PS_TCP, PS_TCP, PS_TCP, PS_TCP, PS_UDP, PS_UDP, 0x0002, 0x013f, 0, 0x0107};

		c->u.create.ps = PICK(spaces);
		c->u.create.qp_type = c->u.create.ps == PS_UDP ? 4 : 2 + rnd(3);
		c->u.create.uid = (uint64_t)used + 1;
		printf(" space 0x%x", c->u.create.ps);
		break;
	}
	case RDMA_USER_CM_CMD_BIND_IP:
		put_place(&c->u.bind_ip.addr, own, port);
		printf(" %s", place_name(&c->u.bind_ip.addr));
		break;
	case RDMA_USER_CM_CMD_BIND:
		c->u.bind.addr_size = put_place(&c->u.bind.addr, own, port);
		if (!right && chance(15))
			c->u.bind.addr_size = rnd(200);
		printf(" %s size %d", place_name(&c->u.bind.addr), c->u.bind.addr_size);
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		put_place(&c->u.resolve_ip.dst_addr, peer, port);
		if (chance(20) && may_ask_from(own, peer))
			put_place(&c->u.resolve_ip.src_addr, own, 0);
		printf(" %s from %s", place_name(&c->u.resolve_ip.dst_addr), place_name(&c->u.resolve_ip.src_addr));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		c->u.resolve.dst_size = put_place(&c->u.resolve.dst_addr, peer, port);
		if (chance(20) && may_ask_from(own, peer))
			c->u.resolve.src_size = put_place(&c->u.resolve.src_addr, own, 0);
		if (!right && chance(10))
			c->u.resolve.dst_size = rnd(200);
		printf(" %s size %d from %s", place_name(&c->u.resolve.dst_addr), c->u.resolve.dst_size, place_name(&c->u.resolve.src_addr));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		c->u.route.timeout_ms = right ? 1000 : rnd(2) * 1000;
		printf(" timeout %u", c->u.route.timeout_ms);
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		c->u.connect.conn_param = parameters(s, right);
		c->u.connect.conn_param.valid = right || chance(70);
		printf(" data %d valid %d", c->u.connect.conn_param.private_data_len, c->u.connect.conn_param.valid);
		break;
	case RDMA_USER_CM_CMD_LISTEN:
		c->u.listen.backlog = chance(50) ? 0 : chance(50) ? 1000 : -1;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		c->u.accept.conn_param = parameters(s, right);
		c->u.accept.conn_param.valid = right ? s->phase != RESPONDED : chance(60);
		c->u.accept.uid = s ? (uint64_t)(s - slots) + 1 : 0xdead;
		printf(" data %d valid %d", c->u.accept.conn_param.private_data_len, c->u.accept.conn_param.valid);
		break;
	case RDMA_USER_CM_CMD_REJECT: {
		static const int reasons[] = {0, 28, 28, 35, 1, 8};

		c->u.reject.reason = PICK(reasons);
		c->u.reject.private_data_len = chance(80) ? rnd(136) : rnd(256);
		memset(c->u.reject.private_data, 7, sizeof(c->u.reject.private_data));
		printf(" reason %d data %d", c->u.reject.reason, c->u.reject.private_data_len);
		break;
	}
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		c->u.attr.qp_state = rnd(9);
		printf(" state %u", c->u.attr.qp_state);
		break;
	case RDMA_USER_CM_CMD_SET_OPTION: {
		static const uint32_t lengths[] = {1, 1, 4, 4, 4, 0, 8, 72, 0xffffffff};

		memset(raw_option, 0, sizeof(raw_option));
		raw_option[0] = rnd(3);
		c->u.option.level = chance(90) ? 0 : 1 + rnd(2);
		c->u.option.optname = chance(90) ? rnd(4) : 4 + rnd(3);
		c->u.option.optlen = PICK(lengths);
		if (chance(10))
			c->u.option.optval = rnd(2) * 4096;
		printf(" %u %u value %d length %u%s", c->u.option.level, c->u.option.optname, raw_option[0], c->u.option.optlen,
		       c->u.option.optval < 8192 ? " from nowhere" : "");
		break;
	}
	case RDMA_USER_CM_CMD_NOTIFY:
		c->u.notify.event = chance(70) ? 8 : rnd(20);
		printf(" %u", c->u.notify.event);
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		c->u.join_ip.uid = 0x3334;
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		c->u.join.uid = 0x3334;
		c->u.join.join_flags = right ? rnd(2) : rnd(4);
		printf(" flags %d", c->u.join.join_flags);
		break;
	case RDMA_USER_CM_CMD_QUERY:
		c->u.query.option = rnd(3);
		c->header.out = chance(70) ? 280 : rnd(300);
		printf(" option %u room %d", c->u.query.option, c->header.out);
		break;
	}
}

/* What stands in an answer that is the same in every run. */
static void print_answer(int command, const struct raw_command *c)
{
	const struct rdma_ucm_query_addr_resp *a = (void *)raw_answer;
	const struct rdma_ucm_query_route_resp *r = (void *)raw_answer;
	const struct ib_uverbs_qp_attr *q = (void *)raw_answer;

	switch (command) {
	case RDMA_USER_CM_CMD_QUERY:
		if (c->u.query.option == 1)
			printf(" paths %u", *(const uint32_t *)raw_answer);
		else
			printf(" guid %d port %d sizes %d %d", !!a->node_guid, a->port_num, a->src_size, a->dst_size);
		if (c->u.query.option == 0)
			printf(" %s %s", place_name(&a->src_addr), place_name(&a->dst_addr));
		break;
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
		printf(" guid %d paths %u port %d %s %s", !!r->node_guid, r->num_paths, r->port_num, place_name(&r->src_addr),
		       place_name(&r->dst_addr));
		break;
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		printf(" mask 0x%x state %u access %u qp of %d rd %d %d retry %d %d timeout %d port %d qkey 0x%x", q->qp_attr_mask, q->qp_state,
		       q->qp_access_flags, slot_of_qp(q->dest_qp_num), q->max_rd_atomic, q->max_dest_rd_atomic, q->retry_cnt, q->rnr_retry,
		       q->timeout, q->port_num, q->qkey);
		break;
	}
}

/* What an answer means for the identifiers. */
static void note_answer(int command, const struct raw_command *c, struct slot *s, int file, int result)
{
	bool gone = !result || result == -EFAULT;
	uint32_t number;

	memcpy(&number, raw_answer, 4);
	if (!result && command == RDMA_USER_CM_CMD_CREATE_ID) {
		int made = new_slot(number, file, c->u.create.ps == PS_UDP, FRESH);

		slots[made].ipoib = c->u.create.ps == 2;
		printf(" id %d", made);
	}
	if (!result && (command == RDMA_USER_CM_CMD_JOIN_IP_MCAST || command == RDMA_USER_CM_CMD_JOIN_MCAST) && joined < JOINS)
		joins[joined++] = number;
	if (!result && command == RDMA_USER_CM_CMD_LEAVE_MCAST)
		printf(" reported %u", number);
	if (!s)
		return;
	if (!result && (command == RDMA_USER_CM_CMD_DESTROY_ID || command == RDMA_USER_CM_CMD_MIGRATE_ID))
		printf(" reported %u", number - s->unseen);
	/* Gone, though nobody was told how many events it had: its answer had no place. */
	if (gone && command == RDMA_USER_CM_CMD_DESTROY_ID && s->file == file)
		s->live = false;
	if (gone && command == RDMA_USER_CM_CMD_MIGRATE_ID)
		s->file = file;
	switch (command) {
	case RDMA_USER_CM_CMD_BIND: note_place(s, &c->u.bind.addr, NULL, result); break;
	case RDMA_USER_CM_CMD_BIND_IP: note_place(s, &c->u.bind_ip.addr, NULL, result); break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR: note_place(s, &c->u.resolve.src_addr, &c->u.resolve.dst_addr, result); break;
	case RDMA_USER_CM_CMD_RESOLVE_IP: note_place(s, &c->u.resolve_ip.src_addr, &c->u.resolve_ip.dst_addr, result); break;
	}
	if (result)
		return;
	switch (command) {
	case RDMA_USER_CM_CMD_BIND:
	case RDMA_USER_CM_CMD_BIND_IP: s->phase = BOUND; break;
	case RDMA_USER_CM_CMD_LISTEN: s->phase = LISTENING; break;
	case RDMA_USER_CM_CMD_CONNECT: s->phase = ASKED, s->pending = !s->datagrams; break;
	case RDMA_USER_CM_CMD_ACCEPT:
		s->pending = !s->datagrams && c->u.accept.conn_param.valid;
		s->phase = JOINED_UP;
		break;
	case RDMA_USER_CM_CMD_REJECT:
	case RDMA_USER_CM_CMD_DISCONNECT: s->phase = OVER; break;
	}
}

/* One command about an identifier, in one of the ways in which it can be written. */
static void command(int number, struct slot *s, bool right)
{
	struct raw_command c;
	int file = s ? s->file : (int)rnd(FILES), other, result;
	size_t length = 8 + raw_bodies[number];
	const uint8_t *from = (const uint8_t *)&c;
	uint32_t id = s ? s->id : chance(50) ? 0x7fffffff : 0xffffffff;

	if (number == RDMA_USER_CM_CMD_LEAVE_MCAST && joined && chance(70))
		id = joins[rnd((uint32_t)joined)];
	raw_fill(&c, number, id);
	if (!right && number != RDMA_USER_CM_CMD_MIGRATE_ID && chance(12))
		file = (int)rnd(FILES);
	printf("f%d %s", file, raw_names[number]);
	if (raw_ids[number] >= 0 && number != RDMA_USER_CM_CMD_LEAVE_MCAST)
		printf(" %d", s ? (int)(s - slots) : -1);
	say(&c, number, s, right);
	if (number == RDMA_USER_CM_CMD_MIGRATE_ID) {
		other = file;
		file = (int)rnd(FILES);
		c.u.migrate.fd = chance(85) ? (uint32_t)files[other] : chance(50) ? 1 : 0xfffff;
		printf(" from %s", c.u.migrate.fd == (uint32_t)files[other] ? "its file" : c.u.migrate.fd == 1 ? "another" : "none");
		printf(" to f%d", file);
	}
	if (!right) {
		static const uint64_t nowhere[] = {0, 8, 4096, 1ULL << 47, UINT64_MAX - 3};

		switch (rnd(14)) {
		case 0:
			c.header.out = rnd(400);
			printf(" room %d", c.header.out);
			break;
		case 1:
			if (raw_pointers[number] >= 0) {
				memcpy(c.u.bytes + raw_pointers[number], &PICK(nowhere), 8);
				printf(" answer to nowhere");
			}
			break;
		case 2:
			c.header.in = rnd(raw_bodies[number] + 1u);
			length = 8 + c.header.in;
			printf(" short %d", c.header.in);
			if (chance(50)) {
				from = edge - length;
				memcpy(edge - length, &c, length);
				printf(" at the edge");
			}
			break;
		case 3:
			length += rnd(100);
			if (chance(50))
				c.header.in = length - 8;
			printf(" long %d", c.header.in);
			break;
		case 4:
			length -= rnd(raw_bodies[number] + 1u);
			printf(" cut %zu", length);
			break;
		}
	}
	result = raw_write(files[file], from, length);
	transcript_calls++;
	printf(" = %s", raw_result(result));
	if (!result)
		print_answer(number, &c);
	note_answer(number, &c, s, file, result);
	putchar('\n');
	settle();
}

/* Closes a file and opens another one. */
static void renew(int file)
{
	close(files[file]);
	for (int i = 0; i < used; i++)
		slots[i].live = slots[i].live && slots[i].file != file;
	files[file] = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (files[file] < 0)
		die("open: %s", errno_name(errno));
	note("f%d close", file);
	settle();
}

static struct slot *any_live(void)
{
	int start;

	if (!used)
		return NULL;
	start = (int)rnd((uint32_t)used);
	for (int i = 0; i < used; i++)
		if (slots[(start + i) % used].live)
			return &slots[(start + i) % used];
	return NULL;
}

static bool wants_interface(int number)
{
	return number == RDMA_USER_CM_CMD_RESOLVE_ROUTE || number == RDMA_USER_CM_CMD_CONNECT || number == RDMA_USER_CM_CMD_JOIN_MCAST ||
	       number == RDMA_USER_CM_CMD_JOIN_IP_MCAST || number == RDMA_USER_CM_CMD_INIT_QP_ATTR;
}

static void step(void)
{
	struct slot *s = any_live();
	int number = s && chance(70) ? next_command(s) : -1, live = 0;
	bool right = number >= 0 && chance(85);

	for (int i = 0; i < used; i++)
		live += slots[i].live;
	if (number < 0)
		number = (int)rnd(RAW_COMMANDS);
	if (used < SLOTS / 2 && live < 6 && chance(25)) {
		number = RDMA_USER_CM_CMD_CREATE_ID;
		s = NULL;
		right = false;
	}
	if (number == RDMA_USER_CM_CMD_CREATE_ID && used >= SLOTS / 2)
		number = RDMA_USER_CM_CMD_QUERY;
	if (number == RDMA_USER_CM_CMD_GET_EVENT || number == RDMA_USER_CM_CMD_GET_OPTION) {
		take((int)rnd(FILES), chance(50) ? 336 : 320 + (int)rnd(20));
		return;
	}
	if (!right && chance(8))
		s = NULL;
	if (s && s->pending && (number == RDMA_USER_CM_CMD_REJECT || number == RDMA_USER_CM_CMD_ACCEPT))
		return;
	if (s && s->loops && wants_interface(number))
		return;
	if (s && s->inward && (number == RDMA_USER_CM_CMD_RESOLVE_ADDR || number == RDMA_USER_CM_CMD_RESOLVE_IP))
		return;
	if (s && s->phase == LISTENING && chance(80) && number == RDMA_USER_CM_CMD_DESTROY_ID)
		return;
	command(number, s, right && s);
	if (chance(2))
		renew((int)rnd(FILES));
	if (chance(85))
		drain();
}

static void prelude(void)
{
	for (int file = 0; file < 2; file++) {
		struct raw_command c;
		uint32_t id = raw_create(files[file], PS_TCP, (uint64_t)used + 1);
		struct slot *s = &slots[new_slot(id, file, false, FRESH)];

		raw_must("bind", raw_bind(files[file], id, file ? "0.0.0.0" : HERE, 7471 + file), 0);
		raw_must("listen", raw_do(files[file], RDMA_USER_CM_CMD_LISTEN, id), 0);
		s->phase = LISTENING;
		id = raw_create(files[2], PS_TCP, (uint64_t)used + 1);
		s = &slots[new_slot(id, 2, false, FRESH)];
		raw_fill(&c, RDMA_USER_CM_CMD_RESOLVE_ADDR, id);
		raw_must("resolve", raw_write(files[2], &c, 8 + sizeof(c.u.resolve)), 0);
		settle();
		drain();
	}
}

static void play(uint64_t seed)
{
	note("seed %llu", (unsigned long long)seed);
	random_state = seed * 0x9e3779b97f4a7c15ULL + 1;
	rnd(2);
	used = joined = 0;
	memset(slots, 0, sizeof(slots));
	for (int i = 0; i < FILES; i++) {
		files[i] = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (files[i] < 0)
			die("open: %s", errno_name(errno));
	}
	if (seed % 3)
		prelude();
	for (int i = 0; i < STEPS; i++)
		step();
	drain();
	for (int i = 0; i < FILES; i++)
		close(files[i]);
	barrier();
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	begin();
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	helper = raw_open();
	edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (edge == MAP_FAILED || munmap(edge + 4096, 4096))
		die("memory");
	edge += 4096;
	for (uint64_t seed = first; seed < first + count; seed++)
		play(seed);
	return end();
}
