/* How the view's folder is reached, so that nobody else can put another one in its place. */
#ifndef IRONVERBS_FOLDER_H
#define IRONVERBS_FOLDER_H

#include <sys/stat.h>

enum ironverbs_way {
	/* The folder is not there, or others may write to it or have made it. */
	IRONVERBS_NO_WAY,
	/* Only root and the user can exchange what its path leads by. */
	IRONVERBS_BY_PATH,
	/* Others may exchange some of that: its path is to be used only by ironverbs_open_folder(). */
	IRONVERBS_BY_DESCRIPTOR,
};

/* How the folder is reached, and which one it is. To be called once: it has a buffer of its own. */
enum ironverbs_way ironverbs_find_folder(const char *path, struct stat *found);

/*
 * A descriptor that only stands for the folder, with a number that programs hardly count on; -1 where it cannot be had,
 * or the path leads to another folder than it did.
 */
int ironverbs_open_folder(const char *path, const struct stat *found);

#endif
