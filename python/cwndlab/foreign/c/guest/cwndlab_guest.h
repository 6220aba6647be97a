/* A guest of cwndlab: a transport protocol in a shared library, carried out in virtual time. It exports `cwndlab_guest`.
 *
 *     cwndlab run experiment.yaml --guest mine=libmine.so        (hosts: {a: {stack: guest:mine}})
 *
 * A guest is an endpoint without I/O: it is handed what arrives and the time, and asked what it sends and when it wants to be
 * woken. It asks no clock, no network and no random device of its machine, starts no thread and does not wait.
 *
 * A host of a run is a machine. The library is loaded once for each, with statics of its own, and is called by one thread at a
 * time. Connections belong to a machine; each is one stream in either direction. There are two kinds:
 *
 *   datagram guests	exchange datagrams with guests of the same object, whole and as they wrote them (QUIC, say);
 *   packet guests	exchange IPv4 packets that carry TCP with anybody: models of kernels' TCP, and other guests.
 *
 * The content of streams is zeros and nobody looks at it: only its length travels from an application to another.
 *
 * Times are nanoseconds since the run began, and never go back. `now` is the present time.
 */
#ifndef CWNDLAB_GUEST_H
#define CWNDLAB_GUEST_H

#include <stddef.h>
#include <stdint.h>

/* Raised where what is here changes its meaning. Fields are only ever added at the end. */
#define CWNDLAB_GUEST_VERSION 1

#define CWNDLAB_GUEST_NEVER UINT64_MAX	/* a time that does not come */
#define CWNDLAB_GUEST_UNKNOWN UINT64_MAX	/* a figure that the guest does not tell, or does not have yet */

enum cwndlab_guest_kind {
	CWNDLAB_GUEST_DATAGRAMS = 1,
	CWNDLAB_GUEST_PACKETS = 2,
};

/* ECN field of an IP header. */
enum cwndlab_guest_ecn {
	CWNDLAB_GUEST_NOT_ECT = 0,
	CWNDLAB_GUEST_ECT1 = 1,
	CWNDLAB_GUEST_ECT0 = 2,
	CWNDLAB_GUEST_CE = 3,
};

/* A sysctl of the host, as the experiment sets it. */
struct cwndlab_guest_sysctl {
	const char *name;
	const char *value;
};

/* Settings of a machine. All it points to is valid during `start` only. */
struct cwndlab_guest_machine {
	uint32_t size;		/* bytes of this structure */
	uint32_t mtu;		/* bytes of an IP packet with its headers that the interface carries */
	uint32_t address;	/* own IPv4 address, in host byte order: 0x0a000001 is 10.0.0.1 */
	uint32_t ecn;		/* 0: the host's ECN is off; 1: it asks for ECN; 2: it only answers */
	uint64_t now;
	uint8_t seed[32];	/* for all that is drawn: the same for the same host, run and repetition */
	uint64_t send_buffer;	/* bytes; 0: the guest's default */
	uint64_t receive_buffer;
	size_t n_sysctls;
	const struct cwndlab_guest_sysctl *sysctls;
};

/* Settings of a connection. All it points to is valid during `open` only. */
struct cwndlab_guest_connection {
	uint32_t size;		/* bytes of this structure */
	uint32_t opening;	/* 1: connects to the remote address and port; 0: accepts the one that comes from there */
	uint32_t local_address;	/* the machine's; host byte order, as all addresses and ports here */
	uint32_t remote_address;
	uint16_t local_port;	/* no other connection of the machine has it */
	uint16_t remote_port;
	uint32_t mss;		/* payload of a full segment without TCP options, mtu - 40; a datagram may have 12 bytes more */
	const char *cc;		/* name of the congestion control, one of `cc` below; the other direction's too */
	uint64_t now;
	uint8_t seed[32];	/* as the machine's, of this end of this connection */
};

/* State of a connection's sender. A field that is not known is CWNDLAB_GUEST_UNKNOWN; all are that before the call. */
struct cwndlab_guest_state {
	uint32_t size;		/* bytes of this structure */
	uint32_t slow_start;	/* 1: the window grows exponentially; 0: it does not; others: unknown */
	uint64_t cwnd;		/* congestion window, bytes */
	uint64_t ssthresh;	/* slow-start threshold, bytes; unknown while infinite */
	uint64_t srtt;		/* smoothed RTT, ns */
	uint64_t rto;		/* retransmission timeout, ns */
	uint64_t in_flight;	/* bytes in flight */
	uint64_t pacing;	/* pacing rate, bits per second; unknown where nothing paces */
	uint64_t acknowledged;	/* payload acknowledged so far, bytes */
	uint64_t sent;		/* packets with payload sent so far, with those sent again */
	uint64_t lost;		/* packets sent again, or judged lost, so far; a datagram guest that does not tell has 0 of them in tables */
	uint64_t window;	/* the peer's window, bytes */
	uint64_t buffer;	/* send buffer, bytes */
	uint64_t written;	/* payload taken from the application so far, bytes */
};

