/*
 * late.c - preloaded: an rsocket's shutdown comes a third of a second after it was asked for.
 */
#include <dlfcn.h>
#include <unistd.h>

int rshutdown(int socket, int how)
{
	int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "rshutdown");

	usleep(300000);
	return next(socket, how);
}
