/*
 * measure.c - round trips of SubnGet over the kernel of tests/kernel, whose nodes answer at once.
 *
 *   measure trips ROUNDS COUNT   prints, for each round, nanoseconds of processor time per MAD that is sent
 *   and received
 *   measure names|port|none      makes that call 100 times, or none, for who counts system calls
 */
#include <infiniband/umad.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS = 100 };

static double spent(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int trip(int fd, int agent, unsigned number, void *umad)
{
	uint8_t *mad = umad_get_mad(umad);
	int length = 256;

	memset(mad, 0, 64);
	mad[0] = mad[1] = mad[2] = mad[3] = 1;
	mad[12] = number >> 24;
	mad[13] = number >> 16;
	mad[14] = number >> 8;
	mad[15] = number;
	mad[17] = 0x11;
	umad_set_addr(umad, 5, 0, 0, 0);
	return umad_send(fd, agent, umad, 256, 1000, 0) || umad_recv(fd, umad, &length, 1000) != agent || mad[3] != 0x81;
}

static int trips(unsigned rounds, unsigned count)
{
	int fd = umad_open_port("mlx4_0", 1), agent = umad_register(fd, 1, 1, 0, NULL);
	void *umad = umad_alloc(1, umad_size() + 256);

	for (unsigned round = 0; round < rounds; round++) {
		double start = spent();

		for (unsigned i = 0; i < count; i++)
			if (trip(fd, agent, i, umad))
				return 1;
		printf("%.1f\n", (spent() - start) / count);
	}
	umad_free(umad);
	return umad_close_port(fd);
}

int main(int argc, char **argv)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	umad_port_t port;

	if (argc == 4 && !strcmp(argv[1], "trips"))
		return trips(atoi(argv[2]), atoi(argv[3]));
	for (unsigned i = 0; argc == 2 && i < CALLS; i++) {
		if (!strcmp(argv[1], "names") && umad_get_cas_names(names, UMAD_MAX_DEVICES) < 1)
			return 1;
		if (!strcmp(argv[1], "port") && (umad_get_port("mlx4_0", 1, &port) || umad_release_port(&port)))
			return 1;
	}
	return argc != 2;
}
