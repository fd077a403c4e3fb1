/*
 * newer.c - verbs that came after rdma-core 44, between a program and a provider of rdma-core 65: which operation each one
 * calls and with what, and what the library makes of the answers.
 *
 * Fact: ibv_reg_mr_ex hands on the fields alone that comp_mask names, a buffer as an address, or as part of its dma-buf.
 * Fact: ibv_reg_buf_mr of a range outside the buffer, or with another protection domain, is EINVAL, and nobody is asked.
 * Fact: ibv_export_buf_dmabuf_fd of a buffer without a dma-buf is ENODATA.
 */
#include "recorder.h"

static struct ibv_context *c;
static struct ibv_pd pd, other_pd;
static struct ibv_comp_cntr counter;
static struct ibv_dmah dmah;
static struct private_dm dm;
static struct private_mr mr;
static union { struct ibv_qp qp; char room[376]; } qp;
static _Alignas(4096) char memory[8192];
/* What stands behind the handle of a buffer. */
static struct { void *addr; size_t size; struct ibv_pd *pd; int dmabuf_fd; } plain, file;

#define CALL(format, call)                                                                                             \
	do {                                                                                                           \
		puts(#call);                                                                                           \
		errno = 0;                                                                                             \
		__typeof__(call) got_ = (call);                                                                        \
		int error_ = errno;                                                                                    \
		printf("  = " format " errno %d\n", got_, error_);                                                     \
	} while (0)
#define INT(call) CALL("%d", call)
#define POINTER(call)                                                                                                  \
	do {                                                                                                           \
		puts(#call);                                                                                           \
		errno = 0;                                                                                             \
		uintptr_t got_ = (uintptr_t)(call);                                                                    \
		int error_ = errno;                                                                                    \
		printf("  =");                                                                                         \
		show_value(got_);                                                                                      \
		printf(" errno %d\n", error_);                                                                         \
	} while (0)
#define DOES(call)                                                                                                     \
	do {                                                                                                           \
		static const struct { int value, error; } answers_[] = {{0, 0}, {EBUSY, 0}, {EINVAL, EIO}, {-1, EPERM}, {7, 0}}; \
		for (unsigned i_ = 0; i_ < sizeof answers_ / sizeof *answers_; i_++) {                                 \
			answer = answers_[i_].value;                                                                   \
			answer_errno = answers_[i_].error;                                                             \
			INT(call);                                                                                     \
		}                                                                                                      \
	} while (0)
#define MAKES(object, call)                                                                                            \
	do {                                                                                                           \
		answer = (uintptr_t)&(object);                                                                         \
		answer_errno = 0;                                                                                      \
		POINTER(call);                                                                                         \
		answer = 0;                                                                                            \
		answer_errno = ENOMEM;                                                                                 \
		POINTER(call);                                                                                         \
		answer_errno = 0;                                                                                      \
		POINTER(call);                                                                                         \
	} while (0)
#define NAME(object) name(&object, #object)

static void counters(void)
{
	struct ibv_comp_cntr_init_attr attr = {.type = IBV_COMP_CNTR_TYPE_BYTES};
	struct ibv_qp_attach_comp_cntr_attr attach = {.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_SEND};
	struct ibv_comp_cntr_caps caps;
	uint64_t value;

	NAME(attr), NAME(attach), NAME(caps), NAME(value);
	memset(&caps, 0xa5, sizeof caps);
	DOES(ibv_query_comp_cntr_caps(c, &caps));
	printf("  max %llu %u ops %#x\n", (unsigned long long)caps.max_value, caps.max_counters, caps.supported_qp_attach_ops);
	memset(&caps, 0xa5, sizeof caps);
	DOES(_ibv_query_comp_cntr_caps(c, &caps, 8));
	printf("  max %llu %#x ops %#x\n", (unsigned long long)caps.max_value, caps.max_counters, caps.supported_qp_attach_ops);
	MAKES(counter, ibv_create_comp_cntr(c, &attr));
	DOES(ibv_set_comp_cntr(&counter, 1));
	DOES(ibv_set_err_comp_cntr(&counter, UINT64_MAX));
	DOES(ibv_inc_comp_cntr(&counter, 0));
	DOES(ibv_inc_err_comp_cntr(&counter, 1ull << 40));
	DOES(ibv_read_comp_cntr(&counter, &value));
	DOES(ibv_read_err_comp_cntr(&counter, &value));
	DOES(ibv_qp_attach_comp_cntr(&qp.qp, &counter, &attach));
	DOES(ibv_destroy_comp_cntr(&counter));
	name_count -= 4;
}

static void hints(void)
{
	struct ibv_dmah_init_attr attr = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 3};

	NAME(attr);
	MAKES(dmah, ibv_alloc_dmah(c, &attr));
	DOES(ibv_dealloc_dmah(&dmah));
	name_count--;
}

/* What the provider gets of a registration: its attributes stand on the library's stack. */
static void show_region(void)
{
	printf("  region: context %d pd %d addr", mr.mr.context == c, mr.mr.pd == &pd);
	show_value((uintptr_t)mr.mr.addr);
	printf(" length %zu\n", mr.mr.length);
}

static uintptr_t register_region(uintptr_t domain, uintptr_t attributes, uintptr_t a, uintptr_t b, uintptr_t x, uintptr_t y)
{
	const struct ibv_mr_init_attr *attr = (const void *)attributes;

	(void)a, (void)b, (void)x, (void)y;
	printf("  reg_mr_ex(");
	show_value(domain);
	printf(" length %zu access %#x mask %#llx iova %#llx", attr->length, attr->access, (unsigned long long)attr->comp_mask,
	       (unsigned long long)(attr->iova >= (uintptr_t)memory ? attr->iova - (uintptr_t)memory : attr->iova));
	show_value((uintptr_t)attr->addr);
	printf(" fd %d offset %#llx", attr->fd, (unsigned long long)attr->fd_offset);
	show_value((uintptr_t)attr->dmah);
	puts(" )");
	if (answer_errno)
		errno = answer_errno;
	return answer;
}

static void regions(void)
{
	struct ibv_mr_init_attr attr = {.length = 4096, .access = IBV_ACCESS_LOCAL_WRITE, .iova = 0x1000, .addr = memory,
					.fd = 5, .fd_offset = 0x3000, .dmah = &dmah};

	for (unsigned mask = 0; mask < 1 << 6; mask++)
		for (int which = 0; which < 2; which++) {
			attr.comp_mask = mask;
			attr.buf = which ? (struct ibv_buf *)&file : (struct ibv_buf *)&plain;
			printf("mask %#x %s\n", mask, which ? "file" : "plain");
			memset(&mr, 0xa5, sizeof mr);
			answer = (uintptr_t)&mr;
			answer_errno = 0;
			POINTER(ibv_reg_mr_ex(&pd, &attr));
			show_region();
		}
	attr.comp_mask = 1ull << 40 | IBV_REG_MR_MASK_ADDR;
	POINTER(ibv_reg_mr_ex(&pd, &attr));
	attr.comp_mask = IBV_REG_MR_MASK_ADDR;
	attr.access = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_RELAXED_ORDERING;
	MAKES(mr, ibv_reg_mr_ex(&pd, &attr));

	answer = (uintptr_t)&mr;
	answer_errno = 0;
	for (int which = 0; which < 2; which++) {
		struct ibv_buf *buf = which ? (struct ibv_buf *)&file : (struct ibv_buf *)&plain;

		POINTER(ibv_reg_buf_mr(&pd, buf, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
		show_region();
		POINTER(ibv_reg_buf_mr(&pd, buf, memory + 4000, 96, 0));
		show_region();
		POINTER(ibv_reg_buf_mr(&pd, buf, memory + 4000, 97, 0));
		POINTER(ibv_reg_buf_mr(&pd, buf, memory + 4096, 0, 0));
		POINTER(ibv_reg_buf_mr(&pd, buf, memory + 4097, 0, 0));
		POINTER(ibv_reg_buf_mr(&pd, buf, memory - 1, 1, 0));
		POINTER(ibv_reg_buf_mr(&pd, buf, memory, SIZE_MAX, 0));
		POINTER(ibv_reg_buf_mr(&other_pd, buf, memory, 1, 0));
		errno = 0;
		int fd = ibv_export_buf_dmabuf_fd(buf);
		printf("ibv_export_buf_dmabuf_fd = %d errno %d, closed at exec %d\n", fd < 0 ? fd : 1, errno,
		       fd < 0 ? -1 : fcntl(fd, F_GETFD) & FD_CLOEXEC);
		if (fd >= 0)
			close(fd);
	}
}

static void buffers(void)
{
	struct ibv_buf *buf = NULL;

	name(&buf, "buf");
	MAKES(memory, ibv_alloc_buf(&pd, 12345, &buf));
	puts("ibv_free_buf(&plain)");
	ibv_free_buf((struct ibv_buf *)&plain);
	name_count--;
}

int main(void)
{
	uint64_t speed;

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	operations.reg_mr_ex = register_region;
	c = open_recorder(NULL);
	pd.context = other_pd.context = counter.context = dmah.context = dm.dm.context = qp.qp.context = c;
	plain.addr = file.addr = memory;
	plain.size = file.size = 4096;
	plain.pd = file.pd = &pd;
	plain.dmabuf_fd = -1;
	file.dmabuf_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (dup2(file.dmabuf_fd, 0x70) < 0)
		return 1;
	file.dmabuf_fd = 0x70;
	NAME(pd), NAME(other_pd), NAME(counter), NAME(dmah), NAME(dm), NAME(mr), NAME(qp), NAME(plain), NAME(file), NAME(speed);
	name(memory, "memory");
	name(memory + 4000, "memory + 4000");
	name(memory + 4096, "memory + 4096");
	counters();
	hints();
	DOES(ibv_query_port_speed(c, 1, &speed));
	DOES(ibv_query_port_speed(c, UINT32_MAX, &speed));
	DOES(ibv_dm_export_dmabuf_fd(&dm.dm));
	regions();
	buffers();
	for (int opcode = -1; opcode < 20; opcode++) {
		const char *text = ibv_wr_opcode_str(opcode);

		printf("ibv_wr_opcode_str(%d) = %s\n", opcode, text ? text : "(none)");
	}
	printf("ibv_event_type_str(%d) = %s\n", IBV_EVENT_DEVICE_SPEED_CHANGE, ibv_event_type_str(IBV_EVENT_DEVICE_SPEED_CHANGE));
	answer = 0;
	answer_errno = 0;
	printf("ibv_close_device = %d\n", ibv_close_device(c));
	return 0;
}
