/*
 * transcript.h - print what a verb answers.
 *
 * A test program calls verbs through the macros below. Each macro prints one line: the call as it
 * stands in the source, its result and, when the call failed, errno. errno is cleared before every
 * call, so the line also tells which failing calls leave errno alone ("errno 0").
 *
 * Two libraries that behave the same make the same program print the same text. What differs from run
 * to run (handles, keys, queue pair numbers, addresses) is printed as a relation or not at all.
 */
#ifndef CTEST_TRANSCRIPT_H
#define CTEST_TRANSCRIPT_H

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned long transcript_calls; /* verbs calls printed so far */

/* The name of an errno value; "0" for none. */
static inline const char *errno_name(int e)
{
	const char *name = strerrorname_np(e);

	return name ? name : "unknown";
}

/* A line of the program's own, for what is not one call. */
__attribute__((format(printf, 1, 2))) static inline void note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* The program cannot set up what it wants to test. Both libraries failing alike is a failure, too. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("setup failed: ");
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	_exit(3);
}

static inline void say_int(const char *call, long long result, int e, bool failed)
{
	transcript_calls++;
	printf("%s = %lld", call, result);
	if (result > 0 && failed)
		printf(" %s", errno_name((int)result));
	if (failed)
		printf(", errno %s", errno_name(e));
	putchar('\n');
}

static inline void say_pointer(const char *call, bool found, int e)
{
	transcript_calls++;
	if (found)
		printf("%s = object\n", call);
	else
		printf("%s = NULL, errno %s\n", call, errno_name(e));
}

/* A verb that answers 0 for success and anything else for failure. */
#define CALL_INT(call)                                                                                         \
	({                                                                                                     \
		errno = 0;                                                                                     \
		int result_ = (int)(call);                                                                     \
		int errno_ = errno;                                                                            \
		say_int(#call, result_, errno_, result_ != 0);                                                 \
		result_;                                                                                       \
	})

/* A verb that answers a count, an index or a value, and a negative number for failure. */
#define CALL_COUNT(call)                                                                                       \
	({                                                                                                     \
		errno = 0;                                                                                     \
		long long result_ = (long long)(call);                                                         \
		int errno_ = errno;                                                                            \
		say_int(#call, result_, errno_, result_ < 0);                                                  \
		result_;                                                                                       \
	})

/* A verb that answers a pointer, and NULL for failure. */
#define CALL_PTR(call)                                                                                         \
	({                                                                                                     \
		errno = 0;                                                                                     \
		__typeof__(call) result_ = (call);                                                             \
		int errno_ = errno;                                                                            \
		say_pointer(#call, result_ != NULL, errno_);                                                   \
		result_;                                                                                       \
	})

/* A verb without an answer. */
#define CALL_VOID(call)                                                                                        \
	do {                                                                                                   \
		call;                                                                                          \
		transcript_calls++;                                                                            \
		printf("%s\n", #call);                                                                         \
	} while (0)

/* A verb that answers a string. */
#define CALL_STRING(call)                                                                                      \
	do {                                                                                                   \
		const char *result_ = (call);                                                                  \
		transcript_calls++;                                                                            \
		printf("%s = \"%s\"\n", #call, result_ ? result_ : "(null)");                                  \
	} while (0)

/* One field of an object, as a number. */
#define FIELD(object, field) printf("    %s = %lld\n", #field, (long long)(object).field)
/* The same in hexadecimal, for masks. */
#define FIELD_X(object, field) printf("    %s = 0x%llx\n", #field, (unsigned long long)(object).field)
/* A statement that has to be equal on both libraries, as true or false. */
#define CHECK(condition) printf("    %s: %s\n", #condition, (condition) ? "true" : "false")

/* Out-parameters start as this pattern, so that a field which the verb does not write shows it. */
#define FILL(object) memset(&(object), 0xa5, sizeof(object))

static inline void begin(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
}

/* The last line, which tells the runner that the program came to its end. */
static inline int end(void)
{
	printf("end (%lu calls)\n", transcript_calls);
	return 0;
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What must come is waited for so long that no loaded machine exceeds it: the limit is there for a hang to end. */
#define HANG_MS 60000

/* Whether a descriptor becomes readable within the time. */
static inline bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLIN);
}

/* Whether a descriptor has become readable, as it must. */
static inline bool comes(int fd)
{
	return readable(fd, HANG_MS);
}

/* CALL_COUNT and CALL_INT of a call that is repeated until it finds what must come. */
#define FOUND_COUNT(call) REPEATED(call, 0, answer_ < 0)
#define FOUND_INT(call) REPEATED(call, ENOENT, answer_ != 0)
#define REPEATED(call, nothing, failed)                                                                        \
	({                                                                                                     \
		uint64_t hang_ = now_ms() + HANG_MS;                                                           \
		long long answer_;                                                                             \
		int answer_errno_;                                                                             \
		do {                                                                                           \
			errno = 0;                                                                             \
			answer_ = (long long)(call);                                                           \
			answer_errno_ = errno;                                                                 \
		} while (answer_ == (nothing) && now_ms() < hang_);                                            \
		say_int(#call, answer_, answer_errno_, failed);                                                \
		answer_;                                                                                       \
	})

#endif
