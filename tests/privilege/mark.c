/* A plugin of the caller's: its constructor says with whose rights it runs. */
#include <stdio.h>
#include <unistd.h>

#include "rights.h"

__attribute__((constructor)) static void run(void)
{
	printf("the caller's code runs as user %d, group %d\n", geteuid(), getegid());
}
