/*
 * late_answer.c - a server that agrees to the end of a connection when its client is gone already.
 */
#define HERE "127.0.0.1"
#include "../../ctest/cm/cm.h"

int main(void)
{
	struct rdma_cm_event *event;
	struct sides s;

	begin();
	sides_connect(&s, 18542);
	if (rdma_disconnect(s.client))
		die("disconnect: %s", errno_name(errno));
	take(s.server_channel, RDMA_CM_EVENT_DISCONNECTED);
	id_close(s.client);
	s.client = NULL;
	/* Who asks for events finds the client gone, of which there is no event. */
	fcntl(s.server_channel->fd, F_SETFL, O_NONBLOCK);
	if (!rdma_get_cm_event(s.server_channel, &event) || errno != EAGAIN)
		die("an event of a client that is gone");
	if (rdma_disconnect(s.server))
		die("disconnect of the server: %s", errno_name(errno));
	sides_close(&s);
	return end();
}
