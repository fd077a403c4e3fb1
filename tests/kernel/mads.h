/*
 * mads.h - the kernel's user_mad: the files umadN and issmN of ports, and what lies behind them. The folder
 * that plays
 * sysfs says which ports there are: HARDWARE_SYSFS/class/infiniband_mad/umadN.
 *
 *   paths.c       /sys/class/infiniband and infiniband_mad are in that folder
 *   mad_files.c   open, ioctl, write, read, poll and close of such a file
 *   mad_agents.c  agents, what they send and what comes for them
 *   mad_fabric.c  the nodes that answer
 *
 * Facts are those of Linux 6.1 (drivers/infiniband/core/user_mad.c, mad.c).
 */
#ifndef HARDWARE_MADS_H
#define HARDWARE_MADS_H

#include "kernel.h"

#include <rdma/ib_user_mad.h>

enum {
	MAD_AGENTS = 32,    /* of a file */
	MAD_HEADER = 24,    /* the header that all classes share */
	RMPP_HEADER = 36,   /* with that of RMPP behind it */
	MAD_BYTES = 256,    /* of a segment on the wire */
	MAD_ROOM = 1 << 16, /* the longest message here */
	OLD_HEADER = sizeof(struct ib_user_mad_hdr_old),
	NEW_HEADER = sizeof(struct ib_user_mad_hdr),
};

/* Fields of a MAD by their place. */
enum { AT_CLASS = 1, AT_VERSION = 2, AT_METHOD = 3, AT_STATUS = 4, AT_TID = 8, AT_ATTRIBUTE = 16, AT_MODIFIER = 20,
       AT_RMPP_TYPE = 25, AT_RMPP_FLAGS = 26, AT_VENDOR_OUI = 37 };
enum { CLASS_SMP = 0x01, CLASS_SA = 0x03, CLASS_ROUTED_SMP = 0x81, RMPP_ACTIVE = 1 };

struct mad_port {
	bool known;
	char ibdev[64];
	unsigned number;        /* of umadN and issmN */
	unsigned port, lid;
	bool ethernet;          /* which has no queue pair 0, and needs a global route */
};

struct mad_agent {
	bool used;
	uint32_t hi_tid;        /* the upper half of transaction ids of what it sends */
	uint8_t qpn, class, version, oui[3], rmpp;
	bool user_rmpp;         /* the program does RMPP itself */
	uint64_t methods[2];    /* of requests that come to it */
};

/* What waits to be read. */
struct mad_packet {
	struct mad_packet *next;
	struct ib_user_mad_hdr hdr;
	bool received;          /* and not a send that timed out */
	size_t length;
	uint8_t mad[];
};

/* A request that waits for its response. */
struct mad_sent {
	struct mad_sent *next;
	struct ib_user_mad_hdr hdr;
	unsigned agent, tries;
	uint64_t until;         /* by mad_now() */
	size_t length;
	uint8_t mad[];
};

struct mad_file {
	int fd;                 /* an eventfd that is readable while something waits; -1 when closed */
	int flags;
	bool pkey_index, used, dead;
	struct mad_port *port;
	struct mad_agent agents[MAD_AGENTS];
	struct mad_packet *packets;
	struct mad_sent *sent;
};
extern struct mad_file mad_files[128];
extern unsigned mad_file_count;

static inline size_t header_size(const struct mad_file *file)
{
	return file->pkey_index ? NEW_HEADER : OLD_HEADER;
}
static inline uint32_t word_at(const uint8_t *mad, unsigned at)
{
	return (uint32_t)mad[at] << 24 | mad[at + 1] << 16 | mad[at + 2] << 8 | mad[at + 3];
}
static inline void put_word(uint8_t *mad, unsigned at, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		mad[at + i] = value >> (24 - 8 * i);
}
/* Bytes before the data of a class. */
unsigned mad_data_offset(uint8_t class);
bool mad_class_has_rmpp(uint8_t class);

/* These are called with the lock held; results are 0 or an error number. */
void mad_lock(void);
void mad_unlock(void);
/*
 * Milliseconds that have passed, which they do where the process's first thread waits, and where the program says so. Of these two
 * the second lets them pass until something comes or until `end`; false where there is neither. Under the lock.
 */
uint64_t mad_now(void);
bool mad_let_time_pass(uint64_t end);
int mad_register(struct mad_file *file, struct mad_agent wanted, uint32_t *id);
int mad_unregister(struct mad_file *file, uint32_t id);
int mad_send(struct mad_file *file, const struct ib_user_mad_hdr *hdr, const uint8_t *mad, size_t length);
void mad_forget_sent(struct mad_file *file, unsigned agent);
/* A MAD arrives at a port; NULL and 0 bytes of a short one are fine. */
void mad_arrive(struct mad_port *port, const struct ib_user_mad_hdr *from, const uint8_t *mad, size_t length);

/* What a node of the fabric answers to a request: its length, 0 for none. */
struct mad_answer {
	struct ib_user_mad_hdr hdr;
	unsigned delay;         /* milliseconds */
	uint8_t mad[MAD_ROOM];
};
size_t mad_answer(const struct mad_port *port, const struct ib_user_mad_hdr *to, const uint8_t *mad, size_t length,
		  bool rmpp, unsigned tries, struct mad_answer *answer);

#endif
