/*
 * Functions that moved from libpthread and libdl to libc in glibc 2.34, under a new version, and some of libc's own that
 * changed theirs in 2.32. They are called here under the old one, which libc has to this day. A libc older than that does
 * not have them: then they come from libpthread or libdl, which the process has loaded or which are loaded here. To name
 * those libraries as needed would cost every program of a newer system two more libraries at its start.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "floor.h"

#ifdef BASE
struct search {
	const char *name;
	void *found;
};

/* Looks a function up in libc's own table of symbols: dlsym may be what is searched. */
static int look(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct search *search = argument;
	const char *base = strrchr(object->dlpi_name, '/');
	const ElfW(Dyn) *entry = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	const uint32_t *hash = NULL;

	(void)size;
	if (strcmp(base ? base + 1 : object->dlpi_name, "libc.so.6"))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		/* The loader has turned these into addresses. */
		if (entry->d_tag == DT_SYMTAB)
			symbols = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_STRTAB)
			names = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_HASH)
			hash = (const void *)entry->d_un.d_ptr;
	}
	if (!symbols || !names || !hash)
		return 1;
	/* Before 2.36 libc has the old hash table, whose second word is the number of symbols. */
	for (uint32_t i = 1; i < hash[1]; i++)
		if (symbols[i].st_shndx != SHN_UNDEF && !strcmp(names + symbols[i].st_name, search->name)) {
			search->found = (void *)(object->dlpi_addr + symbols[i].st_value);
			return 1;
		}
	return 1;
}

static void *in_libc(const char *name)
{
	struct search search = { .name = name };

	dl_iterate_phdr(look, &search);
	return search.found;
}

/* A function of libpthread or libdl; NULL where there is none. Every release from 2.28 to 2.33 has what this takes. */
static void *moved(const char *library, const char *name)
{
	/* Says that a call of dlopen itself stands behind it (__RTLD_DLOPEN). */
	const int mode = RTLD_NOW | (int)0x80000000;
	void *(*open)(const char *, int) = (void *(*)(const char *, int))in_libc("__libc_dlopen_mode");
	void *(*symbol)(void *, const char *) = (void *(*)(void *, const char *))in_libc("__libc_dlsym");
	void *handle = open && symbol ? open(library, mode) : NULL;

	return handle ? symbol(handle, name) : NULL;
}

/*
 * Defines NAME: the old version where the process has it, else the one of LIBRARY, looked up once; FAILED where
 * neither is.
 */
#define MOVED(result, name, parameters, arguments, version, library, failed)                                            \
	extern result old_##name parameters __attribute__((weak));                                                      \
	__asm__(".symver old_" #name ", " #name "@" version);                                                           \
	HIDDEN result name parameters                                                                                   \
	{                                                                                                               \
		static result (*found) parameters;                                                                      \
		result (*call) parameters = old_##name;                                                                 \
                                                                                                                        \
		if (!call && !(call = __atomic_load_n(&found, __ATOMIC_ACQUIRE))) {                                     \
			call = (result(*) parameters)moved(library, #name);                                             \
			__atomic_store_n(&found, call, __ATOMIC_RELEASE);                                               \
		}                                                                                                       \
		return call ? call arguments : failed;                                                                  \
	}

#define PTHREAD "libpthread.so.0"
#define DL "libdl.so.2"

/* The loader's functions look at who called them: these calls come from the same file. */
MOVED(void *, dlopen, (const char *file, int mode), (file, mode), BASE, DL, NULL)
MOVED(void *, dlsym, (void *restrict handle, const char *restrict name), (handle, name), BASE, DL, NULL)
MOVED(void *, dlvsym, (void *restrict handle, const char *restrict name, const char *restrict version),
      (handle, name, version), BASE, DL, NULL)
MOVED(int, dladdr, (const void *address, Dl_info *into), (address, into), BASE, DL, 0)
MOVED(int, dlclose, (void *handle), (handle), BASE, DL, -1)
MOVED(char *, dlerror, (void), (), BASE, DL, (char *)"libdl.so.2 cannot be loaded")

MOVED(int, pthread_create,
      (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*start)(void *), void *restrict argument),
      (thread, attr, start, argument), BASE, PTHREAD, EAGAIN)
MOVED(int, pthread_join, (pthread_t thread, void **result), (thread, result), BASE, PTHREAD, ESRCH)
MOVED(int, pthread_detach, (pthread_t thread), (thread), BASE, PTHREAD, ESRCH)
MOVED(int, pthread_once, (pthread_once_t *once, void (*init)(void)), (once, init), BASE, PTHREAD, ENOSYS)
MOVED(int, pthread_key_create, (pthread_key_t *key, void (*destructor)(void *)), (key, destructor), BASE, PTHREAD, EAGAIN)
MOVED(int, pthread_key_delete, (pthread_key_t key), (key), BASE, PTHREAD, EINVAL)
MOVED(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), BASE, PTHREAD, EINVAL)
MOVED(void *, pthread_getspecific, (pthread_key_t key), (key), BASE, PTHREAD, NULL)
MOVED(int, pthread_setname_np, (pthread_t thread, const char *name), (thread, name), BASE_2_12, PTHREAD, ENOSYS)
MOVED(int, pthread_sigmask, (int how, const sigset_t *restrict set, sigset_t *restrict old), (how, set, old), BASE, PTHREAD,
      ENOSYS)
MOVED(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t *attr), (thread, attr), BASE, PTHREAD, ENOSYS)
MOVED(int, pthread_attr_getstack, (const pthread_attr_t *restrict attr, void **restrict address, size_t *restrict size),
      (attr, address, size), BASE, PTHREAD, ENOSYS)
MOVED(int, pthread_attr_getguardsize, (const pthread_attr_t *restrict attr, size_t *restrict size), (attr, size), BASE, PTHREAD,
      ENOSYS)
MOVED(int, pthread_attr_setstacksize, (pthread_attr_t *attr, size_t size), (attr, size), BASE, PTHREAD, ENOSYS)

extern void old_pthread_testcancel(void) __attribute__((weak));
__asm__(".symver old_pthread_testcancel, pthread_testcancel@" BASE);

/* A process without libpthread has no thread that could be cancelled. */
HIDDEN void pthread_testcancel(void)
{
	if (old_pthread_testcancel)
		old_pthread_testcancel();
}
#endif
