/*
 * bench.h - what the measuring programs share: time, rounds, and the device's side of the queues.
 */
#ifndef BENCH_KERNEL_BENCH_H
#define BENCH_KERNEL_BENCH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program with a message and errno's meaning. */
_Noreturn void die(const char *what);
#define MUST(condition)                 \
	do {                            \
		if (!(condition))       \
			die(#condition); \
	} while (0)

/* The processor's constant-rate counter, behind all that came before; nanoseconds where a program cannot read one. */
#if defined(__x86_64__)
#define UNIT "TSC cycles"
static inline uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}
#else
#include <time.h>
#define UNIT "ns"
static inline uint64_t ticks(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}
#endif

/* A device by its name. */
struct ibv_context *open_named(const char *name);
/* Brings a queue pair to RTS. */
void ready(struct ibv_qp *qp);

/* Runs a round often and prints the least and the median of what it gave, per one of `count` operations. */
void report(const char *name, unsigned rounds, uint64_t (*round)(void *), void *argument, double count);

/* A queue in the memory that the device shares with the process, as the device sees it. */
struct queue {
	unsigned char *memory;
	uint32_t slots;
	uint32_t at;  /* where the device stands, of soft-iWARP */
	bool siw;
	enum queue_kind { COMPLETIONS, SENDS, RECEIVES } kind;
};
extern bool is_siw;
struct queue queue_of(struct ibv_context *context, const char *object, uint32_t handle, enum queue_kind kind);
/* Writes a completion into each slot; none is the program's yet. */
void write_completions(struct queue *queue);
/* Gives the program all completions that the queue has room for; how many. */
unsigned complete_all(struct queue *queue);
/* Writes one completion and gives it to the program, unless the queue is full. */
bool complete_one(struct queue *queue, uint64_t wr_id);
/* Takes all requests. */
void consume(struct queue *queue);

/* The parts of the program. */
void measure_polling(struct ibv_context *context);
void measure_posting(struct ibv_context *context);
void measure_objects(struct ibv_context *context);
void measure_devices(struct ibv_context *context);

#endif
