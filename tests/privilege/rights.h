/* The rights that a process has: those it is asked to take, and those the kernel says it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static inline void print_rights(void)
{
	unsigned long long effective = 0;
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "CapEff: %llx", &effective);
	if (status)
		fclose(status);
	printf("rights: secure %lu, user %d acts as %d, group %d acts as %d, %s\n", getauxval(AT_SECURE), getuid(), geteuid(),
	       getgid(), getegid(), effective ? "capabilities" : "no capabilities");
}

/* Takes the effective id that the arguments ask for, `as-user ID` or `as-group ID`, and prints the rights; 0 when it
 * may not. */
static inline int take_rights(int argc, char **argv)
{
	if (argc == 3) {
		int id = atoi(argv[2]);

		if (strcmp(argv[1], "as-user") == 0 ? seteuid(id) : setegid(id)) {
			perror(argv[1]);
			return 0;
		}
	}
	print_rights();
	return 1;
}
