/*
 * raw_states.c - every command in every state of an identifier, and what the answers and events then hold.
 *
 * Each pair of state and command has identifiers of its own on two files: one for a listener and what it is
 * asked, one for the client.
 */
#include "raw_reach.h"

/* What a command has brought about: events on both files, not more than two each. */
static void events(void)
{
	int fds[2] = {client_fd, server_fd};

	for (int i = 0; i < 2; i++)
		for (int n = 0; n < 2 && readable(fds[i], n ? 5 : 30); n++) {
			const struct rdma_ucm_event_resp *r = (void *)raw_answer;
			int event = raw_event(fds[i]);

			note("        %s: event %d status %d uid 0x%llx", i ? "server" : "client", event, (int)r->status,
			     (unsigned long long)r->uid);
		}
}

static void every_command(enum state state, uint16_t space)
{
	for (int command = 1; command < RAW_COMMANDS; command++) {
		int fd, result;
		uint32_t id;
		bool waits = command == RDMA_USER_CM_CMD_GET_EVENT || command == RDMA_USER_CM_CMD_GET_OPTION;

		/*
		 * Who refuses what he asked for or answered waits for a minute when he goes: the kernel repeats what
		 * he sent.
		 */
		bool endless = (state == CONNECTING || state == ANSWERED) && space == PS_TCP &&
			       (command == RDMA_USER_CM_CMD_REJECT || command == RDMA_USER_CM_CMD_ACCEPT);

		if (waits || endless)
			continue;
		id = reach(state, space, &fd);
		if (command == RDMA_USER_CM_CMD_MIGRATE_ID) {
			struct raw_command c;
			int target = raw_open();

			raw_fill(&c, command, id);
			c.u.migrate.fd = fd;
			result = raw_write(target, &c, 8 + sizeof(c.u.migrate));
			note("%s, %s: %s", states[state], raw_names[command], raw_result(result));
			if (!result)
				note("        events reported %u", *(uint32_t *)raw_answer);
			close(target);
		} else {
			result = raw_do(fd, command, id);
			note("%s, %s: %s", states[state], raw_names[command], raw_result(result));
			if (!result && (command == RDMA_USER_CM_CMD_DESTROY_ID || command == RDMA_USER_CM_CMD_LEAVE_MCAST))
				note("        events reported %u", *(uint32_t *)raw_answer);
		}
		transcript_calls++;
		events();
		close(client_fd);
		close(server_fd);
	}
}

int main(int argc, char **argv)
{
	uint16_t space = argc > 1 && !strcmp(argv[1], "datagrams") ? PS_UDP : PS_TCP;

	begin();
	for (int state = 0; state < STATES; state++)
		if (space == PS_TCP || state <= RESPONDED)
			every_command(state, space);
	return end();
}
