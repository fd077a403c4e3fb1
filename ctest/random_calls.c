/*
 * random_calls.c - long random sequences of calls of every verb.
 *
 *   random_calls SEED COUNT [all]          one sequence: a line per call with result, errno and what came back;
 *                                          without `all` only calls that create, modify, query and destroy
 *   random_calls --sums FIRST LAST COUNT   the sequences of these seeds, each in a process of its own: a line per
 *                                          seed with the number of calls and a checksum of what would be printed,
 *                                          which is kept in a file of that name in the folder RANDOM_KEEP, if given
 *
 * Creates, modifies, queries and destroys objects of two devices with valid and invalid arguments, over pools of
 * live objects; a pointer leaves its pool when its destruction succeeded, so no freed one is ever passed. Objects
 * are used while others hold them, in every order. Traffic runs between queue pairs of its own.
 */
#include <sys/wait.h>

#include "random_control.h"
#include "random_rounds.h"
#include "random_wrong.h"
#if NEWER
#include "random_newer.h"
#else
#include "random_rare.h"
#endif

static struct room rooms[2];

static void traffic(struct room *r)
{
	(void)r;
	if (!played && chance(20))
		data_calls(rooms);
}

static void sequence(uint64_t first, long count, bool all)
{
	enum { BASIC = 16 };
	static void (*const calls[])(struct room *) = {
		pd_calls, mr_calls, mr_calls, mw_calls, ah_calls, cq_calls, cq_calls, srq_calls, srq_calls, qp_calls, qp_calls,
		qp_calls, qp_calls, qp_calls, channel_calls, queries,
		/* and with `all` */
		unsupported_objects, helpers, addresses, wrong_calls, traffic,
#if NEWER
		newer_calls,
#endif
	};

	seed = first;
	transcript_calls = 0;
	if (!NEWER && all && chance(20))
		forks |= !RESULT("fork_init", ibv_fork_init());
	open_rooms(rooms);
	while (transcript_calls < (unsigned long)count)
		calls[rnd(all ? sizeof(calls) / sizeof(*calls) : BASIC)](&rooms[rnd(2)]);
	close_rooms(rooms);
	end();
}

static uint64_t sum = 0xcbf29ce484222325;

static ssize_t add_to_sum(void *cookie, const char *text, size_t length)
{
	if (cookie)
		fwrite(text, 1, length, cookie);
	for (size_t i = 0; i < length; i++)
		sum = (sum ^ (unsigned char)text[i]) * 0x100000001b3;
	return (ssize_t)length;
}

/* Whatever a sequence leaves, and however it ends, nothing of it is there for the next one. */
static void sum_of_sequence(uint64_t first, long count)
{
	FILE *out = stdout;
	int status;
	pid_t child = fork();

	if (!child) {
		const char *folder = getenv("RANDOM_KEEP");
		FILE *kept = NULL;
		char path[4096];

		alarm(300);
		if (folder) {
			snprintf(path, sizeof(path), "%s/%" PRIu64, folder, first);
			kept = fopen(path, "w");
			if (!kept)
				_exit(5);
		}
		stdout = fopencookie(kept, "w", (cookie_io_functions_t){.write = add_to_sum});
		if (!stdout)
			_exit(4);
		setvbuf(stdout, NULL, _IOFBF, 1 << 16);
		sequence(first, count, true);
		fflush(stdout);
		if (kept && fclose(kept))
			_exit(5);
		fprintf(out, "%" PRIu64 " %lu %016" PRIx64 "\n", first, transcript_calls, sum);
		fflush(out);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("no process");
	if (WIFSIGNALED(status))
		printf("%" PRIu64 " 0 signal %d\n", first, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("%" PRIu64 " 0 exit status %d\n", first, WEXITSTATUS(status));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--sums")) {
		uint64_t last = strtoull(argv[3], NULL, 0);

		for (uint64_t first = strtoull(argv[2], NULL, 0); first <= last; first++)
			sum_of_sequence(first, atol(argv[4]));
		return 0;
	}
	/* Lines are written at the end; where something hangs or dies, RANDOM_LINES shows how far it came. */
	setvbuf(stdout, NULL, getenv("RANDOM_LINES") ? _IOLBF : _IOFBF, 1 << 16);
	sequence(argc > 1 ? strtoull(argv[1], NULL, 0) : 1, argc > 2 ? atol(argv[2]) : 20000, argc > 3);
	return 0;
}
