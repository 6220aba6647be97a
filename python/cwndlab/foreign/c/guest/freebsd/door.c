/* FreeBSD's network stack as a packet guest of cwndlab: `cwndlab_guest` of the header, in terms of stack.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cwndlab_guest.h"
#include "machine.h"
#include "stack.h"

#ifndef GUEST_NAME
#define GUEST_NAME "freebsd-13.0"
#endif

/* The machine has been up for so long when the run begins: a tick of zero means "none" to the stack. */
#define UPTIME 100000000000ULL

/* The longest tick whose beginning is drawn, ns: that of 100 ticks a second. */
#define TICK 10000000

/* Events that nobody has asked for are lost from this many on. */
#define EVENTS 64

struct connection {
	struct connection *next;
	struct guest_socket *socket;
	uint32_t remote_address;
	uint16_t local_port, remote_port;
	uint64_t sent;
	struct guest_figures before;
	int is_known;
	struct cwndlab_guest_event events[EVENTS];
	unsigned first_event, n_events;
	char failure[64];
};

static struct machine {
	struct connection *connections;
	uint64_t began;	/* the run's time at which it booted */
	uint64_t phase;	/* how far its clock is into a tick then */
	uint64_t send_buffer, receive_buffer;
	uint32_t mtu;
	char cc[32];
} self;

/* Own time, for that of the run. */
static guest_time
own(uint64_t now)
{
	return now - self.began + self.phase + UPTIME;
}

static uint64_t
read64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static int
set_figure(const char *name, uint64_t value, char *why, size_t capacity)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return guest_set_sysctl(name, text, why, capacity);
}

/* Socket buffers of any size that the experiment asks for: the limit counts what mbufs waste. */
static int
raise_limit(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	uint64_t most = settings->send_buffer > settings->receive_buffer ? settings->send_buffer : settings->receive_buffer;

	return most > (1 << 20) ? set_figure("kern.ipc.maxsockbuf", 2 * most, why, capacity) : 0;
}

static void *
start(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	int error;

	if (machine_begin(settings->seed) != 0) {
		snprintf(why, capacity, "the memory that a host reserves is not there");
		return NULL;
	}
	self = (struct machine){ .began = settings->now, .mtu = settings->mtu, .send_buffer = settings->send_buffer,
	    .receive_buffer = settings->receive_buffer, .phase = read64(settings->seed) % TICK };
	for (size_t i = 0; i < settings->n_sysctls; i++)
		machine_tunable(settings->sysctls[i].name, settings->sysctls[i].value);
	machine_tunable("kern.hz", "1000");	/* unless it was set above: the first of a name counts */
	if ((error = guest_boot(settings->address, settings->mtu)) != 0) {
		snprintf(why, capacity, "the stack did not boot (FreeBSD's error %d)", error);
		return NULL;
	}
	guest_set_clock(own(settings->now));
	if (set_figure("net.inet.tcp.ecn.enable", settings->ecn, why, capacity) != 0 || raise_limit(settings, why, capacity) != 0)
		return NULL;
	for (size_t i = 0; i < settings->n_sysctls; i++)
		if (guest_set_sysctl(settings->sysctls[i].name, settings->sysctls[i].value, why, capacity) != 0)
			return NULL;
	return &self;
}

