/*
 * record.h - how a command of a process is written down: bytes in hex, an address as the name of what stands there.
 *
 * Lines go to RECORD, a FILE * that the includer may define (standard output if not).
 */
#ifndef COMMANDS_RECORD_H
#define COMMANDS_RECORD_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef RECORD
#define RECORD stdout
#endif

static struct { const void *start; const char *name; } names[64];
static unsigned name_count;
static void name(const void *start, const char *text)
{
	for (unsigned i = 0; i < name_count; i++)
		if (names[i].start == start || !strcmp(names[i].name, text)) {
			names[i].start = start;
			names[i].name = text;
			return;
		}
	names[name_count].start = start;
	names[name_count++].name = text;
}

static const char *(*name_other)(uint64_t word); /* for addresses without a name of their own; NULL for a number */
static const char *name_of(uint64_t word)
{
	for (unsigned i = 0; word && i < name_count; i++)
		if (word == (uintptr_t)names[i].start)
			return names[i].name;
	return name_other ? name_other(word) : NULL;
}

/* Bytes in hex; an address that has a name appears as the name, runs of zeros as their length. */
static void dump(const void *start, size_t size)
{
	const uint8_t *bytes = start;
	size_t at = 0;

	while (at < size) {
		uint64_t word = 0;
		size_t zeros = 0;

		if (at % 8 == 0 && size - at >= 8) {
			const char *name;

			memcpy(&word, bytes + at, 8);
			name = name_of(word);
			if (name) {
				fprintf(RECORD, " <%s>", name);
				at += 8;
				continue;
			}
		}
		/* Zeros at the start of an address are part of it. */
		while (at + zeros < size && !bytes[at + zeros]) {
			if (zeros && (at + zeros) % 8 == 0 && size - at - zeros >= 8) {
				memcpy(&word, bytes + at + zeros, 8);
				if (name_of(word))
					break;
			}
			zeros++;
		}
		if (zeros >= 8) {
			zeros -= (at + zeros == size) ? 0 : (at + zeros) % 8;
			fprintf(RECORD, " 0*%zu", zeros);
			at += zeros;
		} else {
			fprintf(RECORD, "%s%02x", at % 4 == 0 ? " " : "", bytes[at]);
			at++;
		}
	}
}

static bool posts(uint32_t command)
{
	return command == IB_USER_VERBS_CMD_POST_SEND || command == IB_USER_VERBS_CMD_POST_RECV ||
	       command == IB_USER_VERBS_CMD_POST_SRQ_RECV;
}

static bool datagrams; /* sends are those of a datagram queue pair */

/* How much of a work request means something. */
static unsigned used_words(uint32_t command, const uint32_t *request)
{
	if (command != IB_USER_VERBS_CMD_POST_SEND)
		return 3;
	if (datagrams)
		return 9;
	switch (request[3]) {
	case IBV_WR_RDMA_WRITE: case IBV_WR_RDMA_WRITE_WITH_IMM: case IBV_WR_RDMA_READ: return 9;
	case IBV_WR_ATOMIC_CMP_AND_SWP: case IBV_WR_ATOMIC_FETCH_AND_ADD: return 13;
	default: return 6;
	}
}

/* The core's part of a legacy command. The address of the answer, which only some of the ways need, is left out. */
static void print_core(uint32_t command, const void *core, size_t size, bool answered)
{
	size_t skip = !(command & IB_USER_VERBS_CMD_FLAG_EXTENDED) && answered ? 8 : 0;

	uint32_t words[256];
	const struct ib_uverbs_post_send *post = core;

	if (posts(command)) {
		/* What a request does not use, rdma-core leaves as it finds it. */
		memcpy(words, core, size < sizeof words ? size : sizeof words);
		for (unsigned i = 0; i < post->wr_count; i++) {
			uint32_t *request = words + (sizeof *post + i * post->wqe_size) / 4;

			memset(request + used_words(command, request), 0, post->wqe_size - 4 * used_words(command, request));
		}
		core = words;
	}
	fprintf(RECORD, " core[%zu]", size);
	if (skip)
		fprintf(RECORD, " (answer)");
	dump((const char *)core + skip, size - skip);
}

#endif
