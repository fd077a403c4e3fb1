/*
 * late.h - an asynchronous event that is got and acknowledged only while its object is being destroyed.
 */
#ifndef CTEST_LATE_H
#define CTEST_LATE_H

#include <pthread.h>

#include "asleep.h"

static struct ibv_async_event late;
static uint64_t acknowledged_at;
static pthread_t late_thread;

static void *acknowledge_late(void *unused)
{
	(void)unused;
	wait_until_asleep(getpid(), 'S');
	acknowledged_at = now_ms();
	ibv_ack_async_event(&late);
	return NULL;
}

/* `late` is acknowledged once the calling thread, which is the main one, sleeps in the destruction of its object. */
static inline void acknowledge_later(void)
{
	if (pthread_create(&late_thread, NULL, acknowledge_late, NULL))
		die("no thread");
}

/* Whether the object was destroyed only after that. */
static inline void destroyed_after_acknowledgement(void)
{
	CHECK(acknowledged_at != 0 && now_ms() >= acknowledged_at);
	pthread_join(late_thread, NULL);
}

#endif
