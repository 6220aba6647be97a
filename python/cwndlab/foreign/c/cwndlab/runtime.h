/* What both families' runtimes share: guarded calls, memory, statics, knobs, randomness. */
#ifndef CWNDLAB_RUNTIME_H
#define CWNDLAB_RUNTIME_H

#include <stddef.h>

#include "exchange.h"

/* The host whose code runs. */
extern struct cwndlab_host cwndlab_host;

/* Runs `code(argument)`; returns how it ended. */
int cwndlab_guarded(void (*code)(void *), void *argument);
/* Ends the hook at hand: the module has asked for the impossible. */
void cwndlab_bug(const char *what) __attribute__((noreturn));

/* Memory that `reset` takes back. */
void *cwndlab_alloc(size_t size);
/* The same, called a connection's private block where it is overrun. */
void *cwndlab_private_block(size_t size);
void cwndlab_free(void *memory);

/* SplitMix64 of the host's stream. */
uint64_t cwndlab_random(void);

/* A variable that can be set. `kind`: i signed, u unsigned, b bool; `size` in bytes. */
struct cwndlab_variable {
	const char *name;
	void *where;
	char kind, size;
	char writable;
	int64_t min, max;
	int (*set)(struct cwndlab_variable *variable, int64_t value);
	void *own;	/* what `set` needs */
};

/* Variables and functions, gathered by the linker in the order of the files. */
#define CWNDLAB_GATHER(what) __attribute__((section(what), used, aligned(sizeof(void *))))

void cwndlab_attach(struct cwndlab_guard *guard);
void cwndlab_reset(void);
int cwndlab_knob(uint32_t at, struct cwndlab_knob *knob);
int cwndlab_set_knob(uint32_t at, int64_t value);
const char *cwndlab_complaint(void);

#endif
