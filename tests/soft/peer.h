/*
 * peer.h - two processes that connect queue pairs over a socket pair.
 */
#ifndef SOFT_PEER_H
#define SOFT_PEER_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../../ctest/setup.h"

#define HANG_S 900 /* seconds after which a process that hangs is ended; nothing is judged by that */

/* What one side has to know of the other. */
struct peer {
	union ibv_gid gid;
	uint32_t qp_num[8];
	uint64_t address;
	uint32_t rkey;
};

/* Tell the other side and hear from it; false when it is gone. */
static inline bool swap(int socket, const void *own, void *others, size_t length)
{
	return send(socket, own, length, MSG_NOSIGNAL) == (ssize_t)length &&
	       recv(socket, others, length, MSG_WAITALL) == (ssize_t)length;
}

/* Wait for the other side to come here, too. */
static inline bool meet(int socket)
{
	char own = 'm', others;

	return swap(socket, &own, &others, 1);
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%d: ", (int)getpid());
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(1);
}

#endif
