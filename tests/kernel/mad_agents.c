/*
 * mad_agents.c - agents of a port: which may be registered, what they send, and what comes for them.
 */
#include "mads.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_tid = 1;
/* How long waits have taken: a slow machine makes them no longer, and what is answered in time always is. */
static uint64_t passed;

/* Answers under way. */
static struct arrival {
	struct arrival *next;
	struct mad_port *port;
	uint64_t when;
	struct ib_user_mad_hdr hdr;
	size_t length;
	uint8_t mad[];
} *arrivals;

void mad_lock(void)
{
	pthread_mutex_lock(&lock);
}
void mad_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint64_t mad_now(void)
{
	return passed;
}

/* --- registration ------------------------------------------------------------------------------------------ */

static bool vendor_with_oui(uint8_t class)
{
	return class >= 0x30 && class <= 0x4f;
}

/* Whether two agents would get the same requests. */
static bool overlap(const struct mad_agent *a, const struct mad_agent *b)
{
	if (a->class != b->class || a->version != b->version || (vendor_with_oui(a->class) && memcmp(a->oui, b->oui, 3)))
		return false;
	return (a->methods[0] & b->methods[0]) || (a->methods[1] & b->methods[1]);
}

static bool acceptable(const struct mad_agent *wanted)
{
	bool smp = wanted->class == CLASS_SMP || wanted->class == CLASS_ROUTED_SMP;

	if (wanted->rmpp && wanted->rmpp != 1)
		return false;
	if (!wanted->class)
		return !wanted->user_rmpp;
	if (wanted->version >= 0x83 || (wanted->class >= 80 && wanted->class != CLASS_ROUTED_SMP))
		return false;
	if (vendor_with_oui(wanted->class) && !wanted->oui[0] && !wanted->oui[1] && !wanted->oui[2])
		return false;
	if (!mad_class_has_rmpp(wanted->class) && wanted->rmpp)
		return false;
	return smp == !wanted->qpn;
}

int mad_register(struct mad_file *file, struct mad_agent wanted, uint32_t *id)
{
	unsigned free_id = 0;

	while (free_id < MAD_AGENTS && file->agents[free_id].used)
		free_id++;
	if (free_id == MAD_AGENTS)
		return ENOMEM;
	if (!wanted.qpn && file->port->ethernet)
		return EPROTONOSUPPORT;
	if (!acceptable(&wanted))
		return EINVAL;
	for (unsigned f = 0; wanted.class && f < mad_file_count; f++)
		for (unsigned i = 0; mad_files[f].fd >= 0 && mad_files[f].port == file->port && i < MAD_AGENTS; i++)
			if (mad_files[f].agents[i].used && overlap(&mad_files[f].agents[i], &wanted))
				return EINVAL;
	wanted.used = true;
	wanted.hi_tid = next_tid++;
	file->agents[free_id] = wanted;
	*id = free_id;
	return 0;
}

void mad_forget_sent(struct mad_file *file, unsigned agent)
{
	for (struct mad_sent **at = &file->sent; *at;) {
		struct mad_sent *sent = *at;

		if (sent->agent == agent) {
			*at = sent->next;
			free(sent);
		} else {
			at = &sent->next;
		}
	}
}

int mad_unregister(struct mad_file *file, uint32_t id)
{
	if (id >= MAD_AGENTS || !file->agents[id].used)
		return EINVAL;
	file->agents[id].used = false;
	mad_forget_sent(file, id);
	return 0;
}

/* --- what comes -------------------------------------------------------------------------------------------- */

static void queue(struct mad_file *file, unsigned agent, const struct ib_user_mad_hdr *hdr, bool received,
		  const uint8_t *mad, size_t length)
{
	struct mad_packet *packet = malloc(sizeof *packet + length), **last = &file->packets;
	uint64_t one = 1;

	if (!packet)
		abort();
	*packet = (struct mad_packet){.hdr = *hdr, .received = received, .length = length};
	packet->hdr.id = agent;
	if (received)
		packet->hdr.length = header_size(file) + length;
	memcpy(packet->mad, mad, length);
	while (*last)
		last = &(*last)->next;
	*last = packet;
	SYSTEM_CALL(SYS_write, file->fd, &one, sizeof one);
}

static void response(struct mad_port *port, const struct ib_user_mad_hdr *from, const uint8_t *mad, size_t length)
{
	for (unsigned f = 0; f < mad_file_count; f++)
		for (struct mad_sent **at = &mad_files[f].sent; mad_files[f].fd >= 0 && *at; at = &(*at)->next) {
			struct mad_sent *sent = *at;

			if (mad_files[f].port != port || memcmp(sent->mad + AT_TID, mad + AT_TID, 8) ||
			    sent->mad[AT_CLASS] != mad[AT_CLASS] || sent->mad[AT_METHOD] & 0x80)
				continue;
			*at = sent->next;
			queue(&mad_files[f], sent->agent, from, true, mad, length);
			free(sent);
			return;
		}
}

void mad_arrive(struct mad_port *port, const struct ib_user_mad_hdr *from, const uint8_t *mad, size_t length)
{
	struct mad_agent like = {.class = mad[AT_CLASS], .version = mad[AT_VERSION]};

	if (mad[AT_METHOD] & 0x80 || mad[AT_METHOD] == 7) {
		response(port, from, mad, length);
		return;
	}
	memcpy(like.oui, mad + AT_VENDOR_OUI, 3);
	like.methods[mad[AT_METHOD] / 64] = 1ull << mad[AT_METHOD] % 64;
	for (unsigned f = 0; f < mad_file_count; f++)
		for (unsigned i = 0; mad_files[f].fd >= 0 && mad_files[f].port == port && i < MAD_AGENTS; i++)
			if (mad_files[f].agents[i].used && overlap(&mad_files[f].agents[i], &like)) {
				queue(&mad_files[f], i, from, true, mad, length);
				return;
			}
}

