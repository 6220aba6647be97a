/* ngtcp2, a QUIC in C, as a guest of cwndlab: the library as Debian's libngtcp2-dev has it, and a cryptography that encrypts nothing.
 *
 *     cwndlab dev schema --guest-header > cwndlab_guest.h
 *     cc -O2 -shared -fPIC -I. ngtcp2.c -lngtcp2 -o ngtcp2.so
 *     cwndlab run experiment.yaml --guest ngtcp2=ngtcp2.so       (hosts: {a: {stack: guest:ngtcp2}})
 *
 * Hosts share the library, which has no statics that change. Packets are as long as with AES-128-GCM, and the handshake has the
 * messages of TLS 1.3, with the lengths of a small certificate.
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cwndlab_guest.h"

#define TAG 16			/* bytes that AES-128-GCM adds to a packet (RFC 5116 section 5.1) */
#define NONCE 12
#define CLIENT_HELLO 260	/* lengths of TLS 1.3's messages, with one certificate of P-256 */
#define SERVER_HELLO 90
#define SERVER_FLIGHT 900
#define FINISHED 36
#define ID 8			/* bytes of a connection's identifier */
#define UNSENT (1u << 18)	/* payload that is taken from the application before it is sent */
#define STREAM_WINDOW (6u << 20)	/* windows of ngtcp2's own example of a client */
#define WINDOW (15u << 20)

struct connection {
	struct connection *next;
	ngtcp2_conn *conn;
	struct sockaddr_in addresses[2];
	uint64_t random, arrived, read, written, sent, acknowledged, lost, recovery;
	int64_t stream;
	uint32_t payload;
	int opening, is_open, finished, fin_sent, has_ended, is_over;
	enum ngtcp2_cc_algo cc;
	uint8_t hello[CLIENT_HELLO], answer[SERVER_HELLO], flight[SERVER_FLIGHT], last[FINISHED];
	uint8_t heard[2][SERVER_FLIGHT];	/* at the levels of the first packets and of the handshake */
	size_t n_heard[2];
	char failure[80];
};

struct machine {
	struct connection *first;
};

static uint8_t zeros[1 << 16];

static void failed(struct connection *c, int error)
{
	/* A connection that is idle for long ends; that is none while everything was said. */
	if (error != NGTCP2_ERR_IDLE_CLOSE || !(c->finished || c->has_ended))
		snprintf(c->failure, sizeof(c->failure), "%s", ngtcp2_strerror(error));
	c->is_over = 1;
}

/* A line of the library's log, the one place where it tells what it judged lost. Only lines of this form have that, as a text that
 * was made before; the others are passed over before anything is made of them. */
static void on_log(void *user, const char *format, ...)
{
	va_list arguments;

	if (strcmp(format, "I%08" PRIu64 " 0x%s %s %s"))
		return;
	va_start(arguments, format);
	(void)va_arg(arguments, uint64_t);
	(void)va_arg(arguments, const char *);
	(void)va_arg(arguments, const char *);
	if (strstr(va_arg(arguments, const char *), " lost type="))
		((struct connection *)user)->lost++;
	va_end(arguments);
}

/* Xorshift: what is drawn hides nothing. */
static void draw(struct connection *c, uint8_t *to, size_t length)
{
	while (length--) {
		c->random ^= c->random << 13;
		c->random ^= c->random >> 7;
		c->random ^= c->random << 17;
		*to++ = (uint8_t)(c->random >> 24);
	}
}

static void on_rand(uint8_t *to, size_t length, const ngtcp2_rand_ctx *context)
{
	draw(context->native_handle, to, length);
}

static ngtcp2_cid new_id(struct connection *c)
{
	ngtcp2_cid id;
	uint8_t bytes[ID];

	draw(c, bytes, sizeof(bytes));
	ngtcp2_cid_init(&id, bytes, sizeof(bytes));
	return id;
}

static int on_new_id(ngtcp2_conn *conn, ngtcp2_cid *id, uint8_t *token, size_t length, void *user)
{
	(void)conn;
	(void)length;
	*id = new_id(user);
	draw(user, token, NGTCP2_STATELESS_RESET_TOKENLEN);
	return 0;
}

