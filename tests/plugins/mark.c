/* mark.c - a plugin whose constructor registers no driver, and writes its name into /tmp/marks so that its loading is seen. */
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void mark(void)
{
	static const char line[] = NAME "\n";
	int file = open("/tmp/marks", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (file < 0)
		return;
	if (write(file, line, sizeof(line) - 1) < 0)
		_exit(99);
	close(file);
}

#ifdef UNDEFINED
void nobody_has_this(void);
void reach_for_it(void);
void reach_for_it(void)
{
	nobody_has_this();
}
#endif
