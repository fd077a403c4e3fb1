/*
 * agents.c - agents of every kind and of none, on a kernel with all that user_mad has, and on those without
 * P_Key indexes
 * or the second way to register.
 *
 *   agents DEBUG-LEVEL CARD PORT
 */
#include "umad.h"

static uint32_t ids[64];

static void register_first(int fd)
{
	static const int classes[] = {0, 1, 3, 4, 6, 7, 9, 0x0a, 0x2f, 0x30, 0x32, 0x4f, 0x50, 0x81, 0x82, 255, 256, -1};
	static const int versions[] = {0, 1, 2, 0x82, 0x83, 255, 257};
	long masks[2][16 / sizeof(long)] = {{0}, {0x8000000000000006, 0x4000000000000001}};
	uint8_t ouis[3][3] = {{0, 0, 0}, {0, 0x14, 5}, {0xff, 0xff, 0xff}};
	int id;

	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++) {
		for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
			for (unsigned r = 0; r < 3; r++)
				for (unsigned m = 0; m < 3; m++) {
					errno = 0;
					id = umad_register(fd, classes[c], versions[v], r, m ? masks[m - 1] : NULL);
					printf("umad_register(fd, %#x, %d, %u, mask %u) = %d, errno %s\n", classes[c], versions[v], r, m,
					       id, errno_name(errno));
					if (id >= 0)
						CALL_COUNT(umad_unregister(fd, id));
				}
		for (unsigned o = 0; o < 3; o++)
			for (unsigned r = 0; r < 3; r++) {
				errno = 0;
				id = umad_register_oui(fd, classes[c], r, ouis[o], masks[1]);
				printf("umad_register_oui(fd, %#x, %u, oui %u) = %d, errno %s\n", classes[c], r, o, id,
				       errno_name(errno));
				if (id >= 0)
					CALL_COUNT(umad_unregister(fd, id));
			}
	}
	CALL_COUNT(umad_register_oui(fd, 0x30, 1, ouis[1], NULL));
	CALL_COUNT(umad_unregister(fd, 0));
}

static void register_second(int fd)
{
	static const uint8_t classes[] = {0, 1, 3, 4, 0x2f, 0x30, 0x4f, 0x50, 0x81, 255};
	static const uint32_t flags[] = {0, UMAD_USER_RMPP, 2, 0xffffffff}, ouis[] = {0, 0x1405, 0xffffff, 0x1000000};
	struct umad_reg_attr attr;
	int result;

	for (unsigned c = 0; c < sizeof classes; c++)
		for (unsigned f = 0; f < 4; f++)
			for (unsigned o = 0; o < 4; o++)
				for (unsigned r = 0; r < 3; r++) {
					FILL(attr);
					attr.mgmt_class = classes[c];
					attr.mgmt_class_version = 1;
					attr.flags = flags[f];
					attr.oui = ouis[o];
					attr.rmpp_version = r;
					ids[0] = 77;
					errno = 0;
					result = umad_register2(fd, &attr, ids);
					printf("umad_register2(class %#x flags %#x oui %#x rmpp %u) = %d, errno %s\n", classes[c], flags[f],
					       ouis[o], r, result, errno_name(errno));
					FIELD(*(struct { uint32_t id; } *)ids, id);
					FIELD_X(attr, flags); FIELD_X(attr, oui); FIELD_X(attr, method_mask[1]);
					if (!result)
						CALL_COUNT(umad_unregister(fd, ids[0]));
				}
	CALL_INT(umad_register2(fd, NULL, ids));
	CALL_INT(umad_register2(fd, &attr, NULL));
	CALL_INT(umad_register2(fd, NULL, NULL));
	attr.mgmt_class = 4;
	attr.flags = 0;
	CALL_INT(umad_register2(-1, &attr, ids));
	CALL_INT(umad_register2(0x7fffffff, &attr, ids));
}

/* As many as there may be, then one more; numbers are used again. */
static void fill(int fd)
{
	long mask[16 / sizeof(long)] = {0};

	for (unsigned i = 0; i < UMAD_CA_MAX_AGENTS + 2; i++) {
		mask[0] = 1l << i;
		CALL_COUNT((int)(ids[i] = umad_register(fd, 4, 1, 0, mask)));
	}
	CALL_COUNT(umad_unregister(fd, 7));
	CALL_COUNT(umad_unregister(fd, 7));
	CALL_COUNT(umad_unregister(fd, 3));
	CALL_COUNT(umad_register(fd, 4, 1, 0, mask));
	CALL_COUNT(umad_register(fd, 1, 1, 0, NULL));
	for (int i = -1; i <= UMAD_CA_MAX_AGENTS; i++)
		CALL_COUNT(umad_unregister(fd, i));
}