/* A packet as it is, with its nonce as tag: a number that was decoded wrongly is found, as by authentication. */
static int on_encrypt(uint8_t *to, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *key, const uint8_t *plain,
		      size_t length, const uint8_t *nonce, size_t n_nonce, const uint8_t *aad, size_t n_aad)
{
	(void)aead, (void)key, (void)aad, (void)n_aad;
	memmove(to, plain, length);
	memset(to + length, 0, TAG);
	memcpy(to + length, nonce, n_nonce);
	return 0;
}

static int on_decrypt(uint8_t *to, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *key, const uint8_t *sealed,
		      size_t length, const uint8_t *nonce, size_t n_nonce, const uint8_t *aad, size_t n_aad)
{
	(void)aead, (void)key, (void)aad, (void)n_aad;
	if (length < TAG || memcmp(sealed + length - TAG, nonce, n_nonce))
		return NGTCP2_ERR_DECRYPT;
	memmove(to, sealed, length - TAG);
	return 0;
}

static int on_mask(uint8_t *to, const ngtcp2_crypto_cipher *cipher, const ngtcp2_crypto_cipher_ctx *key, const uint8_t *sample)
{
	(void)cipher, (void)key, (void)sample;
	memset(to, 0, 5);
	return 0;
}

static int on_update_key(ngtcp2_conn *conn, uint8_t *rx, uint8_t *tx, ngtcp2_crypto_aead_ctx *rx_key, uint8_t *rx_iv,
			 ngtcp2_crypto_aead_ctx *tx_key, uint8_t *tx_iv, const uint8_t *old_rx, const uint8_t *old_tx, size_t length,
			 void *user)
{
	(void)conn, (void)rx_key, (void)tx_key, (void)user;
	memcpy(rx, old_rx, length);
	memcpy(tx, old_tx, length);
	memset(rx_iv, 0, NONCE);
	memset(tx_iv, 0, NONCE);
	return 0;
}

static void on_delete_key(ngtcp2_conn *conn, ngtcp2_crypto_aead_ctx *key, void *user)
{
	(void)conn, (void)key, (void)user;
}

static void on_delete_mask(ngtcp2_conn *conn, ngtcp2_crypto_cipher_ctx *key, void *user)
{
	(void)conn, (void)key, (void)user;
}

static const uint8_t nothing[32];
static const ngtcp2_crypto_aead_ctx key = { (void *)nothing };
static const ngtcp2_crypto_cipher_ctx mask = { (void *)nothing };

static int first_keys(ngtcp2_conn *conn)
{
	ngtcp2_crypto_ctx context = { .aead = { .max_overhead = TAG }, .max_encryption = UINT64_MAX, .max_decryption_failure = UINT64_MAX };

	ngtcp2_conn_set_initial_crypto_ctx(conn, &context);
	ngtcp2_conn_set_crypto_ctx(conn, &context);
	return ngtcp2_conn_install_initial_key(conn, &key, nothing, &mask, &key, nothing, &mask, NONCE);
}

static int handshake_keys(ngtcp2_conn *conn)
{
	return ngtcp2_conn_install_rx_handshake_key(conn, &key, nothing, NONCE, &mask) ||
	       ngtcp2_conn_install_tx_handshake_key(conn, &key, nothing, NONCE, &mask);
}

static int own_key(ngtcp2_conn *conn)
{
	return ngtcp2_conn_install_tx_key(conn, nothing, sizeof(nothing), &key, nothing, NONCE, &mask);
}

static int peers_key(ngtcp2_conn *conn)
{
	return ngtcp2_conn_install_rx_key(conn, nothing, sizeof(nothing), &key, nothing, NONCE, &mask);
}

