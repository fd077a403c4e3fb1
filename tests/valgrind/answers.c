/*
 * answers.c - does memcheck know that the kernel has written its answers? The kernel is in the program, and marks what it
 * writes as unknown, as memcheck takes what the real one writes through the ioctl. Prints one line, and ends with 1 where an
 * answer is unknown to memcheck, or where this does not run on valgrind.
 */
#include <valgrind/memcheck.h>
#include "../commands/recorder.h"

static int answers_undefined(struct ib_uverbs_ioctl_hdr *hdr)
{
	for (unsigned i = 0; i < hdr->num_attrs; i++)
		if (hdr->attrs[i].attr_id & 1) {
			memset((void *)(uintptr_t)hdr->attrs[i].data, 0x33, hdr->attrs[i].len);
			hdr->attrs[i].flags |= UVERBS_ATTR_F_VALID_OUTPUT;
			VALGRIND_MAKE_MEM_UNDEFINED((uintptr_t)hdr->attrs[i].data, hdr->attrs[i].len);
		}
	return 0;
}

int main(void)
{
	struct { struct command_buffer link; struct ib_uverbs_attr attrs[2]; } own;
	struct ibv_context *c = open_recorder(NULL);
	unsigned char *answer = malloc(64);
	unsigned long bad;

	own.link = (struct command_buffer){NULL, own.attrs + 1, own.attrs + 2, 0xff, 0xff, 0, 0, 0,
					   {.object_id = 0x1234, .method_id = 1}};
	own.attrs[0] = (struct ib_uverbs_attr){.attr_id = 0x1001, .len = 64, .flags = UVERBS_ATTR_F_MANDATORY,
					       .data = (uintptr_t)answer};
	answer_ioctl = answers_undefined;
	if (execute_ioctl(c, &own.link))
		return 1;
	bad = VALGRIND_CHECK_MEM_IS_DEFINED(answer, 64);
	printf("valgrind %d, unknown to memcheck %d\n", RUNNING_ON_VALGRIND, bad != 0);
	return !RUNNING_ON_VALGRIND || bad != 0;
}
