/* A guest of cwndlab in a page or two: reliable datagrams with a window that never changes. What arrives out of order is
 * thrown away; after a timeout, or three equal acknowledgements, all that is under way is sent again.
 *
 *     cwndlab run experiment.yaml --guest fixed=examples/guests/fixed_window.c       (hosts: {a: {stack: guest:fixed}})
 *
 * A datagram is a header and payload. Its kind says which end opens, answers, sends payload or acknowledges.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cwndlab_guest.h"

#define MS 1000000ull
#define BUFFER (1u << 20)	/* payload that is taken from the application before it is acknowledged */

enum kind { HELLO = 1, WELCOME, DATA, ACK };

struct header {
	uint32_t kind, is_last;
	uint64_t offset;	/* of the payload, or up to where all has arrived; the end of the stream counts as a byte */
	uint64_t sent;		/* when it was sent, or what it acknowledges */
};

struct connection {
	struct connection *next;
	uint32_t payload, window;	/* of a datagram; datagrams */
	int opening, is_open, hello_sent, finished;
	/* As a sender: bytes acknowledged, sent, ever sent, and taken from the application. */
	uint64_t acknowledged, sent, furthest, written, resent, datagrams;
	uint64_t srtt, timer;
	uint32_t equal_acks;
	/* As a receiver: bytes in order, and read by the application. */
	uint64_t arrived, read, echo;
	int has_ended, owes_ack, owes_welcome;
	struct cwndlab_guest_event event;
};

struct machine {
	struct connection *first;
	uint32_t mtu;
};

static void *start(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	struct machine *machine;

	if (settings->n_sysctls) {
		snprintf(why, capacity, "sysctl %s: there is none", settings->sysctls[0].name);
		return NULL;
	}
	machine = calloc(1, sizeof(*machine));
	machine->mtu = settings->mtu;
	return machine;
}

static void close_connection(void *of, void *which)
{
	struct machine *machine = of;
	struct connection **at = &machine->first;

	while (*at && *at != which)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	free(which);
}

static void stop(void *of)
{
	struct machine *machine = of;

	while (machine->first)
		close_connection(machine, machine->first);
	free(machine);
}

static void *open_connection(void *of, const struct cwndlab_guest_connection *settings, char *why, size_t capacity)
{
	struct machine *machine = of;
	struct connection *c = calloc(1, sizeof(*c));

	(void)why;
	(void)capacity;
	c->payload = settings->mss - sizeof(struct header);
	c->window = strcmp(settings->cc, "window-64") ? 16 : 64;
	c->opening = settings->opening != 0;
	c->timer = CWNDLAB_GUEST_NEVER;
	c->next = machine->first;
	machine->first = c;
	return c;
}

static uint64_t timeout(const struct connection *c)
{
	return c->srtt ? 2 * c->srtt + 10 * MS : 1000 * MS;
}

/* The stream with its end, and what of it may be under way. */
static uint64_t end_of(const struct connection *c)
{
	return c->written + (c->finished ? 1 : 0);
}

static void go_back(struct connection *c, uint32_t kind, uint64_t value)
{
	c->sent = c->acknowledged;
	c->event = (struct cwndlab_guest_event){ kind, 0, value };
}

static void on_ack(struct connection *c, const struct header *header, uint64_t now)
{
	uint64_t rtt = now - header->sent;

	if (header->offset > c->acknowledged) {
		c->acknowledged = header->offset;
		c->equal_acks = 0;
		c->srtt = c->srtt ? c->srtt - c->srtt / 8 + rtt / 8 : rtt;
		if (c->sent < c->acknowledged)
			c->sent = c->acknowledged;
		c->timer = c->acknowledged < c->furthest ? now + timeout(c) : CWNDLAB_GUEST_NEVER;
	} else if (c->acknowledged < c->sent && ++c->equal_acks == 3) {
		go_back(c, CWNDLAB_GUEST_LOSS, (uint64_t)c->window * c->payload);
	}
}

static void on_data(struct connection *c, const struct header *header, uint64_t bytes)
{
	if (header->offset == c->arrived && !c->has_ended) {
		c->arrived += bytes;
		c->has_ended = header->is_last != 0;
	}
	c->echo = header->sent;
	c->owes_ack = 1;
}

static void handle(void *of, void *which, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now)
{
	struct connection *c = which;
	struct header header;

	(void)of;
	(void)ecn;
	if (length < sizeof(header))
		return;
	memcpy(&header, bytes, sizeof(header));
	switch (header.kind) {
	case HELLO:
		c->is_open = c->owes_welcome = 1;
		break;
	case WELCOME:
		if (!c->is_open)
			c->timer = CWNDLAB_GUEST_NEVER;
		c->is_open = 1;
		break;
	case DATA:
		on_data(c, &header, length - sizeof(header));
		break;
	case ACK:
		on_ack(c, &header, now);
		break;
	}
}

