/*
 * limits.c CASE - the subject meets a limit while it communicates: calls give the error, traffic goes on, and afterwards
 * everything works again.
 */
#include "sides.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define MOST 4096 /* objects of a kind */

static struct {
	void *objects[5][MOST];
	int count[5], refused[5];
} made;

static const char *const kinds[5] = {"protection domain", "completion queue", "queue pair", "region", "completion channel"};

static void *make(int kind)
{
	struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {256, 256, 4, 4, 64}, .qp_type = IBV_QPT_RC};

	switch (kind) {
	case 0: return ibv_alloc_pd(s.context);
	case 1: return ibv_create_cq(s.context, 4096, NULL, NULL, 0);
	case 2: return ibv_create_qp(s.pd, &init);
	case 3: return ibv_reg_mr(s.pd, s.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	default: return ibv_create_comp_channel(s.context);
	}
}

static int unmake(int kind, void *object)
{
	switch (kind) {
	case 0: return ibv_dealloc_pd(object);
	case 1: return ibv_destroy_cq(object);
	case 2: return ibv_destroy_qp(object);
	case 3: return ibv_dereg_mr(object);
	default: return ibv_destroy_comp_channel(object);
	}
}

/* Objects until each kind is refused, with one of `errors`. Bit k of `must`: kind k has to be refused at last. */
static void make_until_refused(unsigned must, const int *errors)
{
	for (int i = 0; i < MOST; i++)
		for (int kind = 0; kind < 5; kind++) {
			void *object;
			bool expected = false;

			if (made.refused[kind] > 3)
				continue;
			errno = 0;
			object = make(kind);
			if (object) {
				made.objects[kind][made.count[kind]++] = object;
				continue;
			}
			made.refused[kind]++;
			for (const int *error = errors; *error; error++)
				expected = expected || errno == *error;
			if (!expected)
				fail("a %s was refused with %s", kinds[kind], errno_name(errno));
		}
	for (int kind = 0; kind < 5; kind++)
		if (must >> kind & 1 && !made.refused[kind])
			fail("%d times a %s, and none refused", made.count[kind], kinds[kind]);
}

static void unmake_all(void)
{
	for (int kind = 4; kind >= 0; kind--) {
		while (made.count[kind])
			if (unmake(kind, made.objects[kind][--made.count[kind]]))
				fail("destroying a %s: %s", kinds[kind], errno_name(errno));
		made.refused[kind] = 0;
	}
}

/* Once the limit is gone. */
static void all_can_be_made(void)
{
	for (int kind = 0; kind < 5; kind++) {
		void *object = make(kind);

		if (!object || unmake(kind, object))
			fail("no %s afterwards: %s", kinds[kind], errno_name(errno));
	}
}

static void limit(int which, rlim_t value, struct rlimit *old)
{
	struct rlimit new;

	if (getrlimit(which, old))
		fail("limit");
	new = (struct rlimit){value, old->rlim_max};
	if (setrlimit(which, &new))
		fail("limit: %s", errno_name(errno));
}

static void go_on_for_a_while(void)
{
	uint64_t received = shared->received;

	while (shared->received < received + 200)
		usleep(1000);
}

/* --- Address space. */

static void *short_of_memory(void *unused)
{
	unsigned long pages = 0;
	struct rlimit old;
	FILE *statm;

	until_loaded();
	statm = fopen("/proc/self/statm", "r");
	if (!statm || fscanf(statm, "%lu", &pages) != 1)
		fail("statm");
	fclose(statm);
	limit(RLIMIT_AS, pages * 4096 + (256 << 10), &old);
	make_until_refused(1 << 2, (int[]){ENOMEM, 0});
	go_on_for_a_while();
	setrlimit(RLIMIT_AS, &old);
	unmake_all();
	all_can_be_made();
	return unused;
}

/* --- Descriptors. */

#define TRIES 100

static int taken[4096], takens;

