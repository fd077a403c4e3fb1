/*
 * What a program's start calls: since glibc 2.34 it runs the constructors itself, and has a new version for that.
 */
#include <stddef.h>

#include "floor.h"

#ifdef BASE
typedef int main_function(int, char **, char **);
typedef void constructor(int, char **, char **);

extern int old_start(main_function *, int, char **, constructor *, void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
__asm__(".symver old_start, __libc_start_main@" BASE);

extern constructor *__init_array_start[] __attribute__((weak, visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((weak, visibility("hidden")));

/* Before 2.34 the code that every program was linked with did this. */
static void run_constructors(int argc, char **argv, char **environment)
{
	for (constructor **each = __init_array_start; each != __init_array_end; each++)
		(*each)(argc, argv, environment);
}

HIDDEN int __libc_start_main(main_function *entry, int argc, char **argv, constructor *init, void (*fini)(void),
			     void (*rtld_fini)(void), void *stack_end)
{
	return old_start(entry, argc, argv, init ? init : run_constructors, fini, rtld_fini, stack_end);
}
#endif
