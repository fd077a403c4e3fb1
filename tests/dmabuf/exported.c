/*
 * exported.c KIND - regions of a dma-buf on the software device, as an exporter of the kernel made it.
 *
 *   frames   vgem, of which processors get page frames (VM_PFNMAP): the kernel reaches them for no other process
 *   pages    vivid, which gives pages as those of a file
 *
 * Proves: what peers write, send and add comes into the buffer, and what they read and are sent comes from it, between
 * two processes and within one; addresses are those of iova; the part of the buffer that is registered is the part that
 * is reached; what cannot be registered is refused as by a kernel device; a region leaves no mapping behind.
 */
#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>

#include "../../ctest/setup.h"

#ifndef IBV_DEVICE_CC_DMA_BOUNCE /* headers older than those of rdma-core 65 */
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *, struct ibv_mr_init_attr *);
#endif
#pragma weak ibv_reg_mr_ex

static int passed, failed;

#define EXPECT(condition)                                                                                      \
	do {                                                                                                   \
		if (condition) {                                                                               \
			passed++;                                                                              \
		} else {                                                                                       \
			failed++;                                                                              \
			printf("FAILED line %d: %s (errno %s)\n", __LINE__, #condition, errno_name(errno));     \
		}                                                                                              \
	} while (0)

#define PAGE 4096ul
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define IOVA 0x700000000040ul /* as far into its page as OFFSET */
#define OFFSET (3 * PAGE + 0x40)
#define LENGTH (1ul << 18)
#define SIZE (100 * PAGE) /* of a buffer, at least */

/* vgem: memory of a screen that nobody has. The structs are those of drm.h. */
static int frames(size_t length, unsigned flags)
{
	struct {
		uint32_t height, width, bpp, flags, handle, pitch;
		uint64_t size;
	} create = {.height = length / PAGE, .width = PAGE / 4, .bpp = 32};
	struct {
		uint32_t handle, flags;
		int32_t fd;
	} prime = {0};
	static int card = -1;

	if (card < 0)
		card = open("/dev/dri/card0", O_RDWR | O_CLOEXEC);
	if (card < 0 || ioctl(card, _IOC(_IOC_READ | _IOC_WRITE, 'd', 0xb2, sizeof(create)), &create))
		die("vgem: %s", errno_name(errno));
	prime.handle = create.handle;
	prime.flags = flags;
	if (create.size < length || ioctl(card, _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x2d, sizeof(prime)), &prime))
		die("exporting: %s", errno_name(errno));
	return prime.fd;
}

/* vivid: a frame of a camera that nobody has. */
static int pages(size_t length, unsigned flags)
{
	struct v4l2_requestbuffers request = {
		.count = 1, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
	struct v4l2_exportbuffer export = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .flags = flags};
	struct v4l2_format format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
	static int camera = -1;

	if (camera < 0) {
		camera = open("/dev/video0", O_RDWR | O_CLOEXEC);
		if (camera < 0 || ioctl(camera, VIDIOC_G_FMT, &format))
			die("vivid: %s", errno_name(errno));
		if (format.fmt.pix.sizeimage < length)
			die("vivid: %u bytes", format.fmt.pix.sizeimage);
		if (ioctl(camera, VIDIOC_REQBUFS, &request))
			die("vivid's buffers: %s", errno_name(errno));
	}
	if (ioctl(camera, VIDIOC_EXPBUF, &export))
		die("exporting: %s", errno_name(errno));
	return export.fd;
}

/* How many mappings of dma-bufs the process has. */
static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	while (maps && fgets(line, sizeof(line), maps))
		count += strstr(line, "/dmabuf:") != NULL;
	if (maps)
		fclose(maps);
	return count;
}

static void put(int to, const void *bytes, size_t length)
{
	if (write(to, bytes, length) != (ssize_t)length)
		die("the other process is gone");
}

static void get(int from, void *bytes, size_t length)
{
	if (recv(from, bytes, length, MSG_WAITALL) != (ssize_t)length)
		die("the other process is gone");
}

struct hello {
	union ibv_gid gid;
	uint32_t qp_num, rkey;
};

/* One request, and its completion's status. */
static int run(struct endpoint *e, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr, uint32_t rkey,
	       uint64_t add)
{
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = add;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(e->qp, &wr, &bad))
		return -1;
	return next_wc(e->send_cq, &wc) ? (int)wc.status : -2;
}

