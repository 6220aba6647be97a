/* What Linux's side of a compiled module has in all releases, and what each release's file adds to it. */
#ifndef CWNDLAB_LINUX_CALLS_H
#define CWNDLAB_LINUX_CALLS_H

#include "cwndlab_linux.h"

/* Function that kernels export. A module may have one of its own of the same name, as it may there. */
#define EXPORTED __attribute__((weak))

/* A call of the engine. */
struct cwndlab_call {
	struct tcp_sock *tp;
	struct cwndlab_linux *x;
	uint32_t hook;
	const int64_t *arguments;
	int64_t value;
};

/* What only the release's own file knows. */

/* Whether a module has what it must have. */
bool cwndlab_complete(const struct tcp_congestion_ops *ops);
/* Bits of the hooks to call, with `ops` of a connection or of the module. */
uint32_t cwndlab_hooks_of(const struct tcp_congestion_ops *ops);
/* Fields that other releases do not have, before a hook and after it. */
void cwndlab_fill_own(struct tcp_sock *tp, const struct cwndlab_linux *x);
void cwndlab_read_own(const struct tcp_sock *tp, struct cwndlab_linux *x);
/* Calls a hook whose arguments or meaning differ between releases. */
void cwndlab_call_own(struct cwndlab_call *call, const struct tcp_congestion_ops *ops);

#endif