/* Transport parameters behind their length, at the head of a message. */
static int put_parameters(ngtcp2_conn *conn, uint8_t *message, size_t length)
{
	ngtcp2_ssize written = ngtcp2_conn_encode_local_transport_params(conn, message + 2, length - 2);

	if (written < 0)
		return -1;
	message[0] = (uint8_t)(written >> 8);
	message[1] = (uint8_t)written;
	return 0;
}

static int take_parameters(ngtcp2_conn *conn, const uint8_t *message, size_t length)
{
	size_t written = (size_t)message[0] << 8 | message[1];

	return written > length - 2 || ngtcp2_conn_decode_remote_transport_params(conn, message + 2, written);
}

static int on_client_initial(ngtcp2_conn *conn, void *user)
{
	struct connection *c = user;

	if (first_keys(conn) || put_parameters(conn, c->hello, sizeof(c->hello)) ||
	    ngtcp2_conn_submit_crypto_data(conn, NGTCP2_CRYPTO_LEVEL_INITIAL, c->hello, sizeof(c->hello)))
		return NGTCP2_ERR_CALLBACK_FAILURE;
	return 0;
}

static int on_server_initial(ngtcp2_conn *conn, const ngtcp2_cid *id, void *user)
{
	(void)id, (void)user;
	return first_keys(conn) ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
}

/* The server has read the client's hello: it answers, and has the keys of the connection for what it sends. */
static int answer(ngtcp2_conn *conn, struct connection *c)
{
	return take_parameters(conn, c->heard[0], CLIENT_HELLO) ||
	       ngtcp2_conn_submit_crypto_data(conn, NGTCP2_CRYPTO_LEVEL_INITIAL, c->answer, SERVER_HELLO) || handshake_keys(conn) ||
	       put_parameters(conn, c->flight, SERVER_FLIGHT) ||
	       ngtcp2_conn_submit_crypto_data(conn, NGTCP2_CRYPTO_LEVEL_HANDSHAKE, c->flight, SERVER_FLIGHT) || own_key(conn);
}

/* The client has read the server's last message: both of its keys, and its own last message. */
static int finish_handshake(ngtcp2_conn *conn, struct connection *c)
{
	if (take_parameters(conn, c->heard[1], SERVER_FLIGHT) ||
	    ngtcp2_conn_submit_crypto_data(conn, NGTCP2_CRYPTO_LEVEL_HANDSHAKE, c->last, FINISHED) || peers_key(conn) || own_key(conn))
		return -1;
	ngtcp2_conn_handshake_completed(conn);
	return 0;
}

static int on_crypto(ngtcp2_conn *conn, ngtcp2_crypto_level level, uint64_t offset, const uint8_t *data, size_t length, void *user)
{
	struct connection *c = user;
	int at = level != NGTCP2_CRYPTO_LEVEL_INITIAL, wrong = 0;
	size_t before = c->n_heard[at], wanted = c->opening ? (at ? SERVER_FLIGHT : SERVER_HELLO) : (at ? FINISHED : CLIENT_HELLO);

	(void)offset;
	if (before + length > wanted)
		return NGTCP2_ERR_CRYPTO;
	memcpy(c->heard[at] + before, data, length);
	c->n_heard[at] += length;
	if (c->n_heard[at] < wanted)
		return 0;
	if (c->opening)
		wrong = at ? finish_handshake(conn, c) : handshake_keys(conn);
	else if (!at)
		wrong = answer(conn, c);
	else if (!(wrong = peers_key(conn)))
		ngtcp2_conn_handshake_completed(conn);
	return wrong ? NGTCP2_ERR_CRYPTO : 0;
}

static int on_completed(ngtcp2_conn *conn, void *user)
{
	(void)conn;
	((struct connection *)user)->is_open = 1;
	return 0;
}

