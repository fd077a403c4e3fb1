/*
 * folders.c CASE - contexts of one process after one another, while IRONVERBS_SOFT_DIR changes.
 *
 * With the last context a process leaves its folder, and the next one that it opens finds the folder that the
 * environment names then.
 */
#include "sides.h"

#include <dirent.h>
#include <sys/stat.h>

#define ROUNDS 200
#define MORE 16

static char folders[2][128];

static void prepare(void)
{
	const char *given = getenv("IRONVERBS_SOFT_DIR");

	for (int i = 0; i < 2; i++) {
		snprintf(folders[i], sizeof(folders[i]), "%s/%d", given, i);
		if (mkdir(folders[i], 0700))
			fail("%s: %s", folders[i], errno_name(errno));
	}
}

static void use(int folder)
{
	setenv("IRONVERBS_SOFT_DIR", folders[folder], 1);
}

/* Processes in both folders. */
static void in_folders(const char *when, int first, int second)
{
	int want[2] = {first, second};

	for (int i = 0; i < 2; i++) {
		DIR *open = opendir(folders[i]);
		int count = 0;

		for (struct dirent *entry; open && (entry = readdir(open));)
			count += entry->d_name[0] == 's' && strlen(entry->d_name) == 5;
		if (!open || count != want[i])
			fail("%s: %d processes in folder %d", when, count, i);
		closedir(open);
	}
}

/*
 * A queue pair that is connected with itself, with a message that finds no receive request, and more of them: so
 * the library's thread has something to do.
 */
static void post(struct endpoint *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, 64, e->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	ready(e, &e->gid, e->qp->qp_num);
	if (ibv_post_send(e->qp, &wr, &bad))
		fail("posting");
}

static void open_busy(struct endpoint *e, struct endpoint *more, int count)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	endpoint_open(e, "rxe0");
	post(e);
	init.send_cq = e->send_cq;
	init.recv_cq = e->recv_cq;
	for (int i = 0; i < count; i++) {
		more[i] = *e;
		more[i].qp = ibv_create_qp(e->pd, &init);
		if (!more[i].qp)
			fail("queue pair");
		post(&more[i]);
	}
}

/* The library's thread may be at work for a queue pair just when that and the context go. */
static void one_after_another(void)
{
	prepare();
	for (int i = 0; i < ROUNDS; i++) {
		struct endpoint e = {0}, more[MORE];

		use(i % 2);
		open_busy(&e, more, MORE);
		in_folders("while a context is open", i % 2 == 0, i % 2 == 1);
		usleep((useconds_t)(i * 37 % 2500));
		for (int j = 0; j < MORE; j++)
			if (ibv_destroy_qp(more[j].qp))
				fail("destroying");
		endpoint_close(&e);
		in_folders("after the last context", 0, 0);
	}
}

/* Objects that the program has not destroyed are lost with the context. */
static void left_behind(void)
{
	struct endpoint e[2] = {{.with_channel = true}, {0}};

	prepare();
	use(0);
	open_busy(&e[0], NULL, 0);
	if (ibv_close_device(e[0].context))
		fail("closing");
	in_folders("after the last context", 0, 0);
	use(1);
	open_busy(&e[1], NULL, 0);
	in_folders("in another folder", 0, 1);
	endpoint_close(&e[1]);
	in_folders("after that", 0, 0);
}

/* As long as a context is open, others share its folder, whatever the environment says by now. */
static void shared_by_contexts(void)
{
	struct endpoint e[2] = {{0}, {0}};

	prepare();
	use(0);
	open_busy(&e[0], NULL, 0);
	use(1);
	open_busy(&e[1], NULL, 0);
	in_folders("with two contexts", 1, 0);
	endpoint_close(&e[0]);
	in_folders("with the second", 1, 0);
	endpoint_close(&e[1]);
	in_folders("after the last context", 0, 0);
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"one-after-another", one_after_another},
						      {"left-behind", left_behind},
						      {"shared", shared_by_contexts},
						      {NULL, NULL}};

	return run_case(cases, argc, argv);
}
