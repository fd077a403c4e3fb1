/*
 * raw_frames.c - the frame of commands: lengths, numbers, pointers, ids that are none of the file's.
 *
 * Fact: a command that is longer or shorter than librdmacm's is answered as the kernel answers it.
 */
#include "raw.h"
#include <sys/stat.h>

static int fd;
static uint8_t *edge; /* the end of a page; the next cannot be read, and nothing else gets its place */

/* Runs of equal answers, one line each. */
static int run_from, run_last, run_result;

static void run_begin(void)
{
	run_from = -1;
}

static void run_end(const char *what)
{
	if (run_from >= 0)
		note("    %s %d..%d: %s", what, run_from, run_last, raw_result(run_result));
	run_from = -1;
}

static void run_add(const char *what, int n, int result)
{
	transcript_calls++;
	if (run_from >= 0 && result != run_result)
		run_end(what);
	if (run_from < 0)
		run_from = n;
	run_last = n;
	run_result = result;
}

/* A fresh id for a command that takes one, and rid of what came of it. */
static uint32_t fresh(int command)
{
	return raw_ids[command] < 0 ? 0 : raw_create(fd, PS_UDP, 0x1111);
}

static void done(int command, uint32_t id, int result)
{
	if (command == RDMA_USER_CM_CMD_CREATE_ID && !result)
		memcpy(&id, raw_answer, 4);
	else if (raw_ids[command] < 0)
		return;
	raw_do(fd, RDMA_USER_CM_CMD_DESTROY_ID, id);
}

static int one(int command, const struct raw_command *c, size_t length)
{
	memcpy(edge - length, c, length);
	return command >= 0 ? raw_write(fd, edge - length, length) : 0;
}

/* `in` says less than the command needs, while nothing else stands behind it. */
static void short_bodies(int command)
{
	struct raw_command c;

	run_begin();
	for (int in = 0; in <= raw_bodies[command]; in += raw_bodies[command] > 48 && in + 8 < raw_bodies[command] ? 8 : 4) {
		uint32_t id = fresh(command);
		int result;

		raw_fill(&c, command, id);
		c.header.in = in;
		result = one(command, &c, 8 + in);
		run_add("in", in, result);
		done(command, id, result);
	}
	run_end("in");
}

static void long_bodies(int command)
{
	struct raw_command c;

	run_begin();
	for (int more = 1; more <= 64; more *= 2) {
		uint32_t id = fresh(command);
		int result;

		raw_fill(&c, command, id);
		c.header.in += more;
		result = one(command, &c, 8 + c.header.in);
		run_add("longer by", more, result);
		done(command, id, result);
	}
	run_end("longer by");
	uint32_t id = fresh(command);

	raw_fill(&c, command, id);
	note("    written longer than said: %s", raw_result(raw_write(fd, &c, 8 + raw_bodies[command] + 16)));
	done(command, id, 1);
	id = fresh(command);
	raw_fill(&c, command, id);
	if (raw_bodies[command])
		note("    said longer than written: %s", raw_result(raw_write(fd, &c, 7 + raw_bodies[command])));
	done(command, id, 1);
}

static void short_answers(int command)
{
	struct raw_command c;

	run_begin();
	for (int out = 0; out <= raw_answers[command] + 8; out += 4) {
		uint32_t id = fresh(command);
		int result, touched = sizeof(raw_answer);

		raw_fill(&c, command, id);
		c.header.out = out;
		result = raw_write(fd, &c, 8 + raw_bodies[command]);
		while (touched && raw_answer[touched - 1] == 0xa5)
			touched--;
		if (touched > out)
			note("    more is written than there is room: %d of %d", touched, out);
		run_add("out", out, result);
		done(command, id, result);
	}
	run_end("out");
}