static int on_stream(ngtcp2_conn *conn, uint32_t flags, int64_t stream, uint64_t offset, const uint8_t *data, size_t length, void *user,
		     void *stream_user)
{
	struct connection *c = user;

	(void)conn, (void)stream, (void)offset, (void)data, (void)stream_user;
	c->arrived += length;
	c->has_ended |= (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0;
	return 0;
}

static int on_acknowledged(ngtcp2_conn *conn, int64_t stream, uint64_t offset, uint64_t length, void *user, void *stream_user)
{
	(void)conn, (void)stream, (void)stream_user;
	((struct connection *)user)->acknowledged = offset + length;
	return 0;
}

static int on_challenge(ngtcp2_conn *conn, uint8_t *data, void *user)
{
	(void)conn;
	draw(user, data, NGTCP2_PATH_CHALLENGE_DATALEN);
	return 0;
}

static int on_retry(ngtcp2_conn *conn, const ngtcp2_pkt_hd *header, void *user)
{
	(void)conn, (void)header, (void)user;
	return NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_version(ngtcp2_conn *conn, uint32_t version, const ngtcp2_cid *id, void *user)
{
	(void)conn, (void)version, (void)id, (void)user;
	return NGTCP2_ERR_CALLBACK_FAILURE;
}

static const ngtcp2_callbacks callbacks = {
	.client_initial = on_client_initial, .recv_client_initial = on_server_initial, .recv_crypto_data = on_crypto,
	.handshake_completed = on_completed, .encrypt = on_encrypt, .decrypt = on_decrypt, .hp_mask = on_mask,
	.recv_stream_data = on_stream, .acked_stream_data_offset = on_acknowledged, .rand = on_rand, .recv_retry = on_retry,
	.get_new_connection_id = on_new_id, .update_key = on_update_key, .delete_crypto_aead_ctx = on_delete_key,
	.delete_crypto_cipher_ctx = on_delete_mask, .get_path_challenge_data = on_challenge, .version_negotiation = on_version,
};

static ngtcp2_path path_of(struct connection *c)
{
	return (ngtcp2_path){ .local = { (ngtcp2_sockaddr *)&c->addresses[0], sizeof(c->addresses[0]) },
			      .remote = { (ngtcp2_sockaddr *)&c->addresses[1], sizeof(c->addresses[1]) } };
}

/* Makes the connection: at once, or, where it accepts, of its client's first packet. */
static void make(struct connection *c, const ngtcp2_pkt_hd *first, uint64_t now)
{
	ngtcp2_path path = path_of(c);
	ngtcp2_cid own = new_id(c), peers = first ? first->scid : new_id(c);
	ngtcp2_settings settings;
	ngtcp2_transport_params params;
	int error;

	ngtcp2_settings_default(&settings);
	settings.cc_algo = c->cc;
	settings.initial_ts = now;
	settings.log_printf = on_log;
	settings.rand_ctx.native_handle = c;
	if (settings.max_tx_udp_payload_size > c->payload)
		settings.max_tx_udp_payload_size = c->payload;
	ngtcp2_transport_params_default(&params);
	params.initial_max_stream_data_uni = STREAM_WINDOW;
	params.initial_max_data = WINDOW;
	params.initial_max_streams_uni = 1;
	params.max_idle_timeout = 30 * NGTCP2_SECONDS;
	if (first)
		params.original_dcid = first->dcid;
	error = first ? ngtcp2_conn_server_new(&c->conn, &peers, &own, &path, first->version, &callbacks, &settings, &params, NULL, c) :
			ngtcp2_conn_client_new(&c->conn, &peers, &own, &path, NGTCP2_PROTO_VER_V1, &callbacks, &settings, &params, NULL, c);
	if (error)
		failed(c, error);
}

static void *start(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	if (settings->n_sysctls) {
		snprintf(why, capacity, "sysctl %s: there is none", settings->sysctls[0].name);
		return NULL;
	}
	return calloc(1, sizeof(struct machine));
}

static void close_connection(void *of, void *which)
{
	struct machine *machine = of;
	struct connection **at = &machine->first, *c = which;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	ngtcp2_conn_del(c->conn);
	free(c);
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
	static const char *const names[] = { [NGTCP2_CC_ALGO_RENO] = "reno", [NGTCP2_CC_ALGO_BBR] = "bbr", [NGTCP2_CC_ALGO_BBR2] = "bbr2" };
	struct machine *machine = of;
	struct connection *c = calloc(1, sizeof(*c));
	size_t i;

	(void)why, (void)capacity;
	c->payload = settings->mss + 12;
	c->opening = settings->opening != 0;
	c->stream = -1;
	c->cc = NGTCP2_CC_ALGO_CUBIC;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i] && !strcmp(settings->cc, names[i]))
			c->cc = (enum ngtcp2_cc_algo)i;
	memcpy(&c->random, settings->seed, sizeof(c->random));
	c->random |= 1;
	for (i = 0; i < 2; i++) {
		c->addresses[i].sin_family = AF_INET;
		c->addresses[i].sin_addr.s_addr = htonl(i ? settings->remote_address : settings->local_address);
		c->addresses[i].sin_port = htons(i ? settings->remote_port : settings->local_port);
	}
	if (c->opening)
		make(c, NULL, settings->now);
	c->next = machine->first;
	machine->first = c;
	return c;
}

