/*
 * ours_only_import.c - contexts, protection domains and regions of somebody else, which rdma-core's soft-RoCE provider
 * cannot import.
 *
 * Proves: what is refused, and with which number; who closes the command file; that an imported domain and an imported
 * region are as good as the originals, with traffic, completion events and asynchronous events through the imported
 * context alone; that forgetting them leaves the originals alone, and freeing them frees them for everybody; that either
 * context outlives the other; that another process, which may not open the device, imports what it was handed.
 */
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "setup.h"

static unsigned char memory[4096] __attribute__((aligned(4096)));

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

/* What cannot be imported as a device. */
static void files(void)
{
	struct ibv_context *c = open_device("rxe0");
	int null = open("/dev/null", O_RDWR), file = open("/proc/self/status", O_RDONLY);
	char path[300];

	CALL_PTR(ibv_import_device(-1));
	CALL_PTR(ibv_import_device(file));
	CHECK(is_open(file));
	CALL_PTR(ibv_import_device(null));
	CHECK(is_open(null));
	snprintf(path, sizeof(path), "/dev/infiniband/%s", c->device->dev_name);
	int fresh = open(path, O_RDWR);
	CHECK(is_open(fresh));
	CALL_PTR(ibv_import_device(fresh)); /* nobody has made a context with it */
	CHECK(is_open(fresh));
	close(null);
	close(file);
	CALL_INT(ibv_close_device(c));
}

/* What an imported context, domain and region say of themselves. */
static void fields(void)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	int fd = dup(c->cmd_fd), async_fd;

	struct ibv_context *imported = CALL_PTR(ibv_import_device(fd));
	async_fd = imported->async_fd;
	CHECK(imported != c && imported->device == c->device && imported->cmd_fd == fd);
	CHECK(async_fd >= 0 && async_fd != c->async_fd);
	CHECK(imported->num_comp_vectors == c->num_comp_vectors);

	CALL_PTR(ibv_import_pd(imported, 12345));
	CALL_PTR(ibv_import_pd(imported, mr->handle)); /* a number, but of a region */
	struct ibv_pd *imported_pd = CALL_PTR(ibv_import_pd(imported, pd->handle));
	CHECK(imported_pd != pd && imported_pd->context == imported && imported_pd->handle == pd->handle);
	CALL_PTR(ibv_import_mr(imported_pd, 12345));
	CALL_PTR(ibv_import_mr(imported_pd, pd->handle));
	struct ibv_mr *imported_mr = CALL_PTR(ibv_import_mr(imported_pd, mr->handle));
	CHECK(imported_mr != mr && imported_mr->context == imported && imported_mr->pd == imported_pd);
	CHECK(imported_mr->handle == mr->handle && imported_mr->lkey == mr->lkey && imported_mr->rkey == mr->rkey);
	CHECK(imported_mr->addr == NULL && imported_mr->length == mr->length);
	CALL_INT(ibv_rereg_mr(imported_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	CALL_PTR(ibv_import_dm(imported, 0));

	/* Twice is as good as once. */
	struct ibv_mr *again = CALL_PTR(ibv_import_mr(imported_pd, mr->handle));
	CHECK(again != imported_mr);
	CALL_VOID(ibv_unimport_mr(again));
	CALL_VOID(ibv_unimport_mr(imported_mr));
	CALL_VOID(ibv_unimport_pd(imported_pd));
	/* What was not imported is not forgotten. */
	CALL_VOID(ibv_unimport_mr(mr));
	CALL_VOID(ibv_unimport_pd(pd));
	CHECK(mr->pd == pd && pd->context == c);

	CALL_INT(ibv_close_device(imported));
	CHECK(!is_open(fd) && !is_open(async_fd) && is_open(c->cmd_fd));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
}

/* Objects made under an imported domain hold the original; freeing an imported object frees the original. */
static void owners(void)
{
	struct ibv_context *c = open_device("rxe0"), *imported = ibv_import_device(dup(c->cmd_fd));
	struct ibv_pd *pd = ibv_alloc_pd(c), *imported_pd = ibv_import_pd(imported, pd->handle);
	struct ibv_parent_domain_init_attr parent_init = {.pd = imported_pd};

	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(imported_pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	CALL_INT(ibv_dealloc_pd(pd));
	struct ibv_mr *other_way = CALL_PTR(ibv_import_mr(pd, mr->handle));
	CHECK(other_way->context == c && other_way->lkey == mr->lkey);
	CALL_INT(ibv_dereg_mr(other_way));
	CALL_PTR(ibv_import_mr(pd, mr->handle)); /* gone */
	CALL_INT(ibv_dereg_mr(mr));
	CALL_VOID(ibv_unimport_mr(mr)); /* not imported: it stays, until its process ends */

	struct ibv_pd *parent = CALL_PTR(ibv_alloc_parent_domain(imported, &parent_init));
	CHECK(parent->handle == pd->handle);
	CALL_VOID(ibv_unimport_pd(imported_pd)); /* the parent domain stands for it: it stays */
	CHECK(imported_pd->handle == pd->handle);
	CALL_INT(ibv_dealloc_pd(parent));
	CALL_INT(ibv_dealloc_pd(imported_pd));
	CALL_PTR(ibv_import_pd(imported, pd->handle)); /* gone */
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(imported));
	CALL_INT(ibv_close_device(c));
}

static int rdma_write(struct endpoint *from, const struct ibv_mr *to, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)from->buffer, length, from->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {addr, to->rkey}},
			   *bad;

	return ibv_post_send(from->qp, &wr, &bad);
}

