/*
 * Many processes that bind at the same time, all that they may: each gets its ports, and nobody one that another has. Run by
 * tests/ucma/run.
 *
 *   storm FOLDER
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "ucma.h"

#define LOCALHOST 0x7f000001
/* Ports that are asked for by their number, below those that the kernel gives who wants any. */
#define FIRST 2000

enum { PROCESSES = 60, BINDS = 200 };

/* How many ids have each port now. */
static unsigned *takers;

/* The port that an id has; 0 where it cannot be asked for. */
static unsigned port_of(int channel, uint32_t id)
{
	unsigned char answer[280] = { 0 };
	struct command made = command(19, 16, sizeof(answer));
	const struct sockaddr_in *source = (const struct sockaddr_in *)(answer + 16);

	PUT(&made, 0, uint64_t, (uint64_t)(uintptr_t)answer);
	PUT(&made, 8, uint32_t, id);
	return give(channel, &made) == 24 ? ntohs(source->sin_port) : 0;
}

/* How many of its binds a process lacks; every other one is for any port. */
static int lacks(int process)
{
	int channel = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK), lacking = 0;

	for (int nth = 0; nth < BINDS; nth++) {
		uint16_t wanted = nth % 2 ? 0 : (uint16_t)(FIRST + process * BINDS / 2 + nth / 2);
		int64_t id = create_id(channel, (uint64_t)nth);
		unsigned port = 0;

		if (bind_id(channel, (uint32_t)id, LOCALHOST, wanted) == 144)
			port = port_of(channel, (uint32_t)id);
		else
			printf("process %d, bind %d: errno %d\n", process, nth, errno);
		lacking += !port || (wanted && port != wanted) || __atomic_add_fetch(&takers[port], 1, __ATOMIC_RELAXED) > 1;
	}
	return lacking;
}

int main(int argc, char **argv)
{
	int told[2], go[2], whole = 0;

	(void)argv;
	if (argc != 2)
		return 2;
	takers = mmap(NULL, 65536 * sizeof(*takers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(takers != MAP_FAILED && pipe(told) == 0 && pipe(go) == 0);
	for (int process = 0; process < PROCESSES; process++)
		if (fork() == 0) {
			int lacking = lacks(process);

			fflush(stdout);
			close(go[1]);
			/* All keep what they have until the last one has all. */
			_exit(write(told[1], &lacking, sizeof(lacking)) != sizeof(lacking) || read(go[0], &lacking, 1) != 0);
		}
	for (int process = 0; process < PROCESSES; process++) {
		int lacking = BINDS;

		CHECK(read(told[0], &lacking, sizeof(lacking)) == sizeof(lacking) && lacking == 0);
		whole += BINDS - lacking;
	}
	printf("%d of %d binds\n", whole, PROCESSES * BINDS);
	close(go[1]);
	for (int process = 0; process < PROCESSES; process++) {
		int status;

		CHECK(wait(&status) > 0 && status == 0);
	}
	return end();
}
