/*
 * tcp.c - what TCP takes: half a round trip in microseconds, the median, of two sides that spin; or MiB/s of one way, of sides
 * that block.
 *
 *   tcp latency|bandwidth BYTES COUNT [ADDRESS]     without an address: the server, which listens at port 5201
 *
 * The client prints the figure.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 5201

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* All bytes, one way or the other; a socket that would wait is asked again. */
static void all(ssize_t (*move)(int, void *, size_t, int), int socket, char *bytes, size_t length, int flags)
{
	size_t done = 0;

	while (done < length) {
		ssize_t moved = move(socket, bytes + done, length - done, flags);

		if (moved > 0)
			done += moved;
		else if (moved == 0)
			errx(1, "the other side has ended");
		else if (errno != EAGAIN && errno != EINTR)
			err(1, "socket");
	}
}

static ssize_t put(int socket, void *bytes, size_t length, int flags)
{
	return send(socket, bytes, length, flags | MSG_NOSIGNAL);
}

static int connected(const char *address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int one = 1, socket_of, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0)
		err(1, "socket");
	if (address) {
		if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
			errx(2, "no address: %s", address);
		if (connect(listener, (struct sockaddr *)&name, sizeof(name)))
			err(1, "connect");
		socket_of = listener;
	} else {
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, (struct sockaddr *)&name, sizeof(name)) || listen(listener, 1))
			err(1, "bind");
		socket_of = accept(listener, NULL, NULL);
		if (socket_of < 0)
			err(1, "accept");
		close(listener);
	}
	setsockopt(socket_of, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return socket_of;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void latency(int socket, int is_client, char *bytes, size_t length, size_t count)
{
	double *trips = calloc(count, sizeof(*trips));

	if (!trips)
		err(1, "calloc");
	for (size_t nth = 0; nth < count; nth++) {
		double began = now();

		if (is_client)
			all(put, socket, bytes, length, MSG_DONTWAIT);
		all(recv, socket, bytes, length, MSG_DONTWAIT);
		if (!is_client)
			all(put, socket, bytes, length, MSG_DONTWAIT);
		trips[nth] = now() - began;
	}
	qsort(trips, count, sizeof(*trips), compare);
	if (is_client)
		printf("%.3f\n", trips[count / 2] / 2);
	free(trips);
}

static void bandwidth(int socket, int is_client, char *bytes, size_t length, size_t count)
{
	double began = now();
	char last = 0;

	for (size_t nth = 0; nth < count; nth++)
		all(is_client ? put : recv, socket, bytes, length, is_client ? 0 : MSG_WAITALL);
	/* It is there when the other side says so. */
	all(is_client ? recv : put, socket, &last, 1, 0);
	if (is_client)
		printf("%.2f\n", length * (double)count / (1 << 20) / ((now() - began) / 1e6));
}

int main(int argc, char **argv)
{
	int is_latency = argc > 1 && !strcmp(argv[1], "latency");
	size_t length, count;
	char *bytes;
	int socket;

	if (argc < 4 || argc > 5 || (!is_latency && strcmp(argv[1], "bandwidth")))
		errx(2, "tcp latency|bandwidth BYTES COUNT [ADDRESS]");
	length = strtoul(argv[2], NULL, 10);
	count = strtoul(argv[3], NULL, 10);
	bytes = length && count ? malloc(length) : NULL;
	if (!bytes)
		errx(2, "no such numbers");
	memset(bytes, 'a', length);
	socket = connected(argv[4]);
	(is_latency ? latency : bandwidth)(socket, !!argv[4], bytes, length, count);
	return 0;
}