static void take_descriptors(void)
{
	struct rlimit old;
	int fd;

	limit(RLIMIT_NOFILE, 256, &old);
	while (takens < 4096 && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		taken[takens++] = fd;
	if (errno != EMFILE)
		fail("descriptors");
}

static void give_descriptors(void)
{
	while (takens)
		close(taken[--takens]);
}

/* Other threads of the library may give descriptors back after all were taken, with which a device can be opened: again then. */
static void device_is_refused(struct ibv_device *device)
{
	for (int i = 0; i < TRIES; i++) {
		struct ibv_context *context;

		take_descriptors();
		errno = 0;
		context = ibv_open_device(device);
		if (!context && (errno == EMFILE || errno == ENOMEM))
			return;
		if (!context)
			fail("a device was refused with %s", errno_name(errno));
		if (ibv_close_device(context))
			fail("closing");
	}
	fail("%d times a device was opened without a descriptor", TRIES);
}

static void *short_of_descriptors(void *unused)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	until_loaded();
	if (!list || !list[0])
		fail("no device");
	device_is_refused(list[0]);
	ibv_free_device_list(list);
	make_until_refused(1 << 4, (int[]){EMFILE, ENOMEM, 0});
	go_on_for_a_while();
	give_descriptors();
	unmake_all();
	all_can_be_made();
	return unused;
}

/* All are taken before the first request of a connection is posted, for longer than a silent peer would be waited for. */
static void first_send_without(int socket, bool asleep)
{
	open_side();
	if (!connect_side(socket))
		fail("the peer is gone before it was connected");
	take_descriptors();
	for (int p = 0; p < PAIRS; p++)
		send_one(p);
	usleep(400000); /* at least: a busy machine makes it more */
	give_descriptors();
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
}

/* --- Length of files. */

static void *short_files(void *unused)
{
	struct rlimit old;

	until_loaded();
	limit(RLIMIT_FSIZE, 4096, &old);
	make_until_refused(1 << 2, (int[]){ENOMEM, EFBIG, 0});
	usleep(300000); /* longer than what is known of a file is believed */
	go_on_for_a_while();
	setrlimit(RLIMIT_FSIZE, &old);
	unmake_all();
	all_can_be_made();
	return unused;
}

/* --- A full file system. */

/* Where the processes meet; their queues lie elsewhere. */
static void *full_file_system(void *unused)
{
	char path[512], block[65536] = {1};
	int fd, status;
	pid_t comer;

	until_loaded();
	snprintf(path, sizeof(path), "%s/../filler", getenv("IRONVERBS_SOFT_DIR"));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		fail("%s: %s", path, errno_name(errno));
	for (size_t size = sizeof(block); size >= 1;)
		if (write(fd, block, size) <= 0)
			size /= 2;
	if (errno != ENOSPC)
		fail("filling: %s", errno_name(errno));
	/* There is no room for one more process. */
	comer = fork();
	if (!comer) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		alarm(GUARD);
		errno = 0;
		_exit(!list || !list[0] || ibv_open_device(list[0]) || errno != ENOMEM);
	}
	if (comer < 0 || waitpid(comer, &status, 0) != comer || status)
		fail("one more process opened its device, or got another error");
	all_can_be_made();
	go_on_for_a_while();
	close(fd);
	unlink(path);
	all_can_be_made();
	return unused;
}

static void *(*meets_limit)(void *);

static void *then_enough(void *unused)
{
	meets_limit(unused);
	shared->enough = 1;
	return unused;
}

static void at_limit(void *(*meets)(void *))
{
	meets_limit = meets;
	beside_load = then_enough;
	start_sides(side_with_thread, plain_side, false);
	side_ended(0, 0);
	side_ended(1, 0);
}

static void address_space(void)
{
	at_limit(short_of_memory);
}

static void descriptors(void)
{
	at_limit(short_of_descriptors);
}

/* It is not the peer that is silent, so the requests wait for a descriptor. */
static void first_send(void)
{
	start_sides(first_send_without, plain_side, false);
	wait_for_load();
	both_end_well();
}

static void file_size(void)
{
	at_limit(short_files);
}

static void full(void)
{
	at_limit(full_file_system);
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"address-space", address_space},
						      {"descriptors", descriptors},
						      {"first-send", first_send},
						      {"file-size", file_size},
						      {"full", full},
						      {NULL, NULL}};

	return run_case(cases, argc, argv);
}