/* As rdma_write, by builders. */
static int build_write(struct endpoint *from, const struct ibv_mr *to, uint64_t addr, uint32_t length)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(from->qp);

	ibv_wr_start(qp);
	qp->wr_id = 8;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, to->rkey, addr);
	ibv_wr_set_sge(qp, from->mr->lkey, (uintptr_t)from->buffer, length);
	return ibv_wr_complete(qp);
}

/* Data goes both ways between a plain and an imported context; each hears of its own completions. */
static void traffic(struct endpoint *plain, struct endpoint *other, const struct ibv_mr *target)
{
	struct ibv_cq *cq;
	void *cq_context;

	pattern(plain->buffer, 512, 1);
	CALL_INT(rdma_write(plain, other->mr, (uintptr_t)other->buffer + 4096, 512));
	expect_wc("written into the imported context's region", plain->send_cq, plain->qp, other->qp);
	check_data(other->buffer + 4096, plain->buffer, 512);

	pattern(other->buffer, 512, 2);
	CALL_INT(build_write(other, target, (uintptr_t)memory + 1024, 512));
	expect_wc("written into the imported region", other->send_cq, other->qp, plain->qp);
	check_data(memory + 1024, other->buffer, 512);

	CALL_INT(ibv_req_notify_cq(other->recv_cq, 0));
	CALL_INT(post_recv(other, 1, 8192, 256));
	CALL_INT(post_send(plain, 2, 0, 256));
	expect_wc("sent", plain->send_cq, plain->qp, other->qp);
	CHECK(comes(other->channel->fd));
	CALL_INT(ibv_get_cq_event(other->channel, &cq, &cq_context));
	CHECK(cq == other->recv_cq && cq_context == other);
	CALL_VOID(ibv_ack_cq_events(cq, 1));
	expect_wc("received", other->recv_cq, other->qp, plain->qp);
	check_data(other->buffer + 8192, plain->buffer, 256);
}