static void handle(void *of, void *which, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now)
{
	struct connection *c = which;
	ngtcp2_path path = path_of(c);
	ngtcp2_pkt_info info = { .ecn = ecn };
	ngtcp2_pkt_hd first;
	int error;

	(void)of;
	if (c->is_over)
		return;
	if (!c->conn && !ngtcp2_accept(&first, bytes, length))
		make(c, &first, now);
	if (!c->conn)
		return;
	error = ngtcp2_conn_read_pkt(c->conn, &path, &info, bytes, length, now);
	if (error)
		failed(c, error);
}

/* The next datagram of a connection. The stream's payload is part of it where there is some and the peer's windows have room. */
static size_t next_datagram(struct connection *c, uint8_t *buffer, size_t capacity, uint32_t *ecn, uint64_t now)
{
	ngtcp2_path path = path_of(c);
	ngtcp2_pkt_info info = { 0 };
	ngtcp2_ssize taken = -1, length;
	uint64_t left = c->written - c->sent;
	ngtcp2_vec payload = { zeros, left < sizeof(zeros) ? left : sizeof(zeros) };
	int ends = c->finished && payload.len == left;
	int64_t stream;

	if (c->is_open && c->stream < 0 && (left || c->finished))
		(void)ngtcp2_conn_open_uni_stream(c->conn, &c->stream, NULL);
	stream = left || (ends && !c->fin_sent) ? c->stream : -1;
	length = ngtcp2_conn_writev_stream(c->conn, &path, &info, buffer, capacity, &taken, ends && stream >= 0 ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0,
					   stream, &payload, left && stream >= 0, now);
	if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED)
		length = ngtcp2_conn_writev_stream(c->conn, &path, &info, buffer, capacity, &taken, 0, -1, NULL, 0, now);
	if (length < 0) {
		failed(c, (int)length);
		return 0;
	}
	if (taken >= 0) {
		c->sent += (uint64_t)taken;
		c->fin_sent |= ends && c->sent == c->written;
	}
	if (length)
		ngtcp2_conn_update_pkt_tx_time(c->conn, now);
	*ecn = info.ecn;
	return (size_t)length;
}

static size_t poll_transmit(void *of, uint8_t *buffer, size_t capacity, void **which, uint32_t *ecn, uint64_t now)
{
	struct machine *machine = of;
	struct connection *c;
	size_t length;

	for (c = machine->first; c; c = c->next) {
		if (!c->conn || c->is_over)
			continue;
		length = next_datagram(c, buffer, capacity < c->payload ? capacity : c->payload, ecn, now);
		if (length) {
			*which = c;
			return length;
		}
	}
	return 0;
}

static uint64_t poll_timeout(void *of)
{
	struct machine *machine = of;
	uint64_t first = CWNDLAB_GUEST_NEVER, at;
	struct connection *c;

	for (c = machine->first; c; c = c->next) {
		if (!c->conn || c->is_over)
			continue;
		at = ngtcp2_conn_get_expiry(c->conn);
		if (at < first)
			first = at;
	}
	return first;
}

