/* Opens the first device, and says whether the kernel takes this program for one with more rights than its caller's. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	printf("%s %s\n", context ? "opened" : "not opened", getauxval(AT_SECURE) ? "with more rights" : "with the caller's rights");
	return context && ibv_close_device(context) == 0 ? 0 : 1;
}
