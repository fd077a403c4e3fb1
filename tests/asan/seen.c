/*
 * seen.c library|program - a store behind the end of an array, which AddressSanitizer must report.
 *
 *   library   by ibv_poll_cq, which gets room for one completion and is told of four
 *   program   by the program itself
 *
 * It returns 0 when nothing was noticed.
 */
#include "../../ctest/setup.h"

int main(int argc, char **argv)
{
	struct endpoint a = {0}, b = {0};
	struct ibv_wc *wc = calloc(1, sizeof(*wc));
	volatile size_t one = 1;

	if (argc != 2 || !wc)
		return 2;
	if (!strcmp(argv[1], "program")) {
		wc[one].wr_id = 1;
		return 0;
	}
	open_pair(&a, &b, "rxe0", "rxe0");
	for (int i = 0; i < 2; i++)
		if (post_recv(&b, 1, 0, 64) || post_send(&a, 2, 0, 64))
			die("posting");
	while (ibv_poll_cq(b.recv_cq, 1, wc) < 1)
		;
	for (uint64_t deadline = now_ms() + 10000; ibv_poll_cq(a.send_cq, 4, wc) < 2 && now_ms() < deadline;)
		;
	free(wc);
	return 0;
}
