/* A shared library that fails at an ACK after half a second, as HOW says. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cwndlab_cc.h"

static int connections;

static void *begin(struct cwndlab_flow *flow)
{
	(void)flow;
	connections++;
	return &connections;
}

static void on_ack(void *self, struct cwndlab_flow *flow)
{
	if (flow->now > 0.5) {
		if (HOW == 1)
			*(volatile int *)(flow->reserved + 8L) = 1;
		while (HOW == 2)
			self = *(void *volatile *)&self;
		if (HOW == 3) {
			flow->cwnd = 0;
			return;
		}
		if (HOW == 4)
			kill(getpid(), SIGKILL);
		if (HOW == 5 && connections > 2)
			abort();
	}
	flow->cwnd += flow->cwnd < flow->ssthresh ? flow->acked : flow->mss * flow->acked / flow->cwnd;
}

static void on_loss(void *self, struct cwndlab_flow *flow)
{
	(void)self;
	flow->cwnd = flow->cwnd / 2 > 2 * flow->mss ? flow->cwnd / 2 : 2 * flow->mss;
}

const struct cwndlab_cc_ops *cwndlab_cc(void)
{
	static const struct cwndlab_cc_ops ops = { HOW == 6 ? 99 : CWNDLAB_CC_VERSION, sizeof(ops), begin, NULL, on_ack,
						   on_loss, NULL, NULL };

	return &ops;
}
