/* Stands between the engine and a shared library that exports `cwndlab_cc`: guarded calls, a copy for each host. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cwndlab/runtime.h"
#include "cwndlab_cc.h"

/* As crates/foreign-cc/src/plain/mod.rs numbers events. */
enum { CREATE, DESTROY, ON_ACK, ON_LOSS, ON_RTO, ON_ECN };

static const struct cwndlab_cc_ops *loaded;

/* Copies the library, as what is loaded already would not be loaded again, and opens the copy. */
static void *open_copy(void)
{
	char name[] = "/tmp/cwndlab-cc-XXXXXX", block[65536];
	int from = open(CWNDLAB_LIBRARY, O_RDONLY | O_CLOEXEC), to = from < 0 ? -1 : mkstemp(name);
	void *handle = NULL;
	ssize_t got = 0;

	if (to >= 0) {
		while ((got = read(from, block, sizeof(block))) > 0 && write(to, block, got) == got)
			;
		close(to);
		if (got == 0)
			handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		unlink(name);
	}
	if (from >= 0)
		close(from);
	return handle;
}

static void open_library(void *unused)
{
	const struct cwndlab_cc_ops *(*export)(void);
	const char *why;
	void *handle = open_copy();

	(void)unused;
	if (!handle) {
		why = dlerror();
		cwndlab_bug(why ? why : "cannot be read");
	}
	*(void **)&export = dlsym(handle, "cwndlab_cc");
	if (!export)
		cwndlab_bug("exports no cwndlab_cc");
	loaded = export();
	if (!loaded || loaded->version != CWNDLAB_CC_VERSION || loaded->size < sizeof(*loaded))
		cwndlab_bug("is for another version of cwndlab_cc.h");
	if (!loaded->on_ack || !loaded->on_loss)
		cwndlab_bug("has no on_ack, or no on_loss");
}

struct call {
	void **self;
	struct cwndlab_flow *flow;
	uint32_t event;
};

static void carry_out(void *argument)
{
	struct call *call = argument;
	void *self = *call->self;

	switch (call->event) {
	case CREATE:
		if (loaded->create)
			*call->self = loaded->create(call->flow);
		break;
	case DESTROY:
		if (loaded->destroy)
			loaded->destroy(self);
		break;
	case ON_ACK:
		loaded->on_ack(self, call->flow);
		break;
	case ON_LOSS:
		loaded->on_loss(self, call->flow);
		break;
	case ON_RTO:
		(loaded->on_rto ? loaded->on_rto : loaded->on_loss)(self, call->flow);
		break;
	case ON_ECN:
		(loaded->on_ecn ? loaded->on_ecn : loaded->on_loss)(self, call->flow);
		break;
	}
}

static int call(void *connection, void *exchange, uint32_t event, const int64_t *arguments, int64_t *value)
{
	struct call it = { connection, exchange, event };

	(void)arguments;
	(void)value;
	return cwndlab_guarded(carry_out, &it);
}

static uint64_t size(void)
{
	return sizeof(void *);
}

static uint32_t hooks(void *connection)
{
	(void)connection;
	return 0;
}

static int start(const struct cwndlab_host *host)
{
	cwndlab_host = *host;
	return cwndlab_guarded(open_library, NULL);
}

static int stop(void)
{
	return CWNDLAB_DONE;
}

__attribute__((visibility("default"))) const struct cwndlab_module *cwndlab_module(void)
{
	static const struct cwndlab_module module = {
		CWNDLAB_ABI, sizeof(struct cwndlab_flow), "plain", cwndlab_attach, cwndlab_reset, cwndlab_knob,
		cwndlab_set_knob, start, stop, size, hooks, call, cwndlab_complaint,
	};

	return &module;
}