static void work(void)
{
	struct ibv_context *c = open_device("rxe0"), *imported = ibv_import_device(dup(c->cmd_fd));
	struct ibv_pd *pd = ibv_alloc_pd(c), *imported_pd = ibv_import_pd(imported, pd->handle);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_mr *imported_mr = ibv_import_mr(imported_pd, mr->handle);
	struct endpoint plain = {0}, other = {.with_channel = true, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND};
	struct ibv_srq_init_attr srq_init = {.attr = {4, 1, 0}};
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event;

	if (!imported || !imported_pd || !imported_mr)
		die("importing: %s", errno_name(errno));
	endpoint_open_on(&plain, c, pd);
	endpoint_open_on(&other, imported, imported_pd);
	connect_pair(&plain, &other);
	traffic(&plain, &other, imported_mr);

	/* The event of a shared receive queue goes to the context that made it. */
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(imported_pd, &srq_init));
	struct endpoint shared = {.srq = srq}, peer = {0};
	struct ibv_sge sge = {(uintptr_t)other.buffer, 64, other.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	endpoint_open_on(&shared, imported, imported_pd);
	endpoint_open_on(&peer, c, pd);
	connect_pair(&shared, &peer);
	CALL_INT(ibv_post_srq_recv(srq, &wr, &bad));
	CALL_INT(ibv_post_srq_recv(srq, &wr, &bad));
	CALL_INT(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	CALL_INT(post_send(&peer, 3, 0, 32));
	if (!next_wc(peer.send_cq, &wc) || !next_wc(shared.recv_cq, &wc))
		die("no completion");
	CHECK(comes(imported->async_fd) && !readable(c->async_fd, 0));
	FILL(event);
	CALL_INT(ibv_get_async_event(imported, &event));
	FIELD(event, event_type);
	CHECK(event.element.srq == srq);
	CALL_VOID(ibv_ack_async_event(&event));

	if (ibv_destroy_qp(shared.qp) || ibv_destroy_qp(peer.qp) || ibv_destroy_srq(srq) || ibv_destroy_qp(plain.qp))
		die("destroying");

	/* The context lives until the last file is closed, with what was made in it. */
	CALL_INT(ibv_close_device(c));
	CALL_PTR(ibv_import_pd(imported, imported_pd->handle));
	struct endpoint self = {0};
	endpoint_open_on(&self, imported, imported_pd);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	if (ibv_modify_qp(other.qp, &attr, IBV_QP_STATE))
		die("reset");
	connect_pair(&self, &other);
	memset(memory, 0, sizeof(memory));
	traffic(&self, &other, imported_mr);
	CALL_VOID(ibv_unimport_mr(imported_mr));
	CALL_VOID(ibv_unimport_pd(imported_pd));
	CALL_INT(ibv_close_device(imported));
}

/* What one process tells the other, beside the command file. */
struct offer {
	uint32_t pd, mr, qp_num;
	uint64_t addr;
	union ibv_gid gid;
};

static void tell(int socket, const struct offer *offer, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec data = {(void *)offer, sizeof(*offer)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	if (sendmsg(socket, &message, 0) != sizeof(*offer))
		die("telling");
}

static int hear(int socket, struct offer *offer)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec data = {offer, sizeof(*offer)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(socket, &message, 0) != sizeof(*offer) || !CMSG_FIRSTHDR(&message))
		die("hearing");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* The process that imports: nobody, on a device whose file it may not open. */
static int importer(int socket)
{
	struct endpoint e = {.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct offer offer;
	uint32_t answer;
	char go;

	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		die("dropping rights");
	int fd = hear(socket, &offer);
	struct ibv_context *c = CALL_PTR(ibv_import_device(fd));
	CHECK(c->num_comp_vectors == 1); /* it cannot ask the kernel for more */
	struct ibv_pd *pd = CALL_PTR(ibv_import_pd(c, offer.pd));
	struct ibv_mr *mr = CALL_PTR(ibv_import_mr(pd, offer.mr));
	endpoint_open_on(&e, c, pd);
	answer = e.qp->qp_num;
	if (write(socket, &answer, sizeof(answer)) != sizeof(answer) || read(socket, &go, 1) != 1)
		die("answering");
	ready(&e, &offer.gid, offer.qp_num);
	pattern(e.buffer, 512, 3);
	CALL_INT(rdma_write(&e, mr, offer.addr, 512));
	expect_wc("written into the other process' region", e.send_cq, e.qp, NULL);
	pattern(e.buffer, 512, 4);
	CALL_INT(build_write(&e, mr, offer.addr + 512, 512));
	expect_wc("written by builders", e.send_cq, e.qp, NULL);
	CALL_INT(ibv_destroy_qp(e.qp));
	CALL_INT(ibv_dereg_mr(e.mr));
	CALL_VOID(ibv_unimport_mr(mr));
	CALL_VOID(ibv_unimport_pd(pd));
	CALL_INT(ibv_close_device(c));
	return 0;
}

static void processes(void)
{
	unsigned char want[512];
	struct endpoint e = {0};
	uint32_t qp_num;
	int sockets[2], status;

	if (system("chmod 600 /dev/infiniband/uverbs*") || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
		die("preparing");
	memset(memory, 0, sizeof(memory));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(importer(sockets[1]));
	close(sockets[1]);
	endpoint_open(&e, "rxe0");
	struct ibv_mr *mr = ibv_reg_mr(e.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct offer offer = {e.pd->handle, mr->handle, e.qp->qp_num, (uintptr_t)memory, e.gid};

	tell(sockets[0], &offer, e.context->cmd_fd);
	if (read(sockets[0], &qp_num, sizeof(qp_num)) != sizeof(qp_num))
		die("no answer");
	ready(&e, &e.gid, qp_num);
	if (write(sockets[0], "", 1) != 1 || waitpid(child, &status, 0) != child)
		die("the other process");
	note("the other process has ended with status %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	pattern(want, sizeof(want), 3);
	check_data(memory, want, sizeof(want));
	pattern(want, sizeof(want), 4);
	check_data(memory + 512, want, sizeof(want));
	CALL_INT(ibv_dereg_mr(mr));
	close(sockets[0]);
	CALL_INT(ibv_destroy_qp(e.qp));
	CALL_INT(ibv_dereg_mr(e.mr));
	/* The other process left two completion queues, and no protection domain, behind. */
	CALL_INT(ibv_dealloc_pd(e.pd));
	CALL_INT(ibv_close_device(e.context));
}

int main(void)
{
	begin();
	note("files");
	files();
	note("fields");
	fields();
	note("owners");
	owners();
	note("work");
	work();
	note("processes");
	processes();
	return end();
}
