/*
 * fork.c - a process that forks while another of its threads opens or closes the first device. The child opens a device of
 * its own, whatever that thread was doing, and sends itself a message.
 *
 *   fork at     the thread is held at each system call of opening and closing in turn that names a file
 *   fork [N]    N forks (default 200) while the thread opens and closes over and over
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "../soft/peer.h"

/* The thread waits within its system call number `hold`, counted from the start of opening. */
static _Thread_local bool counted;
static atomic_int calls, hold = -1;
static atomic_bool held, let_go;

static void gate(void)
{
	if (!counted || atomic_fetch_add(&calls, 1) != atomic_load(&hold))
		return;
	atomic_store(&held, true);
	while (!atomic_load(&let_go))
		usleep(100);
}

/* This program's functions come before the C library's. */
int open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	int mode = va_arg(args, int);
	va_end(args);
	gate();
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	int mode = va_arg(args, int);
	va_end(args);
	gate();
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

int mkdir(const char *path, mode_t mode)
{
	gate();
	return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkfifoat(int folder, const char *path, mode_t mode)
{
	gate();
	return (int)syscall(SYS_mknodat, folder, path, S_IFIFO | mode, 0);
}

int unlinkat(int folder, const char *path, int flags)
{
	gate();
	return (int)syscall(SYS_unlinkat, folder, path, flags);
}

ssize_t readlink(const char *restrict path, char *restrict to, size_t size)
{
	gate();
	return syscall(SYS_readlinkat, AT_FDCWD, path, to, size);
}

char *getenv(const char *name)
{
	static char *(*real)(const char *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getenv");
	gate();
	return real(name);
}

static struct ibv_context *first_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return context;
}

static atomic_bool done, failed_to_open;

static void *open_once(void *unused)
{
	counted = true;
	struct ibv_context *context = first_device();

	if (context)
		ibv_close_device(context);
	else
		atomic_store(&failed_to_open, true);
	atomic_store(&done, true);
	return unused;
}

static void *open_often(void *unused)
{
	while (!atomic_load(&let_go)) {
		struct ibv_context *context = first_device();

		if (context)
			ibv_close_device(context);
		else
			atomic_store(&failed_to_open, true);
	}
	return unused;
}

/* In the child: a device of its own that works. */
static void child(void)
{
	struct endpoint a = {0}, b = {0};
	struct ibv_wc wc;

	alarm(250); /* ends a child that hangs */
	counted = false;
	open_pair(&a, &b, "rxe0", "rxe0");
	if (post_recv(&b, 1, 0, 8192) || post_send(&a, 2, 0, 8192) || !next_wc(b.recv_cq, &wc) || wc.status)
		fail("the child's message");
	endpoint_close(&a);
	endpoint_close(&b);
	_exit(0);
}

static int failed;

static void fork_and_look(const char *what, int which)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		child();
	if (waitpid(pid, &status, 0) != pid || status) {
		printf("FAIL %s %d: the child ended with %#x\n", what, which, status);
		failed++;
	}
}

/* Each case in a process of its own, in which nothing was opened before. */
static int held_at(int call)
{
	int status;
	pid_t pid;

	fflush(stdout);
	if (!(pid = fork())) {
		pthread_t thread;

		atomic_store(&hold, call);
		pthread_create(&thread, NULL, open_once, NULL);
		while (!atomic_load(&held) && !atomic_load(&done))
			usleep(100);
		if (!atomic_load(&held))
			_exit(2); /* there are not so many calls */
		fork_and_look("held at call", call);
		atomic_store(&let_go, true);
		pthread_join(thread, NULL);
		if (atomic_load(&failed_to_open)) {
			printf("FAIL held at call %d: the parent's opening\n", call);
			failed++;
		}
		fflush(stdout);
		_exit(failed != 0);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "at")) {
		int call = 0, status;

		for (; WEXITSTATUS(status = held_at(call)) != 2 && call < 1000; call++)
			failed += status != 0;
		printf("held at %d calls: ", call);
		if (call < 10)
			failed++;
	} else {
		int forks = argc > 1 ? atoi(argv[1]) : 200;
		pthread_t thread;

		pthread_create(&thread, NULL, open_often, NULL);
		for (int i = 0; i < forks; i++)
			fork_and_look("fork", i);
		atomic_store(&let_go, true);
		pthread_join(thread, NULL);
		if (atomic_load(&failed_to_open)) {
			printf("FAIL the parent's opening\n");
			failed++;
		}
	}
	printf("%d failed\n", failed);
	return failed != 0;
}