/* What happened to a connection's congestion window. */
enum cwndlab_guest_event_kind {
	CWNDLAB_GUEST_LOSS = 1,		/* a loss is being repaired; value: the window before it, bytes */
	CWNDLAB_GUEST_REDUCTION = 2,	/* reduced for an ECN echo; value: the window after it, bytes */
	CWNDLAB_GUEST_TIMEOUT = 3,	/* a retransmission timeout; value: how many in a row, from 1 */
	CWNDLAB_GUEST_RECOVERED = 4,	/* a loss is repaired; value: the window after it, bytes */
};

struct cwndlab_guest_event {
	uint32_t kind;
	uint32_t reserved;
	uint64_t value;
};

/* What the library exports. Only `events` may be NULL. `machine` is what `start` returned, `connection` what `open` did. */
struct cwndlab_guest {
	uint32_t version;	/* CWNDLAB_GUEST_VERSION */
	uint32_t size;		/* sizeof(struct cwndlab_guest) */
	uint32_t kind;		/* enum cwndlab_guest_kind */
	uint32_t min_mss;	/* smallest and largest payload of a packet that the guest can be held to; 0: any */
	uint32_t max_mss;
	uint32_t reserved;
	const char *name;	/* what it is, with its version: `freebsd-13.0` */
	const char *const *cc;	/* names of congestion controls, the first is the default; ends with NULL */

	/* A machine begins. NULL: it refuses, and why is what the text says: one line, written to `why` of `capacity` bytes. */
	void *(*start)(const struct cwndlab_guest_machine *settings, char *why, size_t capacity);
	/* The machine ends, with its connections. */
	void (*stop)(void *machine);

	/* Something arrives. To a packet guest an IPv4 packet: `connection` is NULL, `ecn` also in the packet, checksums are
	 * not to be looked at, and payload is zeros. To a datagram guest a datagram of `connection`'s other end. */
	void (*handle)(void *machine, void *connection, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now);
	/* The next packet or datagram to be sent now, written to `buffer`; returns its length, 0: there is none. `capacity` is
	 * at least the MTU, and a packet is at most the MTU. A packet guest writes IP and TCP headers with any checksums; the
	 * payload counts in the length and need not be written. A datagram guest also sets `connection` and `ecn`. */
	size_t (*poll_transmit)(void *machine, uint8_t *buffer, size_t capacity, void **connection, uint32_t *ecn, uint64_t now);
	/* When the machine next wants `handle_timeout`; CWNDLAB_GUEST_NEVER: not before something else is called. A time that
	 * is past is now. */
	uint64_t (*poll_timeout)(void *machine);
	void (*handle_timeout)(void *machine, uint64_t now);

	/* A connection begins. One that accepts is there before its peer's first packet. NULL: refused, as by `start`. */
	void *(*open)(void *machine, const struct cwndlab_guest_connection *settings, char *why, size_t capacity);
	/* The connection is used no more; what TCP still has to say of it is up to the machine. */
	void (*close)(void *machine, void *connection);

	/* Whether it is established, so that an application may write. Remains 1 while something may be read or written. */
	int (*is_open)(void *connection);
	/* Takes at most so many bytes of the application's stream; returns how many. */
	uint64_t (*write)(void *connection, uint64_t bytes, uint64_t now);
	/* Whether `write` might take something. */
	int (*is_writable)(void *connection);
	/* The stream that is written ends. May be called again. */
	void (*finish)(void *connection, uint64_t now);
	/* Bytes that have arrived in order and were not read. */
	uint64_t (*readable)(void *connection);
	/* Takes at most so many of them; returns how many. */
	uint64_t (*read)(void *connection, uint64_t most, uint64_t now);
	/* Whether the peer's stream has ended and everything was read. */
	int (*is_at_end)(void *connection);
	/* Why the connection broke, one line; NULL: it did not. */
	const char *(*failure)(void *connection);

	/* State of the sender. */
	void (*observe)(void *connection, struct cwndlab_guest_state *state);
	/* The next event since the last call, written to `event`; returns 0 when there is none. May be NULL. */
	int (*events)(void *connection, struct cwndlab_guest_event *event);
};

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct cwndlab_guest *cwndlab_guest(void);

#ifdef __cplusplus
}
#endif

#endif
