/* The rights that a process really has, as the kernel says. */
#include <stdio.h>
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
