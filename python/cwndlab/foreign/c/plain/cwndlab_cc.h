/* A congestion control for cwndlab in any language: a shared library that exports `cwndlab_cc`.
 *
 *     cwndlab run experiment.yaml --cc mine=libmine.so
 *
 * It runs on every stack with congestion controls from outside, Linux's and FreeBSD's. Windows are bytes, times
 * seconds. The library is loaded once for each host of a run, with statics of its own. C and C++ include this file;
 * other languages say the same two structures (docs/own-congestion-control.md has Rust, C++ and Zig).
 */
#ifndef CWNDLAB_CC_H
#define CWNDLAB_CC_H

#include <stddef.h>
#include <stdint.h>

/* Raised where what is here changes its meaning. Fields are only ever added at the end. */
#define CWNDLAB_CC_VERSION 1

/* A connection, as a function sees it. `cwnd` and `ssthresh` may be set. */
struct cwndlab_flow {
	uint32_t size;		/* bytes of this structure */
	uint32_t reserved;
	uint64_t seed;		/* for whatever you draw: of this connection, the same in every repetition of the run */
	double now;		/* time of the run */
	double cwnd;		/* congestion window */
	double ssthresh;	/* slow-start threshold; INFINITY before the first reduction */
	double mss;		/* payload of a full segment */
	double srtt;		/* smoothed round trip; 0: none yet */
	double min_rtt;		/* smallest round trip; 0: none yet */
	double rtt;		/* newest round trip; 0: none yet */
	double acked;		/* on_ack: bytes newly acknowledged */
	double in_flight;	/* bytes in flight */
};

/* What you export. `on_ack` and `on_loss` are needed, the others may be NULL: on_rto and on_ecn are on_loss then. */
struct cwndlab_cc_ops {
	uint32_t version;	/* CWNDLAB_CC_VERSION */
	uint32_t size;		/* sizeof(struct cwndlab_cc_ops) */
	/* A connection begins: your state, which the others are given; without it they get NULL. */
	void *(*create)(struct cwndlab_flow *flow);
	void (*destroy)(void *self);
	/* Data was acknowledged, nothing is being repaired, and the window is what limits. */
	void (*on_ack)(void *self, struct cwndlab_flow *flow);
	/* Loss was found by ACKs, a timer expired, the peer saw a mark: set `cwnd` to what is left of it. `ssthresh`
	 * becomes the same; after on_rto the stack begins again with one segment. */
	void (*on_loss)(void *self, struct cwndlab_flow *flow);
	void (*on_rto)(void *self, struct cwndlab_flow *flow);
	void (*on_ecn)(void *self, struct cwndlab_flow *flow);
};

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct cwndlab_cc_ops *cwndlab_cc(void);

#ifdef __cplusplus
}
#endif

#endif