/* --- what is sent ------------------------------------------------------------------------------------------ */

/* To the port itself, or to a node of the fabric, whose answer may come later. */
static void transmit(struct mad_port *port, const struct mad_agent *agent, const struct ib_user_mad_hdr *to,
		     const uint8_t *mad, size_t length, unsigned tries)
{
	static struct mad_answer answer; /* under the lock */
	struct arrival *arrival, **last = &arrivals;
	bool smp = !agent->qpn;
	uint8_t whole[MAD_BYTES] = {0};

	if (!to->grh_present && !smp && ntohs(to->lid) == port->lid) {
		struct ib_user_mad_hdr from = {.qpn = htonl(agent->qpn), .lid = to->lid, .sl = to->sl,
					       .pkey_index = to->pkey_index};

		if (length < MAD_BYTES) {
			memcpy(whole, mad, length);
			mad = whole;
			length = MAD_BYTES;
		}
		mad_arrive(port, &from, mad, length);
		return;
	}
	length = mad_answer(port, to, mad, length, agent->rmpp && !agent->user_rmpp, tries, &answer);
	if (!length)
		return;
	if (!answer.delay) {
		mad_arrive(port, &answer.hdr, answer.mad, length);
		return;
	}
	arrival = malloc(sizeof *arrival + length);
	if (!arrival)
		abort();
	*arrival = (struct arrival){.port = port, .when = passed + answer.delay, .hdr = answer.hdr, .length = length};
	memcpy(arrival->mad, answer.mad, length);
	while (*last)
		last = &(*last)->next;
	*last = arrival;
}

/* Answers that come later, tries again, and requests that nobody answered. The result is when there is more to
 * do. */
static uint64_t work(void)
{
	uint64_t time = passed, next = UINT64_MAX;

	for (struct arrival **at = &arrivals; *at;) {
		struct arrival *arrival = *at;

		if (arrival->when <= time) {
			*at = arrival->next;
			mad_arrive(arrival->port, &arrival->hdr, arrival->mad, arrival->length);
			free(arrival);
		} else {
			next = arrival->when < next ? arrival->when : next;
			at = &arrival->next;
		}
	}
	for (unsigned f = 0; f < mad_file_count; f++) {
		struct mad_file *file = &mad_files[f];

		for (struct mad_sent **at = &file->sent; file->fd >= 0 && *at;) {
			struct mad_sent *sent = *at;

			if (sent->until > time) {
				next = sent->until < next ? sent->until : next;
				at = &sent->next;
			} else if (sent->tries < sent->hdr.retries) {
				sent->until = time + sent->hdr.timeout_ms;
				transmit(file->port, &file->agents[sent->agent], &sent->hdr, sent->mad, sent->length,
					 ++sent->tries);
				at = &file->sent;   /* it may have been answered */
			} else {
				*at = sent->next;
				sent->hdr.status = ETIMEDOUT;
				queue(file, sent->agent, &sent->hdr, false, sent->mad, MAD_HEADER);
				free(sent);
			}
		}
	}
	return next;
}

bool mad_let_time_pass(uint64_t end)
{
	uint64_t next = work();

	next = next < end ? next : end;
	if (next == UINT64_MAX)
		return false;
	if (next > passed) {
		passed = next;
		work();
	}
	return true;
}

/* A second request with the transaction id of one that waits. */
static bool duplicate(const struct mad_file *file, const uint8_t *mad)
{
	for (const struct mad_sent *sent = file->sent; sent; sent = sent->next)
		if (!memcmp(sent->mad + AT_TID, mad + AT_TID, 8) && sent->mad[AT_CLASS] == mad[AT_CLASS])
			return true;
	return false;
}

int mad_send(struct mad_file *file, const struct ib_user_mad_hdr *hdr, const uint8_t *mad, size_t length)
{
	const struct mad_agent *agent = &file->agents[hdr->id];
	unsigned offset = mad_data_offset(mad[AT_CLASS]);
	bool kernel_rmpp = agent->rmpp && !agent->user_rmpp;
	bool active = mad_class_has_rmpp(mad[AT_CLASS]) && kernel_rmpp && mad[AT_RMPP_FLAGS] & RMPP_ACTIVE;
	bool is_response = mad[AT_METHOD] & 0x80 || mad[AT_METHOD] == 7;
	struct mad_sent *sent;

	if (file->port->ethernet && !hdr->grh_present)
		return EINVAL;
	if (length < offset || (!active && length > MAD_BYTES))
		return EINVAL;
	sent = malloc(sizeof *sent + (length > MAD_BYTES ? length : MAD_BYTES));
	if (!sent)
		return ENOMEM;
	*sent = (struct mad_sent){.hdr = *hdr, .agent = hdr->id, .length = length > MAD_BYTES ? length : MAD_BYTES};
	memset(sent->mad, 0, MAD_BYTES);
	memcpy(sent->mad, mad, length);
	if (!is_response)
		put_word(sent->mad, AT_TID, agent->hi_tid);
	if ((!is_response && duplicate(file, sent->mad)) ||
	    (!mad_class_has_rmpp(mad[AT_CLASS]) && agent->rmpp)) {
		free(sent);
		return EINVAL;
	}
	if (!hdr->timeout_ms) {
		transmit(file->port, agent, hdr, sent->mad, sent->length, 0);
		free(sent);
	} else {
		struct mad_sent **last = &file->sent;

		sent->until = passed + hdr->timeout_ms;
		while (*last)
			last = &(*last)->next;
		*last = sent;
		transmit(file->port, agent, hdr, sent->mad, sent->length, 0); /* an answer frees it */
	}
	return 0;
}