static void pointers(int command)
{
	static const uint64_t all[] = {0, 1, 0x1000, UINT64_MAX, UINT64_MAX - 7, 1ULL << 47, (1ULL << 47) - 4096, 1ULL << 63};
	struct raw_command c;

	if (raw_pointers[command] < 0)
		return;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		uint32_t id = fresh(command);
		int result;

		raw_fill(&c, command, id);
		memcpy(c.u.bytes + raw_pointers[command], &all[i], 8);
		result = raw_write(fd, &c, 8 + raw_bodies[command]);
		note("    answer to 0x%llx: %s", (unsigned long long)all[i], raw_result(result));
		done(command, id, 1);
	}
	uint32_t id = fresh(command);
	uint64_t last = (uintptr_t)(edge - 2);

	raw_fill(&c, command, id);
	memcpy(c.u.bytes + raw_pointers[command], &last, 8);
	note("    answer to the last two bytes of a page: %s", raw_result(raw_write(fd, &c, 8 + raw_bodies[command])));
	done(command, id, 1);
}

static void ids(int command)
{
	int other;
	uint32_t foreign;

	if (raw_ids[command] < 0)
		return;
	other = raw_open();
	foreign = raw_create(other, PS_TCP, 1);
	note("    id 0x7fffffff: %s", raw_result(raw_do(fd, command, 0x7fffffff)));
	note("    id 0xffffffff: %s", raw_result(raw_do(fd, command, 0xffffffff)));
	note("    id of another file: %s", raw_result(raw_do(fd, command, foreign)));
	close(other);
	note("    id of a closed file: %s", raw_result(raw_do(fd, command, foreign)));
}

static void headers(void)
{
	static const uint32_t numbers[] = {23, 24, 25, 26, 100, 255, 256, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
	struct raw_command c;

	note("headers");
	for (size_t length = 0; length <= 8; length++) {
		raw_fill(&c, RDMA_USER_CM_CMD_GET_OPTION, 0);
		note("    length %zu: %s", length, raw_result(one(0, &c, length)));
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		memset(&c, 0, sizeof(c));
		c.header.cmd = numbers[i];
		c.header.in = 400;
		note("    command %u: %s", numbers[i], raw_result(raw_write(fd, &c, 408)));
	}
	memset(&c, 0, sizeof(c));
	c.header.in = 65535;
	note("    in 65535: %s", raw_result(raw_write(fd, &c, 408)));
	errno = 0;
	note("    from nowhere: %s", raw_result(raw_write(fd, (void *)8, 32)));
	note("    from nowhere, length 0: %s", raw_result(raw_write(fd, NULL, 0)));
	note("    from the end of a page on: %s", raw_result(raw_write(fd, edge - 4, 32)));
}

static void file(void)
{
	struct stat status;
	char byte;

	note("the file");
	CALL_INT(fstat(fd, &status));
	CHECK(S_ISCHR(status.st_mode));
	FIELD(status, st_size);
	CALL_COUNT(read(fd, &byte, 1));
	CALL_COUNT(lseek(fd, 0, SEEK_END));
	CALL_PTR(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? NULL : edge);
	CALL_COUNT(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
	int only = open(DEVICE, O_RDONLY);

	note("    a command to a file open for reading: %s", raw_result(raw_do(only, RDMA_USER_CM_CMD_CREATE_ID, 0)));
	close(only);
	only = open(DEVICE, O_WRONLY | O_NONBLOCK);
	note("    a command to a file open for writing: %s", raw_result(raw_do(only, RDMA_USER_CM_CMD_CREATE_ID, 0)));
	note("    no event without waiting: %s", raw_result(raw_do(only, RDMA_USER_CM_CMD_GET_EVENT, 0)));
	close(only);
	CALL_COUNT(open(DEVICE, O_RDWR | O_CREAT | O_EXCL, 0600));
	CALL_COUNT(open(DEVICE, O_RDWR | O_DIRECTORY));
	CALL_COUNT(open(DEVICE "/x", O_RDWR));
}

int main(void)
{
	begin();
	fd = raw_open();
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (edge == MAP_FAILED || mprotect(edge + 4096, 4096, PROT_NONE))
		die("memory");
	edge += 4096;
	file();
	headers();
	for (int command = 0; command < RAW_COMMANDS; command++) {
		note("%s", raw_names[command]);
		short_bodies(command);
		long_bodies(command);
		short_answers(command);
		pointers(command);
		ids(command);
	}
	close(fd);
	return end();
}
