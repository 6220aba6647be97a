/* Stands between the engine and a shared library that exports `cwndlab_cc`: guarded calls, a copy for each host. */
#define _GNU_SOURCE
#include "cwndlab/runtime.h"
#include "cwndlab/library.h"
#include "cwndlab_cc.h"

/* As crates/foreign-cc/src/plain/mod.rs numbers events. */
enum { CREATE, DESTROY, ON_ACK, ON_LOSS, ON_RTO, ON_ECN };

static const struct cwndlab_cc_ops *loaded;

static void open_library(void *unused)
{
	const struct cwndlab_cc_ops *(*export)(void);

	(void)unused;
	*(void **)&export = exported("cwndlab_cc");
	loaded = export();
	if (!loaded)
		cwndlab_bug("cwndlab_cc returns no structure");
	check_version(loaded->version, CWNDLAB_CC_VERSION, "cwndlab_cc.h");
	if (loaded->size < sizeof(*loaded))
		cwndlab_bug("says a size that is smaller than struct cwndlab_cc_ops");
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

__attribute__((visibility("default"))) const struct cwndlab_module *cwndlab_module(void)
{
	static const struct cwndlab_module module = {
		CWNDLAB_ABI, sizeof(struct cwndlab_flow), "plain", cwndlab_attach, cwndlab_reset, cwndlab_knob,
		cwndlab_set_knob, start, stop, size, hooks, call, cwndlab_complaint,
	};

	return &module;
}
