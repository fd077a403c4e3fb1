/*
 * asleep.h - in which system call a thread sleeps, by /proc: what is to meet a thread in a call waits until it is seen there, and
 * not for a time in which it has probably come there.
 *
 * Who wakes a thread has made it one that does not sleep when the waking call returns. So a thread that is seen asleep has dealt
 * with all that happened to it before.
 */
#ifndef TESTS_ASLEEP_H
#define TESTS_ASLEEP_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* What is no system call's number: the thread does not sleep, it does and the kernel does not say where, it has ended. */
enum { AWAKE = -1, SOMEWHERE = -2, GONE = -3 };

/* The first line of a file of a task's, or -1. By system calls, as some programs have functions in the place of the C library's. */
static inline long task_line(pid_t task, const char *name, char *line, size_t room)
{
	char path[64];
	long file, length;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)task, name);
	file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	length = syscall(SYS_read, file, line, room - 1);
	syscall(SYS_close, file);
	line[length > 0 ? length : 0] = 0;
	return length;
}

/* The number of the system call in which a thread, of this process or another, sleeps. */
static inline long asleep_in(pid_t task)
{
	char line[512], *name_end, state;

	if (task_line(task, "stat", line, sizeof(line)) <= 0)
		return GONE;
	name_end = strrchr(line, ')');
	state = name_end ? name_end[2] : 0;
	if (state == 'Z' || state == 'X')
		return GONE;
	if (state != 'S')
		return AWAKE;
	/* "running", or the number and the arguments. */
	if (task_line(task, "syscall", line, sizeof(line)) <= 0)
		return SOMEWHERE;
	return line[0] >= '0' && line[0] <= '9' ? atol(line) : AWAKE;
}

static inline int is_poll(long call)
{
#ifdef SYS_poll
	if (call == SYS_poll)
		return 1;
#endif
	return call == SYS_ppoll;
}

static inline int is_futex(long call)
{
	return call == SYS_futex;
}

/* Of calls that end when a file has something, or room for it. */
static inline int is_for_file(long call)
{
	return is_poll(call) || call == SYS_read || call == SYS_write;
}

/* Of a pause of the program's own. */
static inline int is_pause(long call)
{
	return call == SYS_nanosleep || call == SYS_clock_nanosleep;
}

/* Of everything but that. */
static inline int is_wait(long call)
{
	return !is_pause(call);
}

/* Whether a thread sleeps in such a call; in any where the kernel does not say. */
static inline int is_asleep(pid_t task, int (*in)(long))
{
	long call = asleep_in(task);

	return call == SOMEWHERE || (call >= 0 && in(call));
}

/*
 * Until a thread does, once its number is there; false where it has ended. Whoever calls has somebody who ends the program when
 * that does not come.
 */
static inline int until_asleep(const volatile pid_t *task, int (*in)(long))
{
	while (!*task || !is_asleep(*task, in)) {
		if (*task && asleep_in(*task) == GONE)
			return 0;
		usleep(200);
	}
	return 1;
}

#endif
