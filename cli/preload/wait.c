/*
 * poll() of channels. A peer's message makes a channel's descriptor readable before it is known whether an
 * event comes of it; a program that polls first and then waits for an event must not be told so when none does.
 *
 * Not seen: select(), and epoll descriptors that have a channel among their members. They may say once that a
 * channel is readable that has no event; who waits so has set O_NONBLOCK, and asks again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "behind.h"
#include "readable.h"
#include "ucma.h"

/* Takes back what is no event; how many descriptors have something to say then. */
static int only_events(struct pollfd *fds, nfds_t count, int ready)
{
	for (nfds_t at = 0; at < count; at++) {
		const short readable = POLLIN | POLLRDNORM;

		if (!(fds[at].revents & readable) || !ironverbs_is_channel(fds[at].fd) || ironverbs_has_event(fds[at].fd))
			continue;
		fds[at].revents = (short)(fds[at].revents & ~readable);
		ready -= fds[at].revents == 0;
	}
	return ready;
}

static struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

/* The time from now to `end`, or none. */
static struct timespec rest(struct timespec end)
{
	struct timespec time = now();

	end.tv_sec -= time.tv_sec;
	end.tv_nsec -= time.tv_nsec;
	if (end.tv_nsec < 0) {
		end.tv_nsec += 1000000000;
		end.tv_sec--;
	}
	return end.tv_sec < 0 ? (struct timespec){ 0, 0 } : end;
}

static struct timespec after(struct timespec length)
{
	struct timespec time = now();

	time.tv_sec += length.tv_sec;
	time.tv_nsec += length.tv_nsec;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

static int has_channel(const struct pollfd *fds, nfds_t count)
{
	/* As far as they can be read: the rest is for the kernel to refuse. */
	uintptr_t readable = 0;

	if (!ironverbs_has_channels())
		return 0;
	for (nfds_t at = 0; at < count; at++) {
		uintptr_t end = (uintptr_t)(fds + at + 1);

		if (at == 0 || end > readable) {
			if (!ironverbs_is_readable(fds + at, sizeof(*fds)))
				return 0;
			readable = ((end - 1) | (IRONVERBS_PAGE - 1)) + 1;
		}
		if (ironverbs_is_channel(fds[at].fd))
			return 1;
	}
	return 0;
}

static int wait_for(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	BEHIND(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *));
	struct timespec end = timeout ? after(*timeout) : (struct timespec){ 0, 0 }, length;
	sigset_t before;
	int ready, failure;

	if (function == NULL)
		return -1;
	/* A handler that runs between two waits would end neither. */
	ironverbs_hold_signals(&before);
	if (mask == NULL)
		mask = &before;
	do {
		length = timeout ? rest(end) : (struct timespec){ 0, 0 };
		ready = function(fds, count, timeout ? &length : NULL, mask);
		if (ready <= 0)
			break;
		ready = only_events(fds, count, ready);
		if (ready == 0 && ironverbs_let_signals_in(mask)) {
			errno = EINTR;
			ready = -1;
		}
	} while (ready == 0 && (timeout == NULL || length.tv_sec || length.tv_nsec));
	failure = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = failure;
	return ready;
}

/* What is no time, or cannot be read, is for those behind this to refuse. */
static int is_time(const struct timespec *time)
{
	return ironverbs_is_readable(time, sizeof(*time)) && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	BEHIND(int, poll, (struct pollfd *, nfds_t, int));
	struct timespec length = { timeout / 1000, timeout % 1000 * 1000000L };

	if (has_channel(fds, count))
		return wait_for(fds, count, timeout < 0 ? NULL : &length, NULL);
	return function ? function(fds, count, timeout) : -1;
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	BEHIND(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *));

	if (has_channel(fds, count) && (timeout == NULL || is_time(timeout)))
		return wait_for(fds, count, timeout, mask);
	return function ? function(fds, count, timeout, mask) : -1;
}

/* What checked programs call; an array that is too short is for the C library to complain of. */
EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
	BEHIND(int, __poll_chk, (struct pollfd *, nfds_t, int, size_t));

	if (size / sizeof(*fds) >= count && has_channel(fds, count))
		return poll(fds, count, timeout);
	return function ? function(fds, count, timeout, size) : -1;
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
	BEHIND(int, __ppoll_chk, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t));

	if (size / sizeof(*fds) >= count && has_channel(fds, count))
		return ppoll(fds, count, timeout, mask);
	return function ? function(fds, count, timeout, mask, size) : -1;
}
