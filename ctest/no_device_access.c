/*
 * no_device_access.c - device files that the program may not open.
 *
 * Proves: that the devices are still listed with their names and GUIDs, and what opening them answers.
 */
#include <grp.h>
#include <sys/wait.h>

#include "setup.h"

int main(void)
{
	int n;

	begin();
	if (system("chmod 600 /dev/infiniband/uverbs*"))
		die("chmod");
	pid_t pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
			die("dropping rights");
		struct ibv_device **list = CALL_PTR(ibv_get_device_list(&n));
		note("devices: %d", n);
		for (int i = 0; list && list[i]; i++) {
			CALL_STRING(ibv_get_device_name(list[i]));
			note("    guid %016llx", (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
			CALL_PTR(ibv_open_device(list[i]));
		}
		if (list)
			ibv_free_device_list(list);
		return end();
	}
	int status;
	if (waitpid(pid, &status, 0) != pid || status)
		note("child ended with 0x%x", status);
	if (system("chmod 666 /dev/infiniband/uverbs*"))
		die("chmod");
	return end();
}
