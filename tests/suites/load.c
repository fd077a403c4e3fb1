/*
 * load.c - loads a plugin with all symbols bound, as the library does; it must register under the private version in its name.
 *
 *   load PLUGIN
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int registered;

/* What a plugin's constructor calls: this program's own function, which hands on to the library's. */
#define REGISTER(generation)                                                                              \
	void verbs_register_driver_##generation(const void *ops);                                         \
	void verbs_register_driver_##generation(const void *ops)                                          \
	{                                                                                                 \
		void (*library)(const void *) = (void (*)(const void *))dlvsym(                           \
			RTLD_DEFAULT, "verbs_register_driver_" #generation, "IBVERBS_PRIVATE_" #generation); \
		registered = library ? generation : -1;                                                   \
		if (library)                                                                              \
			library(ops);                                                                     \
	}
REGISTER(33)
REGISTER(34)
REGISTER(57)
REGISTER(59)
REGISTER(64)
REGISTER(65)

int main(int argc, char **argv)
{
	const char *suffix = argc == 2 ? strstr(argv[1], "-rdmav") : NULL;

	if (!suffix || !dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL)) {
		printf("%s\n", suffix ? dlerror() : "usage: load PLUGIN");
		return 2;
	}
	if (!dlopen(argv[1], RTLD_NOW)) {
		printf("%s\n", dlerror());
		return 1;
	}
	if (registered != atoi(suffix + strlen("-rdmav"))) {
		printf("%s registers under %d\n", argv[1], registered);
		return 1;
	}
	return 0;
}
