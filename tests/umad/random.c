/*
 * random.c - a long random sequence of calls, valid and not, of everything that the library has.
 *
 *   random SEED COUNT
 *
 * Nothing depends on time: requests that are not answered at once wait for an hour.
 */
#include "mads.h"

enum { FILES = 6, BUFFERS = 4, HOUR = 3600000 };
static int files[FILES];
static char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
static int name_count;
static uint8_t buffers[BUFFERS][64 + 1024] __attribute__((aligned(8)));
static uint64_t state;

static uint32_t any(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return below ? (state >> 33) % below : state >> 33;
}
#define ONE_OF(...) ({ static const __typeof__((int)1) of_[] = {__VA_ARGS__}; of_[any(sizeof of_ / sizeof *of_)]; })

/* An edge of a number's range, a small one, or any. */
static int number(void)
{
	switch (any(4)) {
	case 0: return ONE_OF(0, 1, -1, 2, 0x7fffffff, (int)0x80000000, 0xffff, 0x10000, 255, 256);
	case 1: return any(300);
	default: return any(8);
	}
}

static const char *name(void)
{
	switch (any(8)) {
	case 0: return NULL;
	case 1: return "nothing";
	case 2: return "";
	default: return name_count ? names[any(name_count)] : "mlx4_0";
	}
}

static int file(void)
{
	int at = any(FILES + 2);

	if (at < FILES)
		return files[at] >= 0 ? files[at] : -1;
	return ONE_OF(-1, 0x7fffffff, 12345);
}

static uint32_t sum(const void *start, size_t size)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum = sum * 31 + ((const uint8_t *)start)[i];
	return sum;
}

/* Of strings only what is before their end. */
static uint32_t sum_ca(umad_ca_t *ca)
{
	char *strings[] = {ca->ca_name, ca->fw_ver, ca->ca_type, ca->hw_ver};
	size_t sizes[] = {sizeof ca->ca_name, sizeof ca->fw_ver, sizeof ca->ca_type, sizeof ca->hw_ver};

	for (unsigned i = 0; i < 4; i++)
		for (size_t end = strnlen(strings[i], sizes[i]); end < sizes[i]; end++)
			strings[i][end] = 0;
	return sum(ca, offsetof(umad_ca_t, hw_ver) + sizeof ca->hw_ver) + sum(&ca->node_guid, 2 * sizeof ca->node_guid);
}

static uint32_t sum_port(umad_port_t *port)
{
	uint32_t result = sum(port->ca_name, strnlen(port->ca_name, sizeof port->ca_name - 1));

	result += sum(&port->portnum, offsetof(umad_port_t, capmask) - offsetof(umad_port_t, portnum));
	result += sum(port->link_layer, strnlen(port->link_layer, sizeof port->link_layer - 1));
	return result + sum(&port->gid_prefix, 2 * sizeof port->gid_prefix) + port->capmask + port->pkeys_size;
}

static void say(const char *what, long result, uint32_t bytes)
{
	printf("%s %ld %s %08x\n", what, result, errno_name(errno), bytes);
	errno = 0;
}
#define SAY(call, bytes) ({ errno = 0; long result_ = (long)(call); say(#call, result_, bytes); result_; })

static void cards(void)
{
	umad_ca_t ca;
	umad_port_t port;
	__be64 guids[16];
	char path[40];
	const char *of = name();
	int at = any(3) ? (int)any(4) - 1 : number();

	switch (any(5)) {
	case 0:
		FILL(ca);
		if (!SAY(umad_get_ca(of, &ca), 0)) {
			say("ca", ca.numports, sum_ca(&ca));
			for (unsigned i = 0; i < UMAD_CA_MAX_PORTS; i++)
				if (ca.ports[i])
					say("port", ca.ports[i]->state, sum_port(ca.ports[i]));
			SAY(umad_release_ca(&ca), 0);
		}
		break;
	case 1:
		FILL(port);
		if (!SAY(umad_get_port(of, at, &port), sum_port(&port))) {
			say("keys", port.pkeys_size, sum(port.pkeys, 2 * port.pkeys_size));
			SAY(umad_release_port(&port), sum_port(&port));
		}
		break;
	case 2:
		FILL(guids);
		SAY(umad_get_ca_portguids(of, any(5) ? guids : NULL, any(12)), sum(guids, sizeof guids));
		break;
	case 3:
		FILL(path);
		SAY(umad_get_issm_path(of, at, path, any(sizeof path)), sum(path, strnlen(path, sizeof path)));
		break;
	default:
		FILL(names);
		name_count = SAY(umad_get_cas_names(names, (int)any(6) - 1), sum(names[0], strnlen(names[0], 19)));
		break;
	}
}

static void lists(void)
{
	struct umad_device_node *head = umad_get_ca_device_list(), *node;
	size_t count = 0;

	say("list", head != NULL, 0);
	SAY(umad_sort_ca_device_list(&head, any(7)), 0);
	for (node = head; node; node = node->next)
		say(node->ca_name, count++, 0);
	umad_free_ca_device_list(head);
}

static void ports(void)
{
	unsigned at = any(FILES);

	if (files[at] < 0) {
		errno = 0;
		files[at] = umad_open_port(name(), (int)any(4) - 1);
		say("open", files[at] < 0 ? files[at] : 0, umad_size());
	} else {
		SAY(umad_close_port(files[at]), 0);
		files[at] = -1;
	}
}

