/*
 * port_events.c - asynchronous events of a port.
 *
 * Proves: what a port that goes down and comes back says; that every context gets it.
 */
#include "setup.h"

/* Types of the port events that come within a second and a half; address changes come at any time. */
static void port_events(const char *who, struct ibv_context *c)
{
	uint64_t deadline = now_ms() + 1500;
	int down = 0, up = 0, fatal = 0;
	bool port_ok = true;

	while (now_ms() < deadline) {
		struct ibv_async_event event;

		if (!readable(c->async_fd, 100))
			continue;
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

/* A device of its own, so that no other program is disturbed. */
static void port(void)
{
	struct ibv_port_attr attr;

	run("ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up && "
	    "rdma link add rxe_port type rxe netdev d0");
	sleep(1);
	struct ibv_context *c = open_device("rxe_port"), *second = open_device("rxe_port");
	while (readable(c->async_fd, 200)) { /* what setting up brought */
		struct ibv_async_event event;

		if (ibv_get_async_event(c, &event))
			break;
		ibv_ack_async_event(&event);
	}
	while (readable(second->async_fd, 200)) {
		struct ibv_async_event event;

		if (ibv_get_async_event(second, &event))
			break;
		ibv_ack_async_event(&event);
	}
	run("ip link set d0 down");
	port_events("after down", c);
	port_events("after down, second context", second);
	CALL_INT(ibv_query_port(c, 1, &attr));
	FIELD(attr, state);
	FIELD(attr, phys_state);
	run("ip link set d0 up");
	port_events("after up", c);
	port_events("after up, second context", second);
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