/* Two files of a port get no request twice. */
static void contend(int fd, const char *card, int port)
{
	long both[16 / sizeof(long)] = {6}, one[16 / sizeof(long)] = {4};
	int other = umad_open_port(card, port);

	CALL_COUNT(umad_register(fd, 3, 2, 1, both));
	CALL_COUNT(umad_register(other, 3, 2, 1, one));
	CALL_COUNT(umad_register(other, 3, 1, 1, one));
	CALL_COUNT(umad_register(other, 3, 2, 1, NULL));
	CALL_INT(umad_close_port(fd));
	CALL_COUNT(umad_register(other, 3, 2, 1, one));
	CALL_INT(umad_close_port(other));
}

static void refused(int fd)
{
	struct umad_reg_attr attr = {.mgmt_class = 4, .mgmt_class_version = 1};
	static const int errors[] = {EPERM, EINVAL, ENOTTY, ENODEV, EPIPE, EINTR, 4095};
	long mask[16 / sizeof(long)] = {6};

	for (unsigned i = 0; kernel_answer && i < sizeof errors / sizeof *errors; i++) {
		kernel_answer("ioctl", -1, errors[i]);
		CALL_COUNT(umad_register(fd, 4, 1, 0, mask));
		kernel_answer("ioctl", -1, errors[i]);
		CALL_COUNT(umad_register_oui(fd, 0x30, 0, (uint8_t[]){0, 0, 1}, mask));
		kernel_answer("ioctl", -1, errors[i]);
		attr.flags = 0;
		ids[0] = 99;
		CALL_COUNT(umad_register2(fd, &attr, ids));
		FIELD_X(attr, flags);
		CALL_COUNT(umad_unregister(fd, ids[0]));
		kernel_answer("ioctl", -1, errors[i]);
		attr.flags = 1;
		CALL_COUNT(umad_register2(fd, &attr, ids));
		FIELD_X(attr, flags);
		CALL_COUNT(umad_unregister(fd, ids[0]));
		kernel_answer("ioctl", -1, errors[i]);
		CALL_COUNT(umad_unregister(fd, 0));
		kernel_answer("ioctl", 5, 0);
		CALL_COUNT(umad_unregister(fd, 0));
		kernel_answer("ioctl", 5, 0);
		CALL_COUNT(umad_register(fd, 4, 1, 0, mask));
	}
	/* A kernel that knows the first way to register alone, and refuses that too; or takes it. */
	for (unsigned i = 0; kernel_answer && i <= sizeof errors / sizeof *errors; i++)
		for (unsigned flags = 0; flags < 2; flags++) {
			bool refuses = i < sizeof errors / sizeof *errors;

			kernel_answer("ioctl", -1, ENOTTY);
			kernel_answer_then("ioctl", refuses ? -1 : 0, refuses ? errors[i] : 0);
			kernel_answer_then("ioctl", -1, EINVAL);
			attr.flags = flags;
			ids[0] = 99;
			CALL_COUNT(umad_register2(fd, &attr, ids));
			FIELD_X(attr, flags);
			CALL_COUNT(umad_unregister(fd, ids[0]));
			CALL_COUNT(umad_unregister(fd, 99));
		}
	/* A descriptor of another file, and of none. */
	CALL_COUNT(umad_register(-1, 4, 1, 0, mask));
	CALL_COUNT(umad_register_oui(-1, 0x30, 1, (uint8_t[]){0, 0, 1}, mask));
	CALL_COUNT(umad_unregister(-1, 0));
	CALL_COUNT(umad_unregister(0x7fffffff, 0));
	CALL_COUNT(umad_poll(-1, 0));
	CALL_COUNT(umad_get_fd(-1));
	CALL_COUNT(umad_get_fd(12345));
	CALL_COUNT(umad_close_port(-1));
	CALL_COUNT(umad_close_port(0x7fffffff));
}

static void refused_open(const char *card, int port)
{
	static const int errors[] = {EACCES, ENXIO, ENOENT, EMFILE, EBUSY};
	int fd;

	for (unsigned i = 0; kernel_answer && i < sizeof errors / sizeof *errors; i++) {
		kernel_answer("open", -1, errors[i]);
		CALL_COUNT(umad_open_port(card, port));
	}
	for (unsigned i = 0; kernel_answer && i < 2; i++) {
		kernel_answer("ioctl", i ? -1 : 3, EINVAL);
		fd = umad_open_port(card, port);
		note("opened %d, size %zu", fd >= 0, umad_size());
		umad_close_port(fd);
	}
}

int main(int argc, char **argv)
{
	int fd, port;

	if (argc != 4)
		return 2;
	begin();
	find_kernel();
	port = atoi(argv[3]);
	CALL_COUNT(umad_debug(atoi(argv[1])));
	fd = umad_open_port(argv[2], port);
	note("opened %d, size %zu", fd >= 0, umad_size());
	register_first(fd);
	register_second(fd);
	fill(fd);
	refused(fd);
	contend(fd, argv[2], port);
	refused_open(argv[2], port);
	return end();
}
