/* lwIP, a TCP in C for small devices, as a guest of cwndlab: its core, compiled together with this file, of a tree of its sources.
 *
 *     cwndlab dev schema --guest-header > cwndlab_guest.h
 *     cc -O2 -shared -fPIC -I. -ILWIP/src/include lwip.c LWIP/src/core/*.c LWIP/src/core/ipv4/*.c -o lwip.so
 *     cwndlab run experiment.yaml --guest lwip=lwip.so       (hosts: {a: {stack: guest:lwip}})
 *
 * lwIP keeps its state in statics, of which each host has its own. Its buffers are set where it is compiled (lwipopts.h).
 */
#include <lwip/init.h>
#include <lwip/ip4.h>
#include <lwip/netif.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cwndlab_guest.h"

#define MS 1000000ull

struct connection {
	struct connection *next;
	struct tcp_pcb *pcb, *listener;
	uint64_t written, arrived, read;
	uint32_t n_timeouts;
	int is_open, finished, has_ended, is_repairing;
	const char *failure;
	struct cwndlab_guest_event event;
};

struct packet {
	struct packet *next;
	size_t length;
	uint8_t bytes[1500];
};

struct machine {
	struct connection *first;
	struct packet *leaving, **last;
	struct netif interface;
	uint64_t random;
};

static struct machine the_machine;
static uint64_t present;
static const uint8_t zeros[0xffff];

u32_t sys_now(void)
{
	return (u32_t)(present / MS);
}

unsigned lwip_draw(void)
{
	uint64_t *random = &the_machine.random;

	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (unsigned)(*random >> 24);
}

static err_t on_output(struct netif *interface, struct pbuf *packet, const ip4_addr_t *to)
{
	struct packet *copy = calloc(1, sizeof(*copy));

	(void)interface, (void)to;
	copy->length = packet->tot_len;
	/* Headers are what counts; payload is zeros, as all of the copy. */
	pbuf_copy_partial(packet, copy->bytes, packet->tot_len < 120 ? packet->tot_len : 120, 0);
	*the_machine.last = copy;
	the_machine.last = &copy->next;
	return ERR_OK;
}

static err_t on_interface(struct netif *interface)
{
	interface->output = on_output;
	return ERR_OK;
}

static void *start(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	ip4_addr_t address, mask, none = { 0 };

	if (settings->n_sysctls) {
		snprintf(why, capacity, "sysctl %s: there is none", settings->sysctls[0].name);
		return NULL;
	}
	if (settings->send_buffer || settings->receive_buffer) {
		snprintf(why, capacity, "sndbuf and rcvbuf: lwIP's are set where it is compiled");
		return NULL;
	}
	present = settings->now;
	memcpy(&the_machine.random, settings->seed, sizeof(the_machine.random));
	the_machine.random |= 1;
	the_machine.last = &the_machine.leaving;
	lwip_init();
	address.addr = lwip_htonl(settings->address);
	/* One network: every host is reached without a route. */
	mask.addr = lwip_htonl(0xff000000);
	netif_add(&the_machine.interface, &address, &mask, &none, NULL, on_interface, ip4_input);
	the_machine.interface.mtu = (u16_t)settings->mtu;
	netif_set_default(&the_machine.interface);
	netif_set_up(&the_machine.interface);
	netif_set_link_up(&the_machine.interface);
	return &the_machine;
}

static void stop(void *of)
{
	(void)of;	/* The library's statics go with it. */
}

static err_t on_received(void *which, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
	struct connection *c = which;

	(void)pcb, (void)error;
	if (!data) {
		c->has_ended = 1;
		return ERR_OK;
	}
	c->arrived += data->tot_len;
	pbuf_free(data);
	return ERR_OK;
}

static void on_error(void *which, err_t error)
{
	struct connection *c = which;

	c->pcb = NULL;
	if (!(c->finished && c->has_ended))
		c->failure = error == ERR_RST ? "reset by the other end" : "given up after too many timeouts";
}

