/* Two machines of a packet guest over a path of the recordings in groundtruth/freebsd: interfaces of 1 Gbit/s, a bottleneck that
 * drops at its tail, a fixed delay. Prints a line for each packet that the bottleneck dropped, as the recordings have it, or the
 * bytes that arrived, and what the sender told; what went wrong goes to stderr.
 *
 *     pair freebsd.so cubic 10 40 90 90 [bytes=10000000] [ecn=30] [NAME=VALUE of a sysctl of both hosts ...]
 *
 * The figures are rate (Mbit/s), round trip (ms), packets of the queue, and time (s). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cwndlab_guest.h"

#define MTU 1500
#define ETHERNET 14
#define NIC 1000000000ULL
#define READ 65536
#define BUFFER (4 << 20)
#define PACKETS 65536	/* on their way at once */
#define HEADERS 120

/* The recorded sender's clock is at the end of a tick when its SYN leaves; the receiver's ticks later. */
#define PHASE 999900
#define LAG 370000

/* Seed of the recorded machines' random(). */
#define RANDOM 2

struct packet {
	uint64_t at;
	uint32_t length;
	uint8_t bytes[HEADERS];
};

struct line {
	struct packet packets[PACKETS];
	unsigned first, n;
};

struct host {
	const struct cwndlab_guest *guest;
	void *machine, *connection;
	uint64_t free;	/* when its interface has sent all */
};

static struct {
	uint64_t rate, rtt, duration, bytes;
	unsigned queue, mark;
	const char *cc;
	struct cwndlab_guest_sysctl sysctls[32];
	size_t n_sysctls;
} setup;

static struct host hosts[2];
static struct line to_queue, queue, to_receiver, to_sender;
static uint64_t now, served = UINT64_MAX, reverse_free, established = UINT64_MAX, written, delivered;
static uint32_t first_sequence, drops;
static struct packet in_service;
static unsigned told[CWNDLAB_GUEST_RECOVERED + 1];

static void
fail(const char *what)
{
	fprintf(stderr, "pair: %s\n", what);
	exit(1);
}

static struct packet *
add(struct line *line, uint64_t at)
{
	struct packet *packet = &line->packets[(line->first + line->n++) % PACKETS];

	if (line->n > PACKETS)
		fail("too many packets on their way");
	packet->at = at;
	return packet;
}

static struct packet
take(struct line *line)
{
	struct packet packet = line->packets[line->first];

	line->first = (line->first + 1) % PACKETS;
	line->n--;
	return packet;
}

static uint64_t
wire_time(uint32_t length, uint64_t rate)
{
	return (length + ETHERNET) * 8ULL * 1000000000ULL / rate;
}

/* A library's statics are a machine's: each has a copy of the file. */
static void
start(struct host *host, const char *file, int opening)
{
	struct cwndlab_guest_machine machine = { .size = sizeof(machine), .mtu = MTU, .address = 0x0a090002 - opening, .ecn = setup.mark != 0,
	    .send_buffer = BUFFER, .receive_buffer = BUFFER, .n_sysctls = setup.n_sysctls, .sysctls = setup.sysctls };
	struct cwndlab_guest_connection connection = { .size = sizeof(connection), .opening = opening,
	    .local_address = 0x0a090002 - opening, .remote_address = 0x0a090001 + opening, .local_port = opening ? 35001 : 5001,
	    .remote_port = opening ? 5001 : 35001, .mss = MTU - 40, .cc = setup.cc };
	const struct cwndlab_guest *(*get)(void);
	uint64_t phase = opening ? PHASE : PHASE + 1000000 - LAG;
	char copy[] = "/tmp/pair-XXXXXX", command[4096], why[256] = "";
	int descriptor = mkstemp(copy);
	void *library;

	snprintf(command, sizeof(command), "cp '%s' %s", file, copy);
	if (descriptor < 0 || system(command) != 0)
		fail("the library cannot be copied");
	close(descriptor);
	library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	unlink(copy);
	if (library == NULL)
		fail(dlerror());
	if ((get = (const struct cwndlab_guest *(*)(void))dlsym(library, "cwndlab_guest")) == NULL)
		fail(dlerror());
	host->guest = get();
	memcpy(machine.seed, &phase, sizeof(phase));
	machine.seed[8] = RANDOM;
	machine.seed[16] = opening;
	if ((host->machine = host->guest->start(&machine, why, sizeof(why))) == NULL)
		fail(why);
	if ((host->connection = host->guest->open(host->machine, &connection, why, sizeof(why))) == NULL)
		fail(why);
}

