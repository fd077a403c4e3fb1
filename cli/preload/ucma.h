/*
 * Between the functions that are preloaded (view.c, channel.c) and the library that answers for
 * /dev/infiniband/rdma_cm (libironverbs_ucma.so, the crate ironverbs-ucma), which is loaded when that file is
 * opened for the first time.
 */
#ifndef IRONVERBS_UCMA_H
#define IRONVERBS_UCMA_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Changes with what stands below. */
#define IRONVERBS_UCMA_VERSION 3

/* What a command answers that has to wait for an event: no errno value. */
#define IRONVERBS_UCMA_WAIT 4096

/* What the epoll set of a channel tells of the member that `open` names: it is readable (EPOLLIN), and this. */
#define IRONVERBS_UCMA_MEMBER UINT64_MAX

/*
 * Threads of this library and of libibverbs, each as its process (upper half) and its number, 0 for none (`List` of the crate
 * ironverbs-os): when the process ends, each of the two must tell the other's from the program's. This library gets it by the
 * struct below, libibverbs by a weak reference.
 */
#define IRONVERBS_SERVICE_THREADS 16
extern uint64_t ironverbs_service_threads[IRONVERBS_SERVICE_THREADS];

/* What the library may ask of the shim. */
struct ironverbs_shim {
	unsigned int version;
	/* A descriptor of the library's own, which the program is not to close; or it is to be closed now. 0, or an errno value. */
	int (*keep)(int fd);
	void (*release)(int fd);
	/* ironverbs_service_threads. */
	uint64_t *threads;
};

/* What the shim asks of the library. Negative answers are errno values. None is called for a descriptor that was inherited. */
struct ironverbs_ucma {
	/* A new channel: its descriptor, and a member of its epoll set that no other set has, by which the channel is known. */
	int (*open)(int flags, int *member);
	/* A command that is written to the channel: its length, or -IRONVERBS_UCMA_WAIT. `again`: it has waited. */
	ssize_t (*command)(int fd, const void *command, size_t length, int again);
	/* A command that had to wait will not be written again: it fails so. */
	void (*given_up)(int fd, const void *command, size_t length, int failure);
	/* Another descriptor of the channel. */
	int (*duplicated)(int fd, int copy);
	/* A descriptor of the channel is about to be closed, or was; with the last one the channel ends. */
	void (*closed)(int fd);
	/* Does what peers and the clock ask for; whether the channel has an event then. */
	int (*has_event)(int fd);
	/* The channels of a process that forked are not this child's. */
	void (*forked)(void);
	/* The process ends: names that others could see go away. */
	void (*ending)(void);
};

/* NULL where the versions differ. */
typedef const struct ironverbs_ucma *ironverbs_ucma_function(const struct ironverbs_shim *shim);

/* Opens a channel; its descriptor, or -1 and errno. */
int ironverbs_open_channel(int flags);

/* Whether `fd` is a channel, whose `st_mode` and `st_rdev` are to be those of the device file. */
int ironverbs_is_channel(int fd);

/* Whether there may be one at all. */
int ironverbs_has_channels(void);

/* Whether a channel that is readable has an event. */
int ironverbs_has_event(int fd);

/* Has signals wait, but those that a thread's own fault brings; which ones did before. */
void ironverbs_hold_signals(sigset_t *before);

/* Lets those in that wait and that the mask lets in; whether a handler ran. */
int ironverbs_let_signals_in(const sigset_t *mask);

/* The number of the device file: the kernel's, where it has one. */
void ironverbs_device_number(unsigned int *major_number, unsigned int *minor_number);

#endif
