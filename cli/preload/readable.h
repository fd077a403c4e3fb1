/* Whether memory that the program named can be read: a bad address is for the kernel to refuse (EFAULT). */
#ifndef IRONVERBS_READABLE_H
#define IRONVERBS_READABLE_H

#include <stddef.h>

/* No page is smaller. */
#define IRONVERBS_PAGE 4096

/* Whether all of `length` bytes, of which there is one at least, can be read. */
int ironverbs_is_readable(const void *from, size_t length);

/* Whether a path can be read up to its end, which comes within PATH_MAX bytes. */
int ironverbs_is_path(const char *path);

#endif
