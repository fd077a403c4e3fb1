/*
 * trip.c - messages between two ranks of MPI, over and back.
 *
 * trip BYTES ROUND_TRIPS: the median, in microseconds, of half a round trip. A batch of them is timed at once, as the clock takes
 * as long as a short message does.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "measured.h"

enum { BATCH = 10, UNTIMED = 20 };

static void trips(int rank, unsigned char *buffer, int bytes, int count)
{
	for (int n = 0; n < count; n++) {
		if (rank == 0)
			MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(buffer, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv)
{
	int rank, bytes, batches;

	if (argc != 3 || (bytes = atoi(argv[1])) < 1 || (batches = atoi(argv[2]) / BATCH) < 1)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!settle(rank))
		return 1;

	unsigned char *buffer = malloc((size_t)bytes), *sent = malloc((size_t)bytes);
	double *took = malloc((size_t)batches * sizeof(*took));

	if (!buffer || !sent || !took)
		return 1;
	for (int batch = -UNTIMED; batch < batches; batch++) {
		for (int n = 0; n < bytes; n++)
			sent[n] = (unsigned char)(n + batch);
		if (rank == 0)
			memcpy(buffer, sent, (size_t)bytes);

		double began = now();

		trips(rank, buffer, bytes, BATCH);
		if (batch >= 0)
			took[batch] = (now() - began) / (2e3 * BATCH);
		if (memcmp(buffer, sent, (size_t)bytes)) {
			fprintf(stderr, "rank %d: other bytes than were sent\n", rank);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	if (rank == 0)
		printf("%.4g\n", median(took, batches));
	MPI_Finalize();
	return 0;
}