/* What a peer does to the buffer; its own memory holds a pattern afterwards as before. */
static void use(struct endpoint *e, uint32_t rkey, uint8_t *seen)
{
	static unsigned char want[65536];
	const size_t sizes[] = {1, 8, 100, 4096, 65536};
	struct ibv_sge sge = {(uintptr_t)e->buffer, 0, e->mr->lkey};
	uint64_t word;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t at = i * 40000 + 3;

		sge.length = sizes[i];
		pattern(e->buffer, sizes[i], i);
		memcpy(want, e->buffer, sizes[i]);
		EXPECT(run(e, IBV_WR_RDMA_WRITE, &sge, IOVA + at, rkey, 0) == IBV_WC_SUCCESS);
		EXPECT(!seen || !memcmp(seen + at, want, sizes[i]));
		memset(e->buffer, 0, sizes[i]);
		EXPECT(run(e, IBV_WR_RDMA_READ, &sge, IOVA + at, rkey, 0) == IBV_WC_SUCCESS);
		EXPECT(!memcmp(e->buffer, want, sizes[i]));
	}
	/* The last bytes of the region, and one more. */
	sge.length = 8;
	memcpy(e->buffer, "the last", 8);
	EXPECT(run(e, IBV_WR_RDMA_WRITE, &sge, IOVA + LENGTH - 8, rkey, 0) == IBV_WC_SUCCESS);
	EXPECT(!seen || !memcmp(seen + LENGTH - 8, "the last", 8));
	for (unsigned n = 0; n < 3; n++) {
		EXPECT(run(e, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IOVA + LENGTH - 64, rkey, 5) == IBV_WC_SUCCESS);
		memcpy(&word, e->buffer, 8);
		EXPECT(word == n * 5);
	}
}

static void child(int to)
{
	struct endpoint e = {0};
	struct hello own, other;
	struct ibv_sge sge;
	struct ibv_wc wc;
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	endpoint_open(&e, "soft0");
	own = (struct hello){e.gid, e.qp->qp_num, e.mr->rkey};
	put(to, &own, sizeof(own));
	get(to, &other, sizeof(other));
	ready(&e, &other.gid, other.qp_num);
	put(to, "r", 1);
	get(to, &go, 1);
	use(&e, other.rkey, NULL);
	sge = (struct ibv_sge){(uintptr_t)e.buffer, 8, e.mr->lkey};
	/* Sends to receive requests in the buffer, short and long. */
	for (size_t length = 60; length <= 60000; length *= 1000) {
		pattern(e.buffer, length, 9);
		sge.length = length;
		EXPECT(run(&e, IBV_WR_SEND, &sge, 0, 0, 0) == IBV_WC_SUCCESS);
	}
	/* What is sent from there. */
	memset(e.buffer, 0, e.length);
	for (unsigned n = 0; n < 2; n++)
		EXPECT(post_recv(&e, n, n * 1000, n ? 60000 : 60) == 0);
	put(to, "p", 1);
	for (unsigned n = 0; n < 2; n++)
		EXPECT(next_wc(e.recv_cq, &wc) && wc.status == IBV_WC_SUCCESS && wc.byte_len == (n ? 60000 : 60));
	static unsigned char want[60000];
	pattern(want, sizeof(want), 11);
	EXPECT(!memcmp(e.buffer, want, 60) && !memcmp(e.buffer + 1000, want, 60000));
	/* The region has gone, or its descriptor: who has the key is refused. */
	put(to, "g", 1);
	get(to, &go, 1);
	sge.length = 8;
	EXPECT(run(&e, IBV_WR_RDMA_WRITE, &sge, IOVA, other.rkey, 0) == IBV_WC_REM_ACCESS_ERR);
	printf("%d passed, %d failed in the peer\n", passed, failed);
	fflush(stdout);
	_exit(failed != 0);
}

static void refusals(struct ibv_pd *pd, int fd, int read_only, size_t size)
{
	struct ibv_mr *mr;

#define REFUSED(why, ...) EXPECT((errno = 0, !ibv_reg_dmabuf_mr(pd, __VA_ARGS__)) && errno == (why))
	REFUSED(EINVAL, 0, size + 1, 0, fd, RIGHTS);
	REFUSED(EINVAL, size, PAGE, 0, fd, RIGHTS);
	REFUSED(EINVAL, UINT64_MAX - PAGE + 1, PAGE, 0, fd, RIGHTS);
	REFUSED(EINVAL, 0, 0, 0, fd, RIGHTS);
	REFUSED(EINVAL, 64, PAGE, 0, fd, RIGHTS);
	REFUSED(EINVAL, 0, PAGE, 64, fd, RIGHTS);
	REFUSED(EINVAL, 0, PAGE, UINT64_MAX - PAGE + 1, fd, RIGHTS);
	REFUSED(EINVAL, 0, PAGE, 0, fd, IBV_ACCESS_REMOTE_WRITE);
	REFUSED(EINVAL, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_MW_BIND);
	REFUSED(EINVAL, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_ON_DEMAND);
	REFUSED(EINVAL, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_ZERO_BASED);
	REFUSED(EACCES, 0, PAGE, 0, read_only, IBV_ACCESS_LOCAL_WRITE);
	mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, read_only, IBV_ACCESS_REMOTE_READ);
	EXPECT(mr && !ibv_dereg_mr(mr));
	mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_RELAXED_ORDERING);
	EXPECT(mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	EXPECT(errno == EINVAL && mr && !ibv_dereg_mr(mr));
	mr = ibv_reg_dmabuf_mr(pd, 0, size, 0, fd, RIGHTS);
	EXPECT(mr && !ibv_dereg_mr(mr));
}

