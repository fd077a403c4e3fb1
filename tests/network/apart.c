/*
 * apart.c - preloaded: a program and its children are on two hosts.
 *
 * NETWORK_SIDES is `PID PID`, processes in the network namespaces of the hosts a and b. The program itself is on host a, its
 * children are on b and a by turns, and theirs are where they are. A child has a folder of its host's, b or a within the
 * IRONVERBS_SOFT_DIR of the program.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLACED "NETWORK_PLACED" /* in the environment of who has been given a host */

static pid_t program;
static unsigned children;

static void enter(int side)
{
	const char *sides = getenv("NETWORK_SIDES");
	int pids[2], space = -1;
	char path[64];

	if (sides && sscanf(sides, "%d %d", &pids[0], &pids[1]) == 2) {
		snprintf(path, sizeof(path), "/proc/%d/ns/net", pids[side]);
		space = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (space < 0 || setns(space, CLONE_NEWNET)) {
		perror("apart: no such network namespace");
		_exit(125);
	}
	close(space);
}

__attribute__((constructor)) static void start(void)
{
	if (getenv(PLACED))
		return;
	setenv(PLACED, "1", 1);
	program = getpid();
	enter(0);
}

pid_t fork(void);
pid_t fork(void)
{
	pid_t (*real)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
	int side = children % 2 ? 0 : 1;
	pid_t pid;

	if (getpid() != program)
		return real();
	pid = real();
	if (pid) {
		children++;
		return pid;
	}
	char folder[4096];

	snprintf(folder, sizeof(folder), "%s/%c", getenv("IRONVERBS_SOFT_DIR"), "ab"[side]);
	setenv("IRONVERBS_SOFT_DIR", folder, 1);
	enter(side);
	return 0;
}
