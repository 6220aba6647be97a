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

/* The library's bytes. */
__asm__(".section .rodata\n"
	".balign 16\n"
	"cwndlab_library: .incbin \"" CWNDLAB_LIBRARY "\"\n"
	"cwndlab_library_end: .byte 0\n"
	".previous\n");
extern const char cwndlab_library[] __attribute__((visibility("hidden")));
extern const char cwndlab_library_end[] __attribute__((visibility("hidden")));

static int write_library(const char *name)
{
	int to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const char *from = cwndlab_library;
	ssize_t put = 1;

	for (; to >= 0 && from < cwndlab_library_end && put > 0; from += put)
		put = write(to, from, cwndlab_library_end - from);
	return to >= 0 && close(to) == 0 && put > 0;
}

/* Opens a copy of its own, in a folder of its own: what is loaded already would not be loaded again. */
static void *open_copy(void)
{
	const char *base = getenv("TMPDIR");
	char folder[4096], name[4128];
	void *handle = NULL;

	snprintf(folder, sizeof(folder), "%s/cwndlab-cc-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(folder))
		return NULL;
	snprintf(name, sizeof(name), "%s/library.so", folder);
	if (write_library(name))
		handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	unlink(name);
	rmdir(folder);
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
	if (!loaded)
		cwndlab_bug("cwndlab_cc returns no structure");
	if (loaded->version != CWNDLAB_CC_VERSION) {
		static char other[96];

		snprintf(other, sizeof(other), "is for version %u of cwndlab_cc.h, and this cwndlab has version %u",
			 (unsigned)loaded->version, (unsigned)CWNDLAB_CC_VERSION);
		cwndlab_bug(other);
	}
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