static void
stop(void *machine)
{
	struct connection *next;

	(void)machine;
	for (struct connection *c = self.connections; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	self.connections = NULL;
	machine_end();
}

static void
report(struct connection *c, uint32_t kind, uint64_t value)
{
	if (c->n_events == EVENTS)
		return;
	c->events[(c->first_event + c->n_events++) % EVENTS] = (struct cwndlab_guest_event){ .kind = kind, .value = value };
}

/* What has changed in a connection since the last look. */
static void
look(struct connection *c)
{
	struct guest_figures now, before = c->before;

	if (!guest_figures(c->socket, &now))
		return;
	if (c->is_known && now.backoff > before.backoff)
		report(c, CWNDLAB_GUEST_TIMEOUT, now.backoff);
	else if (c->is_known && now.recovery && !before.recovery)
		report(c, CWNDLAB_GUEST_LOSS, before.cwnd);
	else if (c->is_known && now.reduction && !before.reduction && !now.recovery)
		report(c, CWNDLAB_GUEST_REDUCTION, now.cwnd);
	else if (c->is_known && before.recovery && !now.recovery)
		report(c, CWNDLAB_GUEST_RECOVERED, now.cwnd);
	c->before = now;
	c->is_known = 1;
}

static struct connection *
find(uint32_t remote_address, uint16_t local_port, uint16_t remote_port)
{
	for (struct connection *c = self.connections; c != NULL; c = c->next)
		if (c->local_port == local_port && c->remote_port == remote_port && c->remote_address == remote_address)
			return c;
	return NULL;
}

static uint32_t
be16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t
be32(const uint8_t *bytes)
{
	return be16(bytes) << 16 | be16(bytes + 2);
}

/* Bytes of IP and TCP headers; 0: the packet has not both. */
static size_t
headers(const uint8_t *packet, size_t length)
{
	size_t ip = length < 20 ? 0 : (packet[0] & 15) * 4, tcp;

	if (length < 40 || packet[0] >> 4 != 4 || packet[9] != 6 || ip < 20 || ip + 20 > length)
		return 0;
	tcp = (packet[ip + 12] >> 4) * 4;
	return tcp < 20 || ip + tcp > length ? 0 : ip + tcp;
}

static void
handle(void *machine, void *connection, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now)
{
	size_t header = headers(bytes, length), ip;
	struct connection *c;

	(void)machine, (void)connection, (void)ecn;
	guest_set_clock(own(now));
	if (header == 0 || length - header > GUEST_PAGES)
		return;
	guest_input(bytes, header, length);
	ip = (bytes[0] & 15) * 4;
	if ((c = find(be32(bytes + 12), be16(bytes + ip + 2), be16(bytes + ip))) != NULL)
		look(c);
}

static size_t
poll_transmit(void *machine, uint8_t *buffer, size_t capacity, void **connection, uint32_t *ecn, uint64_t now)
{
	size_t length = guest_output(buffer, capacity), header;
	struct connection *c;

	(void)machine, (void)connection, (void)ecn, (void)now;
	header = headers(buffer, length);
	if (header != 0 && length > header) {
		size_t ip = (buffer[0] & 15) * 4;

		if ((c = find(be32(buffer + 16), be16(buffer + ip), be16(buffer + ip + 2))) != NULL)
			c->sent++;
	}
	return length;
}

static uint64_t
poll_timeout(void *machine)
{
	guest_time at = guest_next_timer();

	(void)machine;
	if (at == GUEST_NEVER)
		return CWNDLAB_GUEST_NEVER;
	return at < own(self.began) ? self.began : at - own(self.began) + self.began;
}

static void
handle_timeout(void *machine, uint64_t now)
{
	(void)machine;
	guest_set_clock(own(now));
	guest_run_timers();
	for (struct connection *c = self.connections; c != NULL; c = c->next)
		look(c);
}

/* FreeBSD 13 gives an accepted connection the machine's congestion control, not its listener's. */
static int
set_default_cc(const char *cc, char *why, size_t capacity)
{
	if (strcmp(self.cc, cc) == 0)
		return 0;
	snprintf(self.cc, sizeof(self.cc), "%s", cc);
	return guest_set_sysctl("net.inet.tcp.cc.algorithm", cc, why, capacity);
}

static void *
open(void *machine, const struct cwndlab_guest_connection *settings, char *why, size_t capacity)
{
	struct guest_ends ends = {
		.local_address = settings->local_address, .remote_address = settings->remote_address,
		.local_port = settings->local_port, .remote_port = settings->remote_port,
		.mss = settings->mss < self.mtu - 40 ? settings->mss : 0,
		.send_buffer = self.send_buffer, .receive_buffer = self.receive_buffer,
		.opening = settings->opening, .cc = settings->cc,
	};
	struct connection *c;
	int error;

	(void)machine;
	guest_set_clock(own(settings->now));
	if (set_default_cc(guest_cc(settings->cc), why, capacity) != 0)
		return NULL;
	if ((c = calloc(1, sizeof(*c))) == NULL)
		abort();
	if ((error = guest_open(&c->socket, &ends)) != 0) {
		snprintf(why, capacity, "no socket (FreeBSD's error %d)", error);
		free(c);
		return NULL;
	}
	c->remote_address = settings->remote_address;
	c->local_port = settings->local_port;
	c->remote_port = settings->remote_port;
	c->next = self.connections;
	self.connections = c;
	return c;
}

static void
close_connection(void *machine, void *connection)
{
	struct connection *c = connection, **at = &self.connections;

	(void)machine;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	guest_close(c->socket);
	free(c);
}

static struct guest_socket *
socket_of(void *connection)
{
	return ((struct connection *)connection)->socket;
}

static int
is_open(void *connection)
{
	return guest_is_open(socket_of(connection));
}

static uint64_t
write_bytes(void *connection, uint64_t bytes, uint64_t now)
{
	guest_set_clock(own(now));
	return guest_write(socket_of(connection), bytes);
}

static int
is_writable(void *connection)
{
	return guest_space(socket_of(connection)) > 0;
}

static void
finish(void *connection, uint64_t now)
{
	guest_set_clock(own(now));
	guest_finish(socket_of(connection));
}

static uint64_t
readable(void *connection)
{
	return guest_readable(socket_of(connection));
}

static uint64_t
read_bytes(void *connection, uint64_t most, uint64_t now)
{
	guest_set_clock(own(now));
	return guest_read(socket_of(connection), most);
}

static int
is_at_end(void *connection)
{
	return guest_is_at_end(socket_of(connection));
}

/* FreeBSD's numbers, which are not those of this system. */
static const char *
failure(void *connection)
{
	struct connection *c = connection;
	int error = guest_error(c->socket);

	switch (error) {
	case 0: return NULL;
	case 50: return "Network is down";
	case 51: return "Network is unreachable";
	case 54: return "Connection reset by peer";
	case 60: return "Operation timed out";
	case 61: return "Connection refused";
	case 65: return "No route to host";
	}
	snprintf(c->failure, sizeof(c->failure), "FreeBSD's error %d", error);
	return c->failure;
}

static void
observe(void *connection, struct cwndlab_guest_state *state)
{
	struct connection *c = connection;
	struct guest_figures f;

	if (!guest_figures(c->socket, &f))
		return;
	state->slow_start = f.cwnd < f.ssthresh && !f.recovery && !f.reduction;
	state->cwnd = f.cwnd;
	state->ssthresh = f.ssthresh;
	state->srtt = f.srtt == 0 ? CWNDLAB_GUEST_UNKNOWN : f.srtt;
	state->rto = f.rto;
	state->in_flight = f.in_flight;
	state->acknowledged = f.acknowledged;
	state->sent = c->sent;
	state->lost = f.lost;
	state->window = f.window;
	state->buffer = f.buffer;
	state->written = f.written;
}

static int
next_event(void *connection, struct cwndlab_guest_event *event)
{
	struct connection *c = connection;

	if (c->n_events == 0)
		return 0;
	*event = c->events[c->first_event];
	c->first_event = (c->first_event + 1) % EVENTS;
	c->n_events--;
	return 1;
}

static const char *const cc_names[] = {
	"newreno", "cubic", "htcp", "cdg", "chd", "hd", "vegas", "dctcp",
	"rack/newreno", "rack/cubic", "rack/htcp", "rack/cdg", "rack/chd", "rack/hd", "rack/vegas", "rack/dctcp",
	"bbr", NULL,
};

static const struct cwndlab_guest guest = {
	.version = CWNDLAB_GUEST_VERSION,
	.size = sizeof(struct cwndlab_guest),
	.kind = CWNDLAB_GUEST_PACKETS,
	.name = GUEST_NAME,
	.cc = cc_names,
	.start = start,
	.stop = stop,
	.handle = handle,
	.poll_transmit = poll_transmit,
	.poll_timeout = poll_timeout,
	.handle_timeout = handle_timeout,
	.open = open,
	.close = close_connection,
	.is_open = is_open,
	.write = write_bytes,
	.is_writable = is_writable,
	.finish = finish,
	.readable = readable,
	.read = read_bytes,
	.is_at_end = is_at_end,
	.failure = failure,
	.observe = observe,
	.events = next_event,
};

const struct cwndlab_guest *
cwndlab_guest(void)
{
	return &guest;
}
