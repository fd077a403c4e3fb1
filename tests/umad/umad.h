/*
 * umad.h - what the programs of this test share: the kernel's functions for the program, and how structs are
 * printed.
 */
#ifndef UMAD_TEST_H
#define UMAD_TEST_H

#include <dlfcn.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>

#include "../../ctest/transcript.h"
#include "../asleep.h"

/* In the preloaded kernel; NULL on a real one. */
static void (*kernel_answer)(const char *call, long result, int error);
static __attribute__((unused)) void (*kernel_answer_then)(const char *call, long result, int error);
static void (*kernel_receive)(unsigned number, const void *hdr, const void *mad, size_t length);
static void (*kernel_plug)(unsigned number, bool in);
static __attribute__((unused)) void (*kernel_pass)(unsigned ms);

static inline void find_kernel(void)
{
	kernel_answer = dlsym(RTLD_DEFAULT, "hardware_mad_answer");
	kernel_answer_then = dlsym(RTLD_DEFAULT, "hardware_mad_answer_then");
	kernel_receive = dlsym(RTLD_DEFAULT, "hardware_mad_receive");
	kernel_plug = dlsym(RTLD_DEFAULT, "hardware_mad_plug");
	kernel_pass = dlsym(RTLD_DEFAULT, "hardware_mad_pass");
}

/* Waits until the process or thread, once its number is there, waits in the kernel. */
static inline void until_it_waits(const volatile pid_t *task)
{
	if (!until_asleep(task, is_wait))
		die("task %d has ended", (int)*task);
}

static inline void bytes(const char *name, const void *start, size_t size)
{
	printf("    %s = ", name);
	for (size_t i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)start)[i]);
	putchar('\n');
}
#define BYTES(object, field) bytes(#field, &(object).field, sizeof(object).field)

/* A string up to its end. What lies behind it is nobody's answer, and rdma-core does not end one that fills
 * its room. */
static inline void text(const char *name, const char *start, size_t room)
{
	printf("    %s = \"", name);
	for (size_t i = 0; i < room - 1 && start[i]; i++)
		printf(start[i] >= ' ' && start[i] <= '~' ? "%c" : "\\x%02x", (uint8_t)start[i]);
	puts("\"");
}
#define TEXT(object, field) text(#field, (object).field, sizeof(object).field)

/* Every byte of a port but pointers; keys only where the call succeeded. */
static inline void print_port(const umad_port_t *port, bool valid)
{
	TEXT(*port, ca_name);
	FIELD(*port, portnum); FIELD_X(*port, base_lid); FIELD_X(*port, lmc); FIELD_X(*port, sm_lid);
	FIELD_X(*port, sm_sl); FIELD_X(*port, state); FIELD_X(*port, phys_state); FIELD_X(*port, rate);
	FIELD_X(*port, capmask); FIELD_X(*port, gid_prefix); FIELD_X(*port, port_guid); FIELD(*port, pkeys_size);
	TEXT(*port, link_layer);
	if (valid)
		bytes("pkeys", port->pkeys, port->pkeys_size * sizeof *port->pkeys);
}

static inline void print_ca(const umad_ca_t *ca)
{
	TEXT(*ca, ca_name);
	FIELD_X(*ca, node_type); FIELD(*ca, numports); TEXT(*ca, fw_ver); TEXT(*ca, ca_type); TEXT(*ca, hw_ver);
	FIELD_X(*ca, node_guid); FIELD_X(*ca, system_guid);
	for (unsigned i = 0; i < UMAD_CA_MAX_PORTS; i++)
		if (ca->ports[i]) {
			printf("    port %u\n", i);
			print_port(ca->ports[i], true);
		}
}

#endif