static uint32_t
sequence(const uint8_t *bytes)
{
	return (uint32_t)bytes[24] << 24 | bytes[25] << 16 | bytes[26] << 8 | bytes[27];
}

static void
transmit(struct host *host)
{
	uint8_t bytes[MTU];
	size_t length;
	struct packet *packet;

	while ((length = host->guest->poll_transmit(host->machine, bytes, sizeof(bytes), NULL, NULL, now)) > 0) {
		if (host->free < now)
			host->free = now;
		host->free += wire_time(length, NIC);
		if (host == &hosts[0]) {
			packet = add(&to_queue, host->free);
		} else {
			if (reverse_free < host->free)
				reverse_free = host->free;
			reverse_free += wire_time(length, setup.rate);
			packet = add(&to_sender, reverse_free + setup.rtt / 2);
		}
		packet->length = length;
		memcpy(packet->bytes, bytes, length < HEADERS ? length : HEADERS);
	}
}

static void
tell(void)
{
	struct cwndlab_guest_event event;

	while (hosts[0].guest->events(hosts[0].connection, &event))
		told[event.kind]++;
}

static void
feed(void)
{
	struct host *host = &hosts[0];
	uint64_t taken;

	transmit(host);
	if (!host->guest->is_open(host->connection))
		return;
	if (established == UINT64_MAX)
		established = now;
	while (written < setup.bytes && host->guest->is_writable(host->connection)) {
		taken = setup.bytes - written < READ ? setup.bytes - written : READ;
		written += host->guest->write(host->connection, taken, now);
	}
	if (written == setup.bytes)
		host->guest->finish(host->connection, now);
	transmit(host);
	tell();
}

static void
drain(void)
{
	struct host *host = &hosts[1];
	uint64_t taken;

	transmit(host);
	while ((taken = host->guest->read(host->connection, READ, now)) > 0) {
		delivered += taken;
		transmit(host);
	}
}

static void
arrive(struct host *host, const struct packet *packet)
{
	static uint8_t bytes[MTU];

	memset(bytes + HEADERS, 0, sizeof(bytes) - HEADERS);
	memcpy(bytes, packet->bytes, HEADERS);
	host->guest->handle(host->machine, NULL, bytes, packet->length, bytes[1] & 3, now);
	if (host == &hosts[0])
		feed();
	else
		drain();
}

static void
serve(void)
{
	if (queue.n == 0) {
		served = UINT64_MAX;
		return;
	}
	in_service = take(&queue);
	served = now + wire_time(in_service.length, setup.rate);
}

static void
enqueue(void)
{
	struct packet packet = take(&to_queue);
	unsigned length = queue.n + (served != UINT64_MAX);

	if (packet.length <= 60 && first_sequence == 0)
		first_sequence = sequence(packet.bytes) + 1;
	if (queue.n >= setup.queue) {
		drops++;
		if (setup.bytes == UINT64_MAX)
			printf("%.6f,%u\n", (now - established) / 1e9, sequence(packet.bytes) - first_sequence);
		return;
	}
	if (setup.mark != 0 && length >= setup.mark && (packet.bytes[1] & 3) != 0)
		packet.bytes[1] |= 3;
	*add(&queue, now) = packet;
	if (served == UINT64_MAX)
		serve();
}

