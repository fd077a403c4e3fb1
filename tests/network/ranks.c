/*
 * ranks.c - what ranks of MPI on two hosts send each other is what arrives: from all to all, sums, windows that others write and
 * add to, and many long messages at once. Status 1 where it is not.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 1 << 16, TIMES = 3, ADDED = 100, WINDOW = 32, BYTES = 1 << 17, ROUNDS = 5 };

static int rank, ranks, wrong;

static int value(int from, int place) { return from * 1000003 + place; }

static void judge(int got, int expected)
{
	if (got != expected && wrong++ < 5)
		fprintf(stderr, "rank %d: %d for %d\n", rank, got, expected);
}

static void all_to_all(int length, int *here, int *there)
{
	for (int i = 0; i < length * ranks; i++) {
		here[i] = value(rank, i);
		there[i] = -1;
	}
	MPI_Alltoall(here, length, MPI_INT, there, length, MPI_INT, MPI_COMM_WORLD);
	for (int from = 0; from < ranks; from++)
		for (int i = 0; i < length; i++)
			judge(there[from * length + i], value(from, rank * length + i));
	for (int i = 0; i < length; i++)
		here[i] = rank + i;
	MPI_Allreduce(here, there, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < length; i++)
		judge(there[i], ranks * (ranks - 1) / 2 + ranks * i);
}

static void windows(void)
{
	int *memory, own = rank + 1, one = 1;
	MPI_Win window;

	/*
	 * A whole number of 64 bytes: where two ranks of a host have windows of 20 bytes, MPICH 4.0.2 writes to other addresses
	 * than it gives them, by TCP and within one host as well.
	 */
	MPI_Win_allocate((MPI_Aint)sizeof(int) * (((ranks + 1) | 15) + 1), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
			 &window);
	for (int i = 0; i <= ranks; i++)
		memory[i] = 0;
	MPI_Win_fence(0, window);
	for (int to = 0; to < ranks; to++)
		MPI_Put(&own, 1, MPI_INT, to, rank, 1, MPI_INT, window);
	for (int i = 0; i < ADDED; i++)
		MPI_Accumulate(&one, 1, MPI_INT, i % ranks, ranks, 1, MPI_INT, MPI_SUM, window);
	MPI_Win_fence(0, window);
	for (int from = 0; from < ranks; from++)
		judge(memory[from], from + 1);
	judge(memory[ranks], ranks * (ADDED / ranks + (rank < ADDED % ranks)));
	MPI_Win_free(&window);
}

/* Rank 0 to the first one of the other host. */
static void many_at_once(void)
{
	unsigned char *bytes = calloc(WINDOW, BYTES);
	MPI_Request requests[WINDOW];
	int other = ranks / 2;

	for (int round = 1; round <= ROUNDS && (rank == 0 || rank == other); round++) {
		for (int n = 0; n < WINDOW; n++) {
			unsigned char *message = bytes + (size_t)n * BYTES;

			if (rank == 0) {
				for (int i = 0; i < BYTES; i++)
					message[i] = (unsigned char)(round + n + i);
				MPI_Isend(message, BYTES, MPI_BYTE, other, n, MPI_COMM_WORLD, &requests[n]);
			} else {
				MPI_Irecv(message, BYTES, MPI_BYTE, 0, n, MPI_COMM_WORLD, &requests[n]);
			}
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		for (int n = 0; n < WINDOW && rank; n++)
			for (int i = 0; i < BYTES; i++)
				judge(bytes[(size_t)n * BYTES + i], (unsigned char)(round + n + i));
	}
	free(bytes);
}

int main(int argc, char **argv)
{
	int *here, *there;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	here = calloc((size_t)ranks * LONGEST, sizeof(*here));
	there = calloc((size_t)ranks * LONGEST, sizeof(*there));
	for (int length = 1; length <= LONGEST; length *= 4)
		for (int n = 0; n < TIMES; n++)
			all_to_all(length, here, there);
	windows();
	many_at_once();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return wrong > 0;
}