int main(int argc, char **argv)
{
	int ends[2], fd, read_only, status, before;
	struct endpoint e = {0}, near[2] = {{0}, {0}};
	struct hello own, other;
	struct ibv_mr *mr, *again;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
	unsigned char *memory, *seen;
	size_t size;
	char go;
	pid_t peer;
	bool is_frames = argc == 2 && !strcmp(argv[1], "frames");

	begin();
	if (!is_frames && (argc != 2 || strcmp(argv[1], "pages")))
		die("which exporter?");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || (peer = fork()) < 0)
		die("fork");
	if (!peer)
		child(ends[1]);

	fd = (is_frames ? frames : pages)(SIZE, O_CLOEXEC | O_RDWR);
	read_only = (is_frames ? frames : pages)(SIZE, O_CLOEXEC);
	size = lseek(fd, 0, SEEK_END);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		die("mmap: %s", errno_name(errno));
	memset(memory, 0, size);
	seen = memory + OFFSET;
	before = mappings();
	EXPECT(before == 1);

	endpoint_open(&e, "soft0");
	refusals(e.pd, fd, read_only, size);
	EXPECT(mappings() == before);
	mr = ibv_reg_dmabuf_mr(e.pd, OFFSET, LENGTH, IOVA, fd, RIGHTS);
	EXPECT(mr && mr->addr == (void *)OFFSET && mr->length == LENGTH && mr->pd == e.pd && mr->context == e.context);
	if (!mr)
		return 1;
	EXPECT(mappings() == before + 1);

	/* Between two queue pairs of this process. */
	endpoint_open_on(&near[0], e.context, e.pd);
	endpoint_open_on(&near[1], e.context, e.pd);
	connect_pair(&near[0], &near[1]);
	use(&near[0], mr->rkey, seen);
	memset(memory, 0, size);

	/* With another process; the descriptor is not needed any more. */
	close(fd);
	own = (struct hello){e.gid, e.qp->qp_num, mr->rkey};
	put(ends[0], &own, sizeof(own));
	get(ends[0], &other, sizeof(other));
	ready(&e, &other.gid, other.qp_num);
	sge = (struct ibv_sge){IOVA + 100, 60, mr->lkey};
	EXPECT(!ibv_post_recv(e.qp, &receive, &bad));
	sge = (struct ibv_sge){IOVA + 1000, 60000, mr->lkey};
	EXPECT(!ibv_post_recv(e.qp, &receive, &bad));
	get(ends[0], &go, 1);
	put(ends[0], "g", 1);
	for (unsigned n = 0; n < 2; n++)
		EXPECT(next_wc(e.recv_cq, &wc) && wc.status == IBV_WC_SUCCESS && wc.byte_len == (n ? 60000 : 60));
	pattern(e.buffer, 60000, 9);
	EXPECT(!memcmp(seen + 100, e.buffer, 60) && !memcmp(seen + 1000, e.buffer, 60000));
	EXPECT(!memcmp(seen + LENGTH - 8, "the last", 8));
	/* Nothing came beside the region. */
	for (size_t at = 0; at < OFFSET; at++)
		if (memory[at])
			failed++, at = OFFSET;
	for (size_t at = OFFSET + LENGTH; at < size; at++)
		if (memory[at])
			failed++, at = size;
	get(ends[0], &go, 1);
	pattern(seen + 2000, 60000, 11);
	sge = (struct ibv_sge){IOVA + 2000, 60, mr->lkey};
	EXPECT(run(&e, IBV_WR_SEND, &sge, 0, 0, 0) == IBV_WC_SUCCESS);
	sge.length = 60000;
	EXPECT(run(&e, IBV_WR_SEND, &sge, 0, 0, 0) == IBV_WC_SUCCESS);
	get(ends[0], &go, 1);

	/* By the call that describes everything. */
	struct ibv_mr_init_attr attr = {
		.length = PAGE, .access = RIGHTS, .comp_mask = 1 | 4 | 8, .iova = IOVA, .fd = read_only, .fd_offset = OFFSET};
	EXPECT(ibv_reg_mr_ex && !ibv_reg_mr_ex(e.pd, &attr) && errno == EACCES);
	attr.access = IBV_ACCESS_REMOTE_READ;
	again = ibv_reg_mr_ex ? ibv_reg_mr_ex(e.pd, &attr) : NULL;
	EXPECT(again && again->addr == (void *)OFFSET && !ibv_dereg_mr(again));

	EXPECT(!ibv_dereg_mr(mr));
	EXPECT(mappings() == before);
	put(ends[0], "g", 1);
	EXPECT(waitpid(peer, &status, 0) == peer && status == 0);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
