/*
 * link.c - a cable between two network namespaces that treats packets of RoCE v2 badly.
 *
 *   link INTERFACE PID PID [--lose N] [--double N] [--late N] [--damage N] [--mark N] [--mads N]
 *        [--spare-rtu 1] [--delay MICROSECONDS] [--stall MILLISECONDS] [--seed N] [--mirror 1]
 *
 * Makes a tap interface with this name in the network namespaces of both processes, says `ready`, and carries frames from
 * each to the other until SIGTERM. Of 1000 packets to UDP port 4791, so many are lost, come twice (the second time after up to
 * 64 others), come after up to 64 others that were sent later, or have a byte that was changed, with a UDP checksum that does
 * not show it; of those that say that marks of congestion are obeyed, so many are marked; of those to queue pair 1 (MADs), so many
 * are lost besides, with --spare-rtu none that says RTU. Other frames are only delayed.
 * After every 30000 frames it stands still for so many milliseconds, as if others had its processor; then it goes on with what
 * came meanwhile. At the end it says how often each has happened, and how many congestion notifications it has carried.
 *
 * With --mirror only the first process has an interface, and is its own peer: a packet of RoCE v2 to an address comes back
 * from that address, with the invariant CRC and the checksum of what it is then. Other frames are lost. What came damaged, or
 * goes to many, does not come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define ROOM 10240 /* bytes of a frame */
#define HELD 8192  /* frames under way */
#define APART 64   /* frames between which a late one may come */
#define PORT 4791
#define STALL_EVERY 30000 /* frames */
/* After so long a late frame comes where no others do. */
#define IDLE_NS 1000000

static volatile sig_atomic_t ends;
static uint64_t state;

static void end(int signal)
{
	(void)signal;
	ends = 1;
}

static void die(const char *what)
{
	fprintf(stderr, "link: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint32_t rnd(uint32_t below)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int tap(const char *pid, const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	char path[64];
	int space, fd;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	space = open(path, O_RDONLY | O_CLOEXEC);
	if (space < 0 || setns(space, CLONE_NEWNET))
		die(path);
	close(space);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		die("/dev/net/tun");
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &request))
		die(name);
	return fd;
}

static unsigned number(const unsigned char *p) { return (unsigned)p[0] << 8 | p[1]; }

/* Where the UDP header of a RoCE v2 packet is; 0 for any other frame. */
static size_t roce(const unsigned char *frame, size_t length)
{
	size_t at = 0;

	if (length > 14 + 20 && number(frame + 12) == 0x0800 && frame[14 + 9] == 17)
		at = 14 + (size_t)(frame[14] & 15) * 4;
	else if (length > 14 + 40 && number(frame + 12) == 0x86dd && frame[14 + 6] == 17)
		at = 14 + 40;
	return at && length > at + 8 + 12 && number(frame + at + 2) == PORT ? at : 0;
}

/* Whether a packet is to queue pair 1, by its base transport header. */
static bool is_mad(const unsigned char *bth) { return bth[5] == 0 && bth[6] == 0 && bth[7] == 1; }

/* Whether a MAD says that its sender is ready to use the connection: 12 bytes of that header, 8 of DETH, then the MAD's. */
static bool is_rtu(const unsigned char *bth) { return number(bth + 12 + 8 + 16) == 0x14; }

/* Marks a packet of IP as a congested router does (RFC 3168), if it says that marks are obeyed. */
static bool mark(unsigned char *frame)
{
	unsigned char *ip = frame + 14;
	unsigned before, sum;

	if (ip[0] >> 4 == 6) {
		unsigned ecn = ip[1] >> 4 & 3;

		ip[1] |= ecn ? 0x30 : 0;
		return ecn;
	}
	if (!(ip[1] & 3))
		return false;
	before = number(ip);
	ip[1] |= 3;
	/* RFC 1624, equation 3. */
	sum = (~number(ip + 10) & 0xffff) + (~before & 0xffff) + number(ip);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	ip[10] = (unsigned char)(sum >> 8);
	ip[11] = (unsigned char)sum;
	return true;
}

