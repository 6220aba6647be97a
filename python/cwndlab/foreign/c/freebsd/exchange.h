/* What the engine and a module with FreeBSD's hooks tell each other; crates/foreign-cc/src/freebsd.rs is the same in Rust. */
#ifndef CWNDLAB_FREEBSD_EXCHANGE_H
#define CWNDLAB_FREEBSD_EXCHANGE_H

#include "../cwndlab/exchange.h"

/* Bits of `is`. */
enum cwndlab_freebsd_is {
	CWNDLAB_IS_WINDOW_ACKED = 1 << 0,	/* a window has been acknowledged since it grew (RFC 3465) */
	CWNDLAB_IS_LIMITED = 1 << 1,		/* the window limits the sender */
	CWNDLAB_IS_CE = 1 << 2,			/* the segment at hand is marked */
	CWNDLAB_IS_CWR = 1 << 3,		/* it says that the peer has reduced */
	CWNDLAB_IS_DELAYED_ACK = 1 << 4,
	CWNDLAB_IS_ACK_NOW = 1 << 5,		/* the module wants an ACK at once */
	CWNDLAB_IS_FAST_RECOVERY = 1 << 6,
	CWNDLAB_IS_CONG_RECOVERY = 1 << 7,
	CWNDLAB_IS_ECN = 1 << 8,		/* agreed */
	CWNDLAB_IS_ABC = 1 << 9,		/* net.inet.tcp.rfc3465 */
	CWNDLAB_IS_ABE = 1 << 10,		/* net.inet.tcp.cc.abe */
	CWNDLAB_IS_ABE_LOSS = 1 << 11,		/* net.inet.tcp.cc.abe_frlossreduce */
	CWNDLAB_IS_HYSTART = 1 << 12,		/* RACK allows HyStart++, */
	CWNDLAB_IS_HYSTART_SHRINK = 1 << 13,	/* lets it shrink the window, */
	CWNDLAB_IS_HYSTART_SAFE = 1 << 14,	/* carefully */
	CWNDLAB_IS_NEW_ROUND = 1 << 15,		/* a measured round trip has ended */
	CWNDLAB_IS_ECHOES_CE = 1 << 16,		/* ACKs echo a mark */
};

/* The connection, in bytes and ticks; sequence numbers as on the wire. */
struct cwndlab_freebsd {
	struct cwndlab_host host;
	uint64_t micros;
	uint32_t is;
	uint32_t cwnd, ssthresh, maxseg, mss, snd_wnd, snd_scale;
	uint32_t bytes_acked, bytes_this_ack, nsegs;
	uint32_t curack, una, nxt, max, recover, pipe;
	uint32_t rxtshift, srtt, rttupdates;
	uint32_t abc_l_var;
	/* The window after an idle time: that of RFC 6928 for so many segments; 0: of RFC 3390. */
	uint32_t restart_segments;
	uint32_t beta, beta_ecn;		/* net.inet.tcp.cc.newreno */
	uint32_t hystart_min_us, hystart_max_us, hystart_samples, hystart_divisor, hystart_rounds;
	/* What h_ertt(4) measures. */
	uint32_t rtt, min_rtt, max_rtt, marked_rtt, marked_bytes, marked_cwnd;
	uint32_t reserved;
};

/* Hooks of struct cc_algo. */
enum cwndlab_freebsd_hook {
	CWNDLAB_CB_INIT, CWNDLAB_CB_DESTROY, CWNDLAB_CONN_INIT, CWNDLAB_ACK_RECEIVED, CWNDLAB_CONG_SIGNAL,
	CWNDLAB_POST_RECOVERY, CWNDLAB_AFTER_IDLE, CWNDLAB_ECNPKT_HANDLER, CWNDLAB_NEWROUND, CWNDLAB_RTTSAMPLE,
	/* Beside them in what `hooks` tells: h_ertt's measurements are wanted. */
	CWNDLAB_WANTS_ERTT = 30,
};

#endif
