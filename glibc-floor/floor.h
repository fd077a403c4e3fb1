/* What the files of this folder share. They define nothing on machines whose older versions nobody has looked up. */
#ifndef FLOOR_H
#define FLOOR_H

/*
 * The oldest version of glibc's functions there is on a machine. Nothing is defined for an archive, either: the machine that
 * links it has the glibc that the program is bound to.
 */
#if defined(FOR_ARCHIVE)
#elif defined(__x86_64__)
#define BASE "GLIBC_2.2.5"
#define BASE_2_4 "GLIBC_2.4"
#define BASE_2_12 "GLIBC_2.12"
#elif defined(__aarch64__)
#define BASE "GLIBC_2.17"
#define BASE_2_4 BASE
#define BASE_2_12 BASE
#endif

/* For the file that this is linked into, and nobody else. */
#define HIDDEN __attribute__((visibility("hidden")))

#endif
