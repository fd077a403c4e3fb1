/*
 * port_events.c - asynchronous events of a port.
 *
 * Proves: what a port that goes down and comes back says; that every context gets it.
 */
#include "setup.h"

/* The port events that come, of which one or two must; address changes come at any time. */
static void port_events(const char *who, struct ibv_context *c, int must_come)
{
	int down = 0, up = 0, fatal = 0;
	bool port_ok = true;

	while (readable(c->async_fd, down + up + fatal < must_come ? HANG_MS : 300)) {
		struct ibv_async_event event;

		if (ibv_get_async_event(c, &event))
			die("event");
		down += event.event_type == IBV_EVENT_PORT_ERR;
		up += event.event_type == IBV_EVENT_PORT_ACTIVE;
		fatal += event.event_type == IBV_EVENT_DEVICE_FATAL;
		port_ok = port_ok && event.element.port_num == 1;
		ibv_ack_async_event(&event);
	}
	note("    %s: down %d up %d fatal %d, all of port 1: %s", who, down, up, fatal, port_ok ? "true" : "false");
}

static void run(const char *command)
{
	if (system(command))
		die("%s", command);
}

static void wait_until_up(const char *interface)
{
	char command[128];

	snprintf(command, sizeof(command), "grep -q up /sys/class/net/%s/operstate", interface);
	for (uint64_t hang = now_ms() + HANG_MS; system(command);)
		if (now_ms() > hang)
			die("%s does not come up", interface);
}

/* A device of its own, so that no other program is disturbed. */
static void port(void)
{
	struct ibv_port_attr attr;

	run("ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up");
	wait_until_up("d0"); /* the kernel tells of that in its own time, which must not be after the port is there */
	run("rdma link add rxe_port type rxe netdev d0");
	struct ibv_context *c = open_device("rxe_port"), *second = open_device("rxe_port");
	run("ip link set d0 down");
	port_events("after down", c, 1);
	port_events("after down, second context", second, 1);
	CALL_INT(ibv_query_port(c, 1, &attr));
	FIELD(attr, state);
	FIELD(attr, phys_state);
	run("ip link set d0 up");
	port_events("after up", c, 2);
	port_events("after up, second context", second, 2);
	CALL_INT(ibv_query_port(c, 1, &attr));
	FIELD(attr, state);
	FIELD(attr, phys_state);
	CALL_INT(ibv_close_device(c));
	CALL_INT(ibv_close_device(second));
	run("rdma link delete rxe_port && ip link delete d0");
}

int main(void)
{
	begin();
	port();
	return end();
}
