/* The functions that these stand before. */
#ifndef IRONVERBS_BEHIND_H
#define IRONVERBS_BEHIND_H

#define EXPORT __attribute__((visibility("default")))

/* The next function of this name; looked up once and kept in `*known`. NULL and ENOSYS where there is none. */
void *ironverbs_behind(void **known, const char *name);

/* `function`, the next one of this name. */
#define BEHIND(type, name, types)                                             \
	static void *known;                                                   \
	type(*function) types = ironverbs_behind(&known, #name)

#endif