static void attend(struct connection *c, struct tcp_pcb *pcb)
{
	c->pcb = pcb;
	c->is_open = 1;
	tcp_arg(pcb, c);
	tcp_recv(pcb, on_received);
	tcp_err(pcb, on_error);
}

static err_t on_connected(void *which, struct tcp_pcb *pcb, err_t error)
{
	(void)error;
	attend(which, pcb);
	return ERR_OK;
}

static err_t on_accepted(void *which, struct tcp_pcb *pcb, err_t error)
{
	struct connection *c = which;

	if (error != ERR_OK || c->pcb)
		return ERR_VAL;
	attend(c, pcb);
	return ERR_OK;
}

static void *open_connection(void *of, const struct cwndlab_guest_connection *settings, char *why, size_t capacity)
{
	struct machine *machine = of;
	struct connection *c = calloc(1, sizeof(*c));
	struct tcp_pcb *pcb = tcp_new();
	ip_addr_t remote;
	err_t error;

	present = settings->now;
	error = tcp_bind(pcb, IP_ANY_TYPE, settings->local_port);
	tcp_arg(pcb, c);
	if (error == ERR_OK && settings->opening) {
		remote.addr = lwip_htonl(settings->remote_address);
		tcp_err(pcb, on_error);
		c->pcb = pcb;
		error = tcp_connect(pcb, &remote, settings->remote_port, on_connected);
	} else if (error == ERR_OK) {
		c->listener = tcp_listen(pcb);
		tcp_accept(c->listener, on_accepted);
	}
	if (error != ERR_OK) {
		snprintf(why, capacity, "lwIP refused the port %u, error %d", settings->local_port, error);
		return NULL;
	}
	c->next = machine->first;
	machine->first = c;
	return c;
}

static void close_connection(void *of, void *which)
{
	struct machine *machine = of;
	struct connection **at = &machine->first, *c = which;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	if (c->pcb) {
		tcp_arg(c->pcb, NULL);
		tcp_recv(c->pcb, NULL);
		tcp_err(c->pcb, NULL);
	}
	free(c);
}

/* Notes what an input has changed of a window. */
static void look(struct connection *c, int after_a_timer)
{
	struct tcp_pcb *pcb = c->pcb;
	int is_repairing = pcb && pcb->flags & TF_INFR;

	if (!pcb)
		return;
	if (after_a_timer && pcb->nrtx > c->n_timeouts)
		c->event = (struct cwndlab_guest_event){ CWNDLAB_GUEST_TIMEOUT, 0, pcb->nrtx };
	else if (is_repairing && !c->is_repairing)
		c->event = (struct cwndlab_guest_event){ CWNDLAB_GUEST_LOSS, 0, pcb->cwnd };
	else if (!is_repairing && c->is_repairing)
		c->event = (struct cwndlab_guest_event){ CWNDLAB_GUEST_RECOVERED, 0, pcb->cwnd };
	c->is_repairing = is_repairing;
	c->n_timeouts = pcb->nrtx;
}

static void handle(void *of, void *which, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now)
{
	struct machine *machine = of;
	struct pbuf *packet = pbuf_alloc(PBUF_RAW, (u16_t)length, PBUF_RAM);
	struct connection *c;

	(void)which, (void)ecn;
	present = now;
	pbuf_take(packet, bytes, (u16_t)length);
	if (machine->interface.input(packet, &machine->interface) != ERR_OK)
		pbuf_free(packet);
	for (c = machine->first; c; c = c->next)
		look(c, 0);
}

static size_t poll_transmit(void *of, uint8_t *buffer, size_t capacity, void **which, uint32_t *ecn, uint64_t now)
{
	struct machine *machine = of;
	struct packet *packet = machine->leaving;
	size_t length;

	(void)which;
	present = now;
	if (!packet)
		return 0;
	length = packet->length < capacity ? packet->length : capacity;
	memcpy(buffer, packet->bytes, length);
	machine->leaving = packet->next;
	if (!machine->leaving)
		machine->last = &machine->leaving;
	free(packet);
	*ecn = CWNDLAB_GUEST_NOT_ECT;
	return length;
}