static void handle_timeout(void *of, uint64_t now)
{
	struct machine *machine = of;
	struct connection *c;
	int error;

	for (c = machine->first; c; c = c->next) {
		if (!c->conn || c->is_over || ngtcp2_conn_get_expiry(c->conn) > now)
			continue;
		error = ngtcp2_conn_handle_expiry(c->conn, now);
		if (error)
			failed(c, error);
	}
}

static int is_open(void *which)
{
	return ((struct connection *)which)->is_open;
}

static int is_writable(void *which)
{
	struct connection *c = which;

	return c->is_open && !c->finished && !c->is_over && c->written - c->sent < UNSENT;
}

static uint64_t write_stream(void *which, uint64_t bytes, uint64_t now)
{
	struct connection *c = which;
	uint64_t room = is_writable(c) ? UNSENT - (c->written - c->sent) : 0;

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
	struct connection *c = which;
	uint64_t bytes = readable(c);
	/* The first stream of the other end (RFC 9000 section 2.1). */
	int64_t stream = c->opening ? 3 : 2;

	(void)now;
	bytes = bytes < most ? bytes : most;
	c->read += bytes;
	if (bytes && !c->is_over) {
		(void)ngtcp2_conn_extend_max_stream_offset(c->conn, stream, bytes);
		ngtcp2_conn_extend_max_offset(c->conn, bytes);
	}
	return bytes;
}

static int is_at_end(void *which)
{
	return ((struct connection *)which)->has_ended && readable(which) == 0;
}

static const char *failure(void *which)
{
	struct connection *c = which;

	return *c->failure ? c->failure : NULL;
}

static void observe(void *which, struct cwndlab_guest_state *state)
{
	struct connection *c = which;
	ngtcp2_conn_stat stat;

	state->written = c->written;
	state->acknowledged = c->acknowledged;
	state->lost = c->lost;
	if (!c->conn)
		return;
	ngtcp2_conn_get_conn_stat(c->conn, &stat);
	state->cwnd = stat.cwnd;
	if (stat.ssthresh < UINT64_MAX)
		state->ssthresh = stat.ssthresh;
	state->slow_start = stat.cwnd < stat.ssthresh;
	if (stat.first_rtt_sample_ts != UINT64_MAX)
		state->srtt = stat.smoothed_rtt;
	state->in_flight = stat.bytes_in_flight;
	if (stat.pacing_rate > 0)
		state->pacing = (uint64_t)(stat.pacing_rate * 8e9);
}

/* A recovery begins: what ngtcp2 tells of its losses. */
static int events(void *which, struct cwndlab_guest_event *event)
{
	struct connection *c = which;
	ngtcp2_conn_stat stat;

	if (!c->conn)
		return 0;
	ngtcp2_conn_get_conn_stat(c->conn, &stat);
	if (stat.congestion_recovery_start_ts == UINT64_MAX || stat.congestion_recovery_start_ts == c->recovery)
		return 0;
	c->recovery = stat.congestion_recovery_start_ts;
	*event = (struct cwndlab_guest_event){ CWNDLAB_GUEST_LOSS, 0, stat.cwnd };
	return 1;
}

__attribute__((visibility("default"))) const struct cwndlab_guest *cwndlab_guest(void)
{
	static const char *const cc[] = { "cubic", "reno", "bbr", "bbr2", NULL };
	static const struct cwndlab_guest guest = {
		.version = CWNDLAB_GUEST_VERSION, .size = sizeof(guest), .kind = CWNDLAB_GUEST_DATAGRAMS, .min_mss = 1188,
		.name = "ngtcp2-" NGTCP2_VERSION, .cc = cc, .start = start, .stop = stop, .handle = handle,
		.poll_transmit = poll_transmit, .poll_timeout = poll_timeout, .handle_timeout = handle_timeout,
		.open = open_connection, .close = close_connection, .is_open = is_open, .write = write_stream,
		.is_writable = is_writable, .finish = finish, .readable = readable, .read = read_stream,
		.is_at_end = is_at_end, .failure = failure, .observe = observe, .events = events,
	};

	return &guest;
}
