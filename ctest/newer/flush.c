/*
 * flush.c - flushes and atomic writes of soft-RoCE, which kernels since 6.2 carry out.
 *
 * Proves: what the device and its regions say about both, the completion of each request, what it leaves in the peer's
 * memory, and how each that the peer must refuse fails; on an older kernel, how all of them fail.
 * Built with headers of rdma-core 65; runs with the library of that release and with ours.
 */
#include "../setup.h"

static struct endpoint a, b;
static struct ibv_qp_ex *x;

static void post_flush(uint64_t wr_id, uint32_t rkey, void *at, size_t length, uint8_t type, uint8_t level)
{
	ibv_wr_start(x);
	x->wr_id = wr_id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(x, rkey, (uintptr_t)at, length, type, level);
	CALL_INT(ibv_wr_complete(x));
}

static void post_atomic_write(uint64_t wr_id, uint32_t rkey, void *at, const void *value)
{
	ibv_wr_start(x);
	x->wr_id = wr_id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(x, rkey, (uintptr_t)at, value);
	CALL_INT(ibv_wr_complete(x));
}

static void post_write(uint64_t wr_id, size_t length)
{
	ibv_wr_start(x);
	x->wr_id = wr_id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buffer, length);
	CALL_INT(ibv_wr_complete(x));
}

static void flush(const char *what, uint32_t rkey, void *at, size_t length, uint8_t type, uint8_t level)
{
	post_flush(10, rkey, at, length, type, level);
	expect_wc(what, a.send_cq, a.qp, NULL);
	reconnect_pair(&a, &b);
}

static void atomic_write(const char *what, uint32_t rkey, void *at, uint64_t value)
{
	post_atomic_write(20, rkey, at, &value);
	expect_wc(what, a.send_cq, a.qp, NULL);
	reconnect_pair(&a, &b);
}

static void region(const char *what, int access)
{
	struct ibv_mr *mr;

	note("%s", what);
	mr = CALL_PTR(ibv_reg_mr(b.pd, b.buffer, 4096, access));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
}

static void queue_pair(uint64_t send_ops_flags, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = a.send_cq,
		.recv_cq = a.recv_cq,
		.cap = a.cap,
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = a.pd,
		.send_ops_flags = send_ops_flags,
	};
	struct ibv_qp *qp = CALL_PTR(ibv_create_qp_ex(a.context, &init));

	note("    type %d operations 0x%llx", type, (unsigned long long)send_ops_flags);
	if (!qp)
		return;
	CHECK(!!ibv_qp_to_qp_ex(qp)->wr_flush);
	CHECK(!!ibv_qp_to_qp_ex(qp)->wr_atomic_write);
	CALL_INT(ibv_destroy_qp(qp));
}

int main(void)
{
	const int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_device_attr_ex attr;
	struct ibv_mr *plain, *readable;
	struct ibv_context *c;
	uint64_t value = 0x0123456789abcdef, found;

	begin();
	c = open_device("rxe1");
	CALL_INT(ibv_query_device_ex(c, NULL, &attr));
	FIELD_X(attr, device_cap_flags_ex);
	if (ibv_close_device(c))
		die("close");

	/* A kernel that cannot flush does not know the right either. */
	a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
	a.timeout = b.timeout = 14;
	if (attr.device_cap_flags_ex & (1ULL << 38)) {
		b.access = write | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL;
		b.qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL |
			      IBV_ACCESS_FLUSH_PERSISTENT;
	}
	open_pair(&a, &b, "rxe0", "rxe1");
	x = ibv_qp_to_qp_ex(a.qp);

	queue_pair(IBV_QP_EX_WITH_FLUSH, IBV_QPT_RC);
	queue_pair(IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QPT_RC);
	queue_pair(IBV_QP_EX_WITH_FLUSH, IBV_QPT_UC);
	queue_pair(IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QPT_UC);
	queue_pair(IBV_QP_EX_WITH_FLUSH, IBV_QPT_UD);

	region("for a flush that everybody sees", write | IBV_ACCESS_FLUSH_GLOBAL);
	region("for a flush to memory that lasts, which this is not", write | IBV_ACCESS_FLUSH_PERSISTENT);
	region("for both", write | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);

	plain = ibv_reg_mr(b.pd, b.buffer, 4096, write);
	readable = ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_REMOTE_READ);
	if (!plain || !readable)
		die("regions");

	pattern(a.buffer, 4096, 1);
	post_write(1, 4096);
	expect_wc("write", a.send_cq, a.qp, NULL);
	check_data(b.buffer, a.buffer, 4096);
	flush("a range", b.mr->rkey, b.buffer, 4096, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("the region", b.mr->rkey, b.buffer, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	flush("the region, told a length", b.mr->rkey, b.buffer, 4096, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	flush("a range of no bytes", b.mr->rkey, b.buffer, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("one byte", b.mr->rkey, b.buffer + 4095, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("up to the region's end", b.mr->rkey, b.buffer + 4096, b.length - 4096, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("beyond the region's end", b.mr->rkey, b.buffer + 4096, b.length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("before the region", b.mr->rkey, b.buffer - 1, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("of a key that is none", 0x12345678, b.buffer, 4096, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("without the region's right", plain->rkey, b.buffer, 4096, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	flush("to memory that lasts", b.mr->rkey, b.buffer, 4096, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	flush("both ways", b.mr->rkey, b.buffer, 4096, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	flush("no way at all", b.mr->rkey, b.buffer, 4096, 0, IBV_FLUSH_RANGE);

	memset(b.buffer, 0, 4096);
	atomic_write("atomic write", b.mr->rkey, b.buffer + 64, value);
	memcpy(&found, b.buffer + 64, sizeof(found));
	CHECK(found == value);
	CHECK(b.buffer[63] == 0 && b.buffer[72] == 0);
	atomic_write("into the region's last bytes", b.mr->rkey, b.buffer + b.length - 8, ~value);
	memcpy(&found, b.buffer + b.length - 8, sizeof(found));
	CHECK(found == ~value);
	atomic_write("not aligned", b.mr->rkey, b.buffer + 4, value);
	atomic_write("beyond the region's end", plain->rkey, b.buffer + 4096, value);
	atomic_write("of a key that is none", 0x12345678, b.buffer, value);
	atomic_write("without the right to write", readable->rkey, b.buffer, value);
	CHECK(memcmp(b.buffer, b.buffer + 8, 8) == 0);

	/* One list: the order of completions is that of the requests. */
	ibv_wr_start(x);
	x->wr_flags = IBV_SEND_SIGNALED;
	x->wr_id = 31;
	ibv_wr_rdma_write(x, b.mr->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buffer, 2048);
	x->wr_id = 32;
	ibv_wr_flush(x, b.mr->rkey, (uintptr_t)b.buffer, 2048, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	x->wr_id = 33;
	ibv_wr_atomic_write(x, b.mr->rkey, (uintptr_t)b.buffer + 2048, &value);
	CALL_INT(ibv_wr_complete(x));
	if (expect_wc("first of a list", a.send_cq, a.qp, NULL) && b.access) {
		expect_wc("second", a.send_cq, a.qp, NULL);
		expect_wc("third", a.send_cq, a.qp, NULL);
	}

	if (ibv_dereg_mr(plain) || ibv_dereg_mr(readable))
		die("deregistering");
	endpoint_close(&a);
	endpoint_close(&b);
	return end();
}