static uint64_t poll_timeout(void *of)
{
	u32_t left = sys_timeouts_sleeptime();

	(void)of;
	return left == SYS_TIMEOUTS_SLEEPTIME_INFINITE ? CWNDLAB_GUEST_NEVER : (present / MS + left) * MS;
}

static void handle_timeout(void *of, uint64_t now)
{
	struct machine *machine = of;
	struct connection *c;

	present = now;
	sys_check_timeouts();
	for (c = machine->first; c; c = c->next)
		look(c, 1);
}

static int is_open(void *which)
{
	return ((struct connection *)which)->is_open;
}

static int is_writable(void *which)
{
	struct connection *c = which;

	return c->is_open && c->pcb && !c->finished && tcp_sndbuf(c->pcb) > 0 && tcp_sndqueuelen(c->pcb) + 4 < TCP_SND_QUEUELEN;
}

static uint64_t write_stream(void *which, uint64_t bytes, uint64_t now)
{
	struct connection *c = which;
	uint64_t taken = 0, most;

	present = now;
	while (taken < bytes && is_writable(c)) {
		most = bytes - taken < tcp_sndbuf(c->pcb) ? bytes - taken : tcp_sndbuf(c->pcb);
		/* Half of a window at most, as lwIP asks for. */
		most = most < sizeof(zeros) / 2 ? most : sizeof(zeros) / 2;
		if (tcp_write(c->pcb, zeros, (u16_t)most, 0) != ERR_OK)
			break;
		taken += most;
	}
	if (taken)
		tcp_output(c->pcb);
	c->written += taken;
	return taken;
}

static void finish(void *which, uint64_t now)
{
	struct connection *c = which;

	present = now;
	if (c->finished || !c->pcb)
		return;
	c->finished = 1;
	tcp_shutdown(c->pcb, 0, 1);
}

static uint64_t readable(void *which)
{
	struct connection *c = which;

	return c->arrived - c->read;
}

static uint64_t read_stream(void *which, uint64_t most, uint64_t now)
{
	struct connection *c = which;
	uint64_t bytes = readable(c), left, some;

	present = now;
	bytes = bytes < most ? bytes : most;
	for (left = bytes; left && c->pcb; left -= some) {
		some = left < 0xffff ? left : 0xffff;
		tcp_recved(c->pcb, (u16_t)some);
	}
	c->read += bytes;
	return bytes;
}

static int is_at_end(void *which)
{
	return ((struct connection *)which)->has_ended && readable(which) == 0;
}

static const char *failure(void *which)
{
	return ((struct connection *)which)->failure;
}

static void observe(void *which, struct cwndlab_guest_state *state)
{
	struct connection *c = which;
	struct tcp_pcb *pcb = c->pcb;

	state->written = c->written;
	state->buffer = TCP_SND_BUF;
	if (!pcb || !c->is_open)
		return;
	/* It measures RTTs in ticks of 500 ms: most are 0. */
	state->cwnd = pcb->cwnd;
	state->ssthresh = pcb->ssthresh;
	state->slow_start = pcb->cwnd < pcb->ssthresh;
	state->rto = (uint64_t)pcb->rto * TCP_SLOW_INTERVAL * MS;
	state->in_flight = pcb->snd_nxt - pcb->lastack;
	state->window = pcb->snd_wnd;
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
	static const char *const cc[] = { "newreno", NULL };
	static const struct cwndlab_guest guest = {
		.version = CWNDLAB_GUEST_VERSION, .size = sizeof(guest), .kind = CWNDLAB_GUEST_PACKETS, .min_mss = 536, .max_mss = TCP_MSS,
		.name = "lwip-" LWIP_VERSION_STRING, .cc = cc, .start = start, .stop = stop, .handle = handle,
		.poll_transmit = poll_transmit, .poll_timeout = poll_timeout, .handle_timeout = handle_timeout,
		.open = open_connection, .close = close_connection, .is_open = is_open, .write = write_stream,
		.is_writable = is_writable, .finish = finish, .readable = readable, .read = read_stream,
		.is_at_end = is_at_end, .failure = failure, .observe = observe, .events = events,
	};

	return &guest;
}
