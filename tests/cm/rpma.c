/*
 * rpma.c - librpma between two processes: a client writes into the server's memory, flushes, writes eight bytes at once, reads
 * all of it back and sends a message, for which the server looks at what came. `rpma server ADDRESS`, `rpma client ADDRESS`.
 */
#include <librpma.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PORT "7473"
#define SIZE (64 << 10)
#define MESSAGE 64
#define FILL 0x5a
#define AT_ATOMIC 4096

/* Memory with the local registration of all of it; the last MESSAGE bytes are for messages. */
static char *memory;
static struct rpma_mr_local *registered;
static struct rpma_peer *peer;

static void check(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

#define CHECK(call) check(call, #call)

static void prepare(const char *address, enum rpma_util_ibv_context_type side)
{
	struct ibv_context *context;

	memory = mmap(NULL, SIZE + MESSAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(1);
	CHECK(rpma_utils_get_ibv_context(address, side, &context));
	CHECK(rpma_peer_new(context, &peer));
	CHECK(rpma_mr_reg(peer, memory, SIZE + MESSAGE,
			  RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
			  RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &registered));
}

static void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;

	CHECK(rpma_conn_next_event(conn, &event));
	if (event != expected) {
		fprintf(stderr, "%s instead of %s\n", rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(expected));
		exit(1);
	}
}

/* Waits for the completion of the operation whose context this is. */
static void completed(struct rpma_conn *conn, const void *operation, enum ibv_wc_opcode opcode)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret;

	CHECK(rpma_conn_get_cq(conn, &cq));
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		CHECK(rpma_cq_wait(cq));
	check(ret, "rpma_cq_get_wc");
	if (wc.status || wc.opcode != opcode || wc.wr_id != (uintptr_t)operation) {
		fprintf(stderr, "%s of %d\n", ibv_wc_status_str(wc.status), wc.opcode);
		exit(1);
	}
}

static void finish(struct rpma_conn *conn)
{
	CHECK(rpma_conn_delete(&conn));
	CHECK(rpma_mr_dereg(&registered));
	CHECK(rpma_peer_delete(&peer));
}

static void server(const char *address)
{
	struct rpma_conn_private_data offer;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_ep *endpoint;
	char descriptor[64];
	size_t length;

	prepare(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	CHECK(rpma_mr_get_descriptor_size(registered, &length));
	CHECK(rpma_mr_get_descriptor(registered, descriptor));
	offer.ptr = descriptor;
	offer.len = length;
	CHECK(rpma_ep_listen(peer, address, PORT, &endpoint));
	CHECK(rpma_ep_next_conn_req(endpoint, NULL, &request));
	CHECK(rpma_conn_req_recv(request, registered, SIZE, MESSAGE, memory));
	CHECK(rpma_conn_req_connect(&request, &offer, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	completed(conn, memory, IBV_WC_RECV);
	for (int i = 0; i < SIZE; i++) {
		char expected = i >= AT_ATOMIC && i < AT_ATOMIC + 8 ? '8' : FILL;

		if (memory[i] != expected) {
			fprintf(stderr, "byte %d is %d\n", i, memory[i]);
			exit(1);
		}
	}
	printf("server: %s\n", memory + SIZE);
	expect_event(conn, RPMA_CONN_CLOSED);
	CHECK(rpma_conn_disconnect(conn));
	finish(conn);
	CHECK(rpma_ep_shutdown(&endpoint));
}

static void client(const char *address)
{
	struct rpma_conn_private_data offer;
	struct rpma_conn_req *request;
	struct rpma_mr_remote *remote;
	struct rpma_conn *conn;
	size_t size;

	prepare(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	memset(memory, FILL, SIZE);
	strcpy(memory + SIZE, "written, flushed and read");
	CHECK(rpma_conn_req_new(peer, address, PORT, NULL, &request));
	CHECK(rpma_conn_req_connect(&request, NULL, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	CHECK(rpma_conn_get_private_data(conn, &offer));
	CHECK(rpma_mr_remote_from_descriptor(offer.ptr, offer.len, &remote));
	CHECK(rpma_mr_remote_get_size(remote, &size));
	if (size != SIZE + MESSAGE)
		exit(1);

	CHECK(rpma_write(conn, remote, 0, registered, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
	CHECK(rpma_atomic_write(conn, remote, AT_ATOMIC, "88888888", RPMA_F_COMPLETION_ON_ERROR, NULL));
	CHECK(rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, &size));
	completed(conn, &size, IBV_WC_RDMA_READ);
	memset(memory, 0, SIZE);
	CHECK(rpma_read(conn, registered, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, &remote));
	completed(conn, &remote, IBV_WC_RDMA_READ);
	for (int i = 0; i < SIZE; i++)
		if (memory[i] != (i >= AT_ATOMIC && i < AT_ATOMIC + 8 ? '8' : FILL))
			exit(1);
	CHECK(rpma_send(conn, registered, SIZE, MESSAGE, RPMA_F_COMPLETION_ALWAYS, memory));
	completed(conn, memory, IBV_WC_SEND);

	CHECK(rpma_conn_disconnect(conn));
	expect_event(conn, RPMA_CONN_CLOSED);
	CHECK(rpma_mr_remote_delete(&remote));
	finish(conn);
	puts("client: all of it read back");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "server"))
		server(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "client"))
		client(argv[2]);
	else
		return 2;
	return 0;
}
