/* Stands between the engine and a shared library that exports `cwndlab_guest`: guarded calls, a copy for each host. */
#define _GNU_SOURCE
#include <string.h>

#include "cwndlab/runtime.h"
#include "cwndlab/library.h"
#include "cwndlab_guest.h"

/* As crates/foreign-cc/src/guests/exchange.rs has them. */
enum {
	DESCRIBE, START, STOP, HANDLE, POLL_TRANSMIT, POLL_TIMEOUT, HANDLE_TIMEOUT, OPEN, CLOSE, IS_OPEN, WRITE, IS_WRITABLE,
	FINISH, READABLE, READ, IS_AT_END, FAILURE, OBSERVE, EVENTS,
};

/* A call: what goes in, and what comes out. */
struct exchange {
	void *machine, *connection;
	const void *in;
	void *out;
	uint64_t bytes, now, result;
	uint32_t ecn, reserved;
};

struct call {
	struct exchange *it;
	uint32_t function;
};

static const struct cwndlab_guest *loaded;

/* Functions that a guest may be without are behind these. */
static int is_whole(void)
{
	return loaded->start && loaded->stop && loaded->handle && loaded->poll_transmit && loaded->poll_timeout &&
	       loaded->handle_timeout && loaded->open && loaded->close && loaded->is_open && loaded->write &&
	       loaded->is_writable && loaded->finish && loaded->readable && loaded->read && loaded->is_at_end &&
	       loaded->failure && loaded->observe;
}

static void open_library(void *unused)
{
	const struct cwndlab_guest *(*export)(void);

	(void)unused;
	*(void **)&export = exported("cwndlab_guest");
	loaded = export();
	if (!loaded)
		cwndlab_bug("cwndlab_guest returns no structure");
	check_version(loaded->version, CWNDLAB_GUEST_VERSION, "cwndlab_guest.h");
	if (loaded->size < sizeof(*loaded))
		cwndlab_bug("says a size that is smaller than struct cwndlab_guest");
	if (loaded->kind != CWNDLAB_GUEST_DATAGRAMS && loaded->kind != CWNDLAB_GUEST_PACKETS)
		cwndlab_bug("is of a kind that is not in cwndlab_guest.h");
	if (!loaded->name || !loaded->cc || !loaded->cc[0])
		cwndlab_bug("has no name, or no congestion control");
	if (!is_whole())
		cwndlab_bug("is without a function that cwndlab_guest.h asks for");
}

static void carry_out(void *argument)
{
	struct call *call = argument;
	struct exchange *it = call->it;

	switch (call->function) {
	case DESCRIBE:
		it->out = (void *)loaded;
		break;
	case START:
		it->machine = loaded->start(it->in, it->out, it->bytes);
		break;
	case STOP:
		loaded->stop(it->machine);
		dlclose(handle);
		break;
	case HANDLE:
		loaded->handle(it->machine, it->connection, it->in, it->bytes, it->ecn, it->now);
		break;
	case POLL_TRANSMIT:
		it->result = loaded->poll_transmit(it->machine, it->out, it->bytes, &it->connection, &it->ecn, it->now);
		if (it->result > it->bytes)
			cwndlab_bug("says a length that is larger than its buffer");
		break;
	case POLL_TIMEOUT:
		it->result = loaded->poll_timeout(it->machine);
		break;
	case HANDLE_TIMEOUT:
		loaded->handle_timeout(it->machine, it->now);
		break;
	case OPEN:
		it->connection = loaded->open(it->machine, it->in, it->out, it->bytes);
		break;
	case CLOSE:
		loaded->close(it->machine, it->connection);
		break;
	case IS_OPEN:
		it->result = loaded->is_open(it->connection) != 0;
		break;
	case WRITE:
		it->result = loaded->write(it->connection, it->bytes, it->now);
		break;
	case IS_WRITABLE:
		it->result = loaded->is_writable(it->connection) != 0;
		break;
	case FINISH:
		loaded->finish(it->connection, it->now);
		break;
	case READABLE:
		it->result = loaded->readable(it->connection);
		break;
	case READ:
		it->result = loaded->read(it->connection, it->bytes, it->now);
		break;
	case IS_AT_END:
		it->result = loaded->is_at_end(it->connection) != 0;
		break;
	case FAILURE:
		it->in = loaded->failure(it->connection);
		break;
	case OBSERVE:
		loaded->observe(it->connection, it->out);
		break;
	case EVENTS:
		it->result = loaded->events && loaded->events(it->connection, it->out) != 0;
		break;
	}
	if ((call->function == WRITE || call->function == READ) && it->result > it->bytes)
		cwndlab_bug("took more than it was offered");
}

static int call(void *connection, void *exchange, uint32_t function, const int64_t *arguments, int64_t *value)
{
	struct call it = { exchange, function };

	(void)connection;
	(void)arguments;
	(void)value;
	return cwndlab_guarded(carry_out, &it);
}

static uint64_t size(void)
{
	return 0;
}

__attribute__((visibility("default"))) const struct cwndlab_module *cwndlab_module(void)
{
	static const struct cwndlab_module module = {
		CWNDLAB_ABI, sizeof(struct exchange), "guest", cwndlab_attach, cwndlab_reset, cwndlab_knob,
		cwndlab_set_knob, start, stop, size, hooks, call, cwndlab_complaint,
	};

	return &module;
}