/* Changes a byte behind the UDP header, and the checksum so that it is right again. */
static void damage(unsigned char *frame, size_t length, size_t udp)
{
	size_t at = udp + 8 + rnd((uint32_t)(length - udp - 8));
	unsigned before, after, sum;
	size_t word = at - (at - udp) % 2;

	if (word + 1 >= length)
		word -= 2, at = word;
	before = number(frame + word);
	frame[at] ^= (unsigned char)(1 + rnd(255));
	after = number(frame + word);
	if (!number(frame + udp + 6))
		return;
	/* RFC 1624, equation 3. */
	sum = (~number(frame + udp + 6) & 0xffff) + (~before & 0xffff) + after;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	sum = sum ? sum : 0xffff;
	frame[udp + 6] = (unsigned char)(sum >> 8);
	frame[udp + 7] = (unsigned char)sum;
}

static uint32_t crc_of(uint32_t crc, const unsigned char *bytes, size_t length)
{
	static uint32_t table[256];

	for (uint32_t i = 0; !table[1] && i < 256; i++) {
		/* The last entries first: that of 1 is the sign that all are there. */
		uint32_t at = 255 - i, value = at;

		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
		table[at] = value;
	}
	for (size_t i = 0; i < length; i++)
		crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
	return crc;
}

/* The invariant CRC of a packet (InfiniBand annex A17): of what routers change there are ones. */
static uint32_t invariant_crc(const unsigned char *frame, size_t length, size_t udp)
{
	unsigned char head[8 + 60 + 8 + 12];
	size_t size = udp - 14 + 8 + 12;
	unsigned char *ip = head + 8, *bth = head + 8 + size - 12;

	memset(head, 0xff, 8);
	memcpy(ip, frame + 14, size);
	if (ip[0] >> 4 == 4) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	bth[-2] = bth[-1] = bth[4] = 0xff;
	return ~crc_of(crc_of(0xffffffff, head, 8 + size), frame + udp + 20, length - udp - 20 - 4);
}