static uint64_t
first(const struct line *line)
{
	return line->n == 0 ? UINT64_MAX : line->packets[line->first].at;
}

static void
run(void)
{
	uint64_t timers[2], next;
	struct packet packet;

	feed();
	for (;;) {
		for (int i = 0; i < 2; i++)
			timers[i] = hosts[i].guest->poll_timeout(hosts[i].machine);
		next = first(&to_queue) < served ? first(&to_queue) : served;
		next = first(&to_receiver) < next ? first(&to_receiver) : next;
		next = first(&to_sender) < next ? first(&to_sender) : next;
		next = timers[0] < next ? timers[0] : next;
		next = timers[1] < next ? timers[1] : next;
		if (next > (established == UINT64_MAX ? 0 : established) + setup.duration || hosts[1].guest->is_at_end(hosts[1].connection))
			return;
		now = next > now ? next : now;
		if (first(&to_receiver) <= now) {
			packet = take(&to_receiver);
			arrive(&hosts[1], &packet);
		} else if (first(&to_sender) <= now) {
			packet = take(&to_sender);
			arrive(&hosts[0], &packet);
		} else if (first(&to_queue) <= now) {
			enqueue();
		} else if (served <= now) {
			*add(&to_receiver, now) = in_service;
			to_receiver.packets[(to_receiver.first + to_receiver.n - 1) % PACKETS].at = now + setup.rtt / 2;
			serve();
		} else if (timers[0] <= now) {
			hosts[0].guest->handle_timeout(hosts[0].machine, now);
			feed();
		} else {
			hosts[1].guest->handle_timeout(hosts[1].machine, now);
			drain();
		}
	}
}

static void
parse(int n, char **words)
{
	char *equals;

	setup.cc = words[2];
	setup.rate = strtoull(words[3], NULL, 10) * 1000000;
	setup.rtt = strtoull(words[4], NULL, 10) * 1000000;
	setup.queue = strtoul(words[5], NULL, 10);
	setup.duration = strtoull(words[6], NULL, 10) * 1000000000;
	setup.bytes = UINT64_MAX;
	for (int i = 7; i < n; i++) {
		if ((equals = strchr(words[i], '=')) == NULL || setup.n_sysctls == 32)
			fail("further words are NAME=VALUE");
		*equals = '\0';
		if (strcmp(words[i], "bytes") == 0)
			setup.bytes = strtoull(equals + 1, NULL, 10);
		else if (strcmp(words[i], "ecn") == 0)
			setup.mark = strtoul(equals + 1, NULL, 10);
		else
			setup.sysctls[setup.n_sysctls++] = (struct cwndlab_guest_sysctl){ words[i], equals + 1 };
	}
}

int
main(int n, char **words)
{
	struct cwndlab_guest_state state;

	if (n < 7)
		fail("pair LIBRARY CC MBIT_PER_S RTT_MS PACKETS SECONDS [NAME=VALUE ...]");
	parse(n, words);
	start(&hosts[0], words[1], 1);
	start(&hosts[1], words[1], 0);
	run();
	tell();
	memset(&state, 0xff, sizeof(state));
	hosts[0].guest->observe(hosts[0].connection, &state);
	printf("# %llu bytes in %.6f s, %u drops, %llu of %llu packets sent again, %u recoveries, %u reductions, %u timeouts\n",
	    (unsigned long long)delivered, (now - established) / 1e9, drops, (unsigned long long)state.lost, (unsigned long long)state.sent,
	    told[CWNDLAB_GUEST_LOSS], told[CWNDLAB_GUEST_REDUCTION], told[CWNDLAB_GUEST_TIMEOUT]);
	for (int i = 0; i < 2; i++)
		if (hosts[i].guest->failure(hosts[i].connection) != NULL)
			fail(hosts[i].guest->failure(hosts[i].connection));
	for (int i = 0; i < 2; i++)
		hosts[i].guest->stop(hosts[i].machine);
	return 0;
}