static void agents(void)
{
	long mask[16 / sizeof(long)] = {any(0) & any(0) & any(0), any(5) ? 0 : 1l << any(64)};
	int class = any(3) ? ONE_OF(0, 1, 3, 4, 6, 7, 9, 0x30, 0x32, 0x4f, 0x50, 0x81) : number();
	uint8_t oui[3] = {any(2), any(2), any(2)};
	struct umad_reg_attr attr;
	uint32_t id = 1234;

	switch (any(4)) {
	case 0: SAY(umad_register(file(), class, any(6) ? (int)any(3) : number(), any(3), any(3) ? mask : NULL), 0); break;
	case 1: SAY(umad_register_oui(file(), class, any(3), oui, any(3) ? mask : NULL), 0); break;
	case 2:
		FILL(attr);
		attr.mgmt_class = class;
		attr.mgmt_class_version = any(3);
		attr.flags = any(3) ? 0 : any(3);
		attr.method_mask[0] = mask[0];
		attr.method_mask[1] = mask[1];
		attr.oui = any(3) ? any(4) : any(0) << 4;
		attr.rmpp_version = any(3);
		SAY(umad_register2(file(), any(20) ? &attr : NULL, any(20) ? &id : NULL), 0);
		say("attr", id, sum(&attr, sizeof attr));
		break;
	default: SAY(umad_unregister(file(), any(4) ? (int)any(6) : number()), 0); break;
	}
}

static void traffic(void)
{
	uint8_t *buffer = buffers[any(BUFFERS)];
	int fd = file(), length, result;

	if (any(2)) {
		int wanted = any(3) ? 256 : any(1024);

		request(ONE_OF(1, 3, 4, 4, 6, 0x32, 0x81), ONE_OF(1, 2, 0x12, 0x81, 7, 5), any(32), any(900), any(40),
			ONE_OF(1, 1, 1, 1, 3, 4, 7, 0x105, 0x201, 0x301, 0xffff));
		memcpy(buffer, outgoing, sizeof buffers[0]);
		if (!any(4))
			((uint8_t *)umad_get_mad(buffer))[26] = any(8);
		if (!any(4))
			umad_set_pkey(buffer, number());
		if (!any(8)) {
			struct ib_mad_addr address;

			memcpy(&address, buffer + any(64), sizeof address);
			umad_set_grh(buffer, &address);
		}
		SAY(umad_send(fd, any(8) ? (int)any(5) : number(), buffer, wanted, any(2) ? 0 : HOUR, any(3)), sum(buffer, 64));
	} else {
		length = any(3) ? 256 : any(1024);
		memset(buffer, 0xa5, sizeof buffers[0]);
		errno = 0;
		result = umad_recv(fd, any(40) ? buffer : NULL, any(40) ? &length : NULL, any(20) ? 0 : 1);
		say("recv", result, sum(buffer, sizeof buffers[0]));
		say("length", length, 0);
		SAY(umad_status(buffer), 0);
	}
}

static void fields(void)
{
	uint8_t *buffer = buffers[any(BUFFERS)];
	struct ib_mad_addr address;

	memset(&address, any(256), sizeof address);
	address.flow_label = number();
	switch (any(8)) {
	case 0: SAY(umad_set_addr(buffer, number(), number(), number(), number()), sum(buffer, 64)); break;
	case 1: SAY(umad_set_addr_net(buffer, number(), number(), number(), number()), sum(buffer, 64)); break;
	case 2: SAY(umad_set_grh(buffer, any(2) ? &address : NULL), sum(buffer, 64)); break;
	case 3: SAY(umad_set_pkey(buffer, number()), sum(buffer, 64)); break;
	case 4: SAY(umad_get_pkey(buffer), 0); break;
	case 5: SAY((uint8_t *)umad_get_mad(buffer) - buffer + umad_size(), 0); break;
	case 6: SAY((uint8_t *)umad_get_mad_addr(buffer) - buffer, 0); break;
	default: umad_addr_dump(&address); umad_dump(buffer); break;
	}
}

static void strings(void)
{
	uint8_t class = any(2) ? any(256) : (uint32_t)ONE_OF(1, 3, 4, 6, 7, 0x32, 0x81), method = any(256);
	uint16_t word = any(2) ? any(0) : any(0x80);

	puts(umad_class_str(class));
	puts(umad_method_str(class, method));
	puts(umad_attribute_str(class, htobe16(word)));
	puts(umad_common_mad_status_str(htobe16(word)));
	puts(umad_sa_mad_status_str(htobe16(word)));
}

int main(int argc, char **argv)
{
	unsigned long count;

	if (argc != 3)
		return 2;
	find_kernel();
	state = strtoull(argv[1], NULL, 0) * 2 + 1;
	count = strtoul(argv[2], NULL, 0);
	memset(files, -1, sizeof files);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned long i = 0; i < count; i++) {
		uint32_t what = any(100);

		if (what < 1)
			umad_debug(any(40) ? 0 : (int)any(3));
		else if (what < 3)
			lists();
		else if (what < 8)
			cards();
		else if (what < 16)
			ports();
		else if (what < 36)
			agents();
		else if (what < 82)
			traffic();
		else if (what < 84)
			SAY(umad_poll(file(), any(2)), 0);
		else if (what < 85)
			SAY(umad_get_fd(number()), 0);
		else if (what < 95)
			fields();
		else
			strings();
		transcript_calls++;
	}
	umad_debug(0);
	for (unsigned i = 0; i < FILES; i++)
		if (files[i] >= 0)
			umad_close_port(files[i]);
	return end();
}