static void swap(unsigned char *a, unsigned char *b, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

/* Makes a packet that goes to a peer one that comes from it; false for what has none. */
static bool mirror(unsigned char *frame, size_t length, size_t udp)
{
	bool is_v4 = frame[14] >> 4 == 4;
	size_t size = is_v4 ? 4 : 16, from = 14 + (is_v4 ? 12 : 8), word = length - 4;
	unsigned sum;
	uint32_t crc;

	if (length < udp + 8 + 12 + 4 || length - udp != number(frame + udp + 4) || udp > 14 + 60 || (frame[0] & 1))
		return false;
	crc = invariant_crc(frame, length, udp);
	if (memcmp(frame + word, &crc, 4))
		return false;
	swap(frame, frame + 6, 6);
	swap(frame + from, frame + from + size, size);
	crc = invariant_crc(frame, length, udp);
	/* The words of the checksum are those of the UDP header on. */
	sum = ~number(frame + udp + 6) & 0xffff;
	word -= (word - udp) % 2;
	for (size_t at = word; at < length; at += 2)
		sum += ~(at + 1 < length ? number(frame + at) : (unsigned)frame[at] << 8) & 0xffff;
	memcpy(frame + length - 4, &crc, 4);
	for (size_t at = word; at < length; at += 2)
		sum += at + 1 < length ? number(frame + at) : (unsigned)frame[at] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	sum = sum ? sum : 0xffff;
	if (number(frame + udp + 6)) {
		frame[udp + 6] = (unsigned char)(sum >> 8);
		frame[udp + 7] = (unsigned char)sum;
	}
	return true;
}

/* One under way: it comes when its time has, and so many others have passed it or it is idle. */
static struct held {
	unsigned char *bytes;
	size_t length;
	int to;
	unsigned others;
	uint64_t due;
} held[HELD];
static int count;

static void hold(const unsigned char *bytes, size_t length, int to, unsigned others, uint64_t due)
{
	struct held *h = &held[count];

	/* As in a full queue of a switch. */
	if (count == HELD)
		return;
	h->bytes = malloc(length);
	if (!h->bytes)
		die("memory");
	memcpy(h->bytes, bytes, length);
	h->length = length;
	h->to = to;
	h->others = others;
	h->due = due;
	count++;
}

/* Delivers what may be by now, in the order in which it was sent. */
static void deliver(const int *fds, uint64_t now)
{
	int left = 0;

	for (int i = 0; i < count; i++) {
		struct held *h = &held[i];
		bool is_idle = now >= h->due + IDLE_NS;

		if (now < h->due || (h->others && !is_idle)) {
			held[left++] = *h;
			continue;
		}
		/* A full interface drops it, as any does. */
		if (write(fds[h->to], h->bytes, h->length) < 0 && errno != EAGAIN && errno != EIO && errno != ENOBUFS)
			die("write");
		for (int j = 0; j < left; j++)
			if (held[j].to == h->to && held[j].others)
				held[j].others--;
		free(h->bytes);
	}
	count = left;
}

static int wait_ms(uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < count; i++) {
		uint64_t due = held[i].due + (held[i].others ? IDLE_NS : 0);

		next = due < next ? due : next;
	}
	return next == UINT64_MAX ? -1 : next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"--lose", "--double", "--late", "--damage", "--mark", "--mads", "--stall",
					    "--delay", "--seed", "--mirror", "--spare-rtu"};
	enum { LOSE, DOUBLE, LATE, DAMAGE, MARK, MADS, STALL, DELAY, SEED, MIRROR, SPARE_RTU, OPTIONS };
	unsigned long options[OPTIONS] = {[SEED] = 1}, happened[STALL + 1] = {0}, carried = 0, notified = 0;
	static unsigned char frame[ROOM];
	struct pollfd fds[2];
	int taps[2];

	for (int i = 4; i + 1 < argc; i += 2) {
		int option = 0;

		while (option < OPTIONS && strcmp(argv[i], names[option]))
			option++;
		if (option == OPTIONS) {
			errno = EINVAL;
			die(argv[i]);
		}
		options[option] = strtoul(argv[i + 1], NULL, 0);
	}
	if (argc < 4) {
		errno = EINVAL;
		die("INTERFACE PID PID");
	}
	state = options[SEED];
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
	taps[1] = fds[1].fd = -1;
	for (int i = 0; i < (options[MIRROR] ? 1 : 2); i++) {
		taps[i] = tap(argv[2 + i], argv[1]);
		fds[i] = (struct pollfd){.fd = taps[i], .events = POLLIN};
	}
	puts("ready");
	fflush(stdout);
	while (!ends) {
		uint64_t now = now_ns();

		deliver(taps, now);
		if (options[STALL] && carried / STALL_EVERY > happened[STALL]) {
			happened[STALL]++;
			poll(NULL, 0, (int)options[STALL]);
		}
		if (poll(fds, 2, wait_ms(now)) < 0 && errno != EINTR)
			die("poll");
		now = now_ns();
		for (int side = 0; side < 2 && taps[side] >= 0; side++) {
			int to = options[MIRROR] ? side : !side;
			ssize_t length;

			/* Few at a time, so that the other direction goes on as well. */
			for (int n = 0; n < 64 && (length = read(taps[side], frame, sizeof(frame))) > 0; n++) {
				size_t udp = roce(frame, (size_t)length);
				uint64_t due = now + options[DELAY] * 1000;
				unsigned fate[4] = {0};

				if (options[MIRROR] && !(udp && mirror(frame, (size_t)length, udp)))
					continue;
				carried++;
				for (int i = LOSE; udp && i <= DAMAGE; i++) {
					fate[i] = rnd(1000) < options[i];
					happened[i] += fate[i];
				}
				notified += udp && frame[udp + 8] == 0x81;
				if (udp && rnd(1000) < options[MARK])
					happened[MARK] += mark(frame);
				if (udp && is_mad(frame + udp + 8) && !(options[SPARE_RTU] && is_rtu(frame + udp + 8)) &&
				    rnd(1000) < options[MADS]) {
					happened[MADS]++;
					continue;
				}
				if (fate[LOSE])
					continue;
				if (fate[DOUBLE])
					hold(frame, (size_t)length, to, rnd(APART), due);
				if (fate[DAMAGE])
					damage(frame, (size_t)length, udp);
				hold(frame, (size_t)length, to, fate[LATE] ? 1 + rnd(APART) : 0, due);
			}
		}
	}
	printf("carried %lu lose %lu double %lu late %lu damage %lu mark %lu mads %lu stall %lu notified %lu\n", carried,
	       happened[LOSE], happened[DOUBLE], happened[LATE], happened[DAMAGE], happened[MARK], happened[MADS], happened[STALL],
	       notified);
	return 0;
}
