/* The functions that these stand before. */
#ifndef IRONVERBS_BEHIND_H
#define IRONVERBS_BEHIND_H

#define EXPORT __attribute__((visibility("default")))

/*
 * A function that another one stands before. The table of them is looked up as the process begins: later, dlsym() would
 * take away what dlerror() has for the program, and a signal handler must not call it.
 */
struct ironverbs_behind {
	void *function;
	const char *name;
} __attribute__((aligned(2 * sizeof(void *))));

/* The next function of the name, looked up once. NULL and ENOSYS where there is none. */
void *ironverbs_behind(struct ironverbs_behind *known);

#define BEHIND_OF(of)                                                         \
	static struct ironverbs_behind known __attribute__((used, section("ironverbs_functions"))) = { NULL, of }

/* `function`, the next one of this name. */
#define BEHIND(type, name, types)                                             \
	BEHIND_OF(#name);                                                     \
	type(*function) types = ironverbs_behind(&known)

#endif