/* What a connection has to send now: its header, and the length of its payload. */
static int next_datagram(struct connection *c, struct header *header, uint64_t *bytes, uint64_t now)
{
	*bytes = 0;
	*header = (struct header){ .sent = now };
	if (c->owes_welcome) {
		c->owes_welcome = 0;
		header->kind = WELCOME;
		return 1;
	}
	if (c->owes_ack) {
		c->owes_ack = 0;
		header->kind = ACK;
		header->offset = c->arrived + (c->has_ended ? 1 : 0);
		header->sent = c->echo;
		return 1;
	}
	if (c->opening && !c->is_open && !c->hello_sent) {
		c->hello_sent = 1;
		c->timer = now + timeout(c);
		header->kind = HELLO;
		return 1;
	}
	if (!c->is_open || c->sent >= end_of(c) || c->sent - c->acknowledged >= (uint64_t)c->window * c->payload)
		return 0;
	*bytes = c->written > c->sent ? c->written - c->sent : 0;
	if (*bytes > c->payload)
		*bytes = c->payload;
	header->kind = DATA;
	header->offset = c->sent;
	header->is_last = c->finished && c->sent + *bytes == c->written;
	c->datagrams++;
	c->resent += c->sent < c->furthest;
	c->sent += *bytes + header->is_last;
	if (c->sent > c->furthest)
		c->furthest = c->sent;
	if (c->timer == CWNDLAB_GUEST_NEVER)
		c->timer = now + timeout(c);
	return 1;
}

static size_t poll_transmit(void *of, uint8_t *buffer, size_t capacity, void **which, uint32_t *ecn, uint64_t now)
{
	struct machine *machine = of;
	struct connection *c;
	struct header header;
	uint64_t bytes;

	(void)capacity;
	for (c = machine->first; c; c = c->next) {
		if (!next_datagram(c, &header, &bytes, now))
			continue;
		memcpy(buffer, &header, sizeof(header));
		memset(buffer + sizeof(header), 0, bytes);
		*which = c;
		*ecn = CWNDLAB_GUEST_NOT_ECT;
		return sizeof(header) + bytes;
	}
	return 0;
}

static uint64_t poll_timeout(void *of)
{
	struct machine *machine = of;
	uint64_t first = CWNDLAB_GUEST_NEVER;
	struct connection *c;

	for (c = machine->first; c; c = c->next)
		if (c->timer < first)
			first = c->timer;
	return first;
}

static void handle_timeout(void *of, uint64_t now)
{
	struct machine *machine = of;
	struct connection *c;

	for (c = machine->first; c; c = c->next) {
		if (c->timer > now)
			continue;
		c->timer = CWNDLAB_GUEST_NEVER;
		c->hello_sent = 0;
		if (c->acknowledged < c->furthest)
			go_back(c, CWNDLAB_GUEST_TIMEOUT, 1);
	}
}

static int is_open(void *which)
{
	return ((struct connection *)which)->is_open;
}

static int is_writable(void *which)
{
	struct connection *c = which;

	return c->is_open && !c->finished && c->written - c->acknowledged < BUFFER;
}

static uint64_t write_stream(void *which, uint64_t bytes, uint64_t now)
{
	struct connection *c = which;
	uint64_t room = is_writable(c) ? BUFFER - (c->written - c->acknowledged) : 0;

	(void)now;
	bytes = bytes < room ? bytes : room;
	c->written += bytes;
	return bytes;
}

static void finish(void *which, uint64_t now)
{
	(void)now;
	((struct connection *)which)->finished = 1;
}

static uint64_t readable(void *which)
{
	struct connection *c = which;

	return c->arrived - c->read;
}

static uint64_t read_stream(void *which, uint64_t most, uint64_t now)
{
	uint64_t bytes = readable(which);

	(void)now;
	bytes = bytes < most ? bytes : most;
	((struct connection *)which)->read += bytes;
	return bytes;
}

static int is_at_end(void *which)
{
	return ((struct connection *)which)->has_ended && readable(which) == 0;
}

static const char *failure(void *which)
{
	(void)which;
	return NULL;
}

static void observe(void *which, struct cwndlab_guest_state *state)
{
	struct connection *c = which;

	state->slow_start = 0;
	state->cwnd = (uint64_t)c->window * c->payload;
	if (c->srtt)
		state->srtt = c->srtt;
	state->rto = timeout(c);
	state->in_flight = c->sent - c->acknowledged;
	state->acknowledged = c->acknowledged < c->written ? c->acknowledged : c->written;
	state->sent = c->datagrams;
	state->lost = c->resent;
	state->buffer = BUFFER;
	state->written = c->written;
}

static int events(void *which, struct cwndlab_guest_event *event)
{
	struct connection *c = which;

	*event = c->event;
	c->event.kind = 0;
	return event->kind != 0;
}

__attribute__((visibility("default"))) const struct cwndlab_guest *cwndlab_guest(void)
{
	static const char *const cc[] = { "window-16", "window-64", NULL };
	static const struct cwndlab_guest guest = {
		.version = CWNDLAB_GUEST_VERSION, .size = sizeof(guest), .kind = CWNDLAB_GUEST_DATAGRAMS, .min_mss = 100,
		.name = "fixed-window-1", .cc = cc, .start = start, .stop = stop, .handle = handle,
		.poll_transmit = poll_transmit, .poll_timeout = poll_timeout, .handle_timeout = handle_timeout,
		.open = open_connection, .close = close_connection, .is_open = is_open, .write = write_stream,
		.is_writable = is_writable, .finish = finish, .readable = readable, .read = read_stream,
		.is_at_end = is_at_end, .failure = failure, .observe = observe, .events = events,
	};

	return &guest;
}
