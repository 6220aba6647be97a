/* What the engine and a compiled module tell each other. crates/foreign-cc/src/exchange.rs is the same in Rust. */
#ifndef CWNDLAB_EXCHANGE_H
#define CWNDLAB_EXCHANGE_H

#include <stdint.h>

/* Raised with every change of this file. */
#define CWNDLAB_ABI 7

/* Where a host and its clock stand. */
struct cwndlab_host {
	uint64_t now_ns;	/* since boot */
	uint64_t ticks;		/* jiffies, ticks */
	uint64_t random;	/* state of the stream that is drawn from */
	uint32_t hz;		/* ticks a second */
	uint32_t abe;		/* FreeBSD: net.inet.tcp.cc.abe is on */
};

/* Linux: the connection, in packets and microseconds; sequence numbers as on the wire. */
struct cwndlab_linux {
	struct cwndlab_host host;
	uint64_t pacing_rate;		/* bytes a second */
	uint64_t delivered_mstamp;
	uint64_t first_tx_mstamp;
	uint64_t departure_ns;
	uint32_t cwnd, cwnd_cnt, ssthresh, prior_cwnd;
	uint32_t ca_state;		/* 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss */
	uint32_t packets_out, sacked_out, lost_out, retrans_out;
	uint32_t una, nxt;
	uint32_t mss;
	uint32_t srtt8_us;		/* eight times the smoothed RTT */
	uint32_t min_rtt_us;
	uint32_t delivered, delivered_ce, lost, app_limited;
	uint32_t cwnd_limited, max_packets_out;
	uint32_t last_sent_jiffies;
	uint32_t ecn;			/* agreed */
	uint32_t pacing;		/* transmissions are paced */
	uint32_t cwr_requested;		/* tcp_enter_cwr was called */
	uint32_t gso_max_size, gso_max_segs, min_tso_segs;
	uint32_t rcv_nxt;
	/* The ACK at hand: for pkts_acked and cong_control. */
	uint32_t acked, in_flight;
	int32_t rtt_us;			/* -1: none */
	int32_t sample_delivered;	/* -1: void */
	int64_t interval_us;
	uint64_t prior_mstamp;
	uint32_t prior_delivered, losses, acked_sacked, prior_in_flight;
	uint32_t is_app_limited, is_retrans, is_ack_delayed;
	int32_t stamped_rtt_us;		/* as rtt_us, in microseconds where that is in jiffies */
	/* For 3.9's functions: segmentation offload is on; the host's net.ipv4.tcp_tso_win_divisor and tcp_max_ssthresh. */
	uint32_t gso, tso_win_divisor, max_ssthresh;
	uint32_t snd_wnd, data_segs_out;
	/* The last ACK had timestamps; the peer's, and ours that it echoes. */
	uint32_t stamped, rcv_tsval, rcv_tsecr;
	uint32_t snd_interval_us, rcv_interval_us, last_end_seq;
	uint32_t unsent;		/* bytes that were written and not yet sent */
	uint32_t prior_delivered_ce, sample_delivered_ce;
	/* The answer to data, for ECN_NO_CE and ECN_IS_CE: an ACK is being delayed; ACKs echo a mark; one leaves at once; another
	 * leaves before that, of what had come before, with an echo or without. */
	uint32_t delays_ack, echoes_ce, ack_now, sent_ack, sent_ack_nxt, sent_ack_echoes;
	uint32_t rto_jiffies;
	uint32_t slow_start_after_idle;	/* the host's net.ipv4.tcp_slow_start_after_idle */
};

/* Events that cwnd_event hears of, of all interfaces. */
enum cwndlab_linux_event {
	CWNDLAB_TX_START, CWNDLAB_RESTART, CWNDLAB_COMPLETE_CWR, CWNDLAB_LOSS, CWNDLAB_ECN_NO_CE, CWNDLAB_ECN_IS_CE,
	CWNDLAB_FRTO, CWNDLAB_FAST_ACK, CWNDLAB_SLOW_ACK,
};

/* Hooks of struct tcp_congestion_ops. */
enum cwndlab_linux_hook {
	CWNDLAB_INIT, CWNDLAB_RELEASE, CWNDLAB_SSTHRESH, CWNDLAB_CONG_AVOID, CWNDLAB_CONG_CONTROL,
	CWNDLAB_SET_STATE, CWNDLAB_CWND_EVENT, CWNDLAB_IN_ACK_EVENT, CWNDLAB_PKTS_ACKED, CWNDLAB_UNDO_CWND,
	CWNDLAB_SNDBUF_EXPAND, CWNDLAB_MIN_TSO_SEGS, CWNDLAB_GET_INFO,
};

/* A knob, as `knob` tells it. */
struct cwndlab_knob {
	const char *name;	/* as written in the module */
	int64_t value, min, max;
	uint32_t writable;
	uint32_t reserved;
};

/* Shared by all modules of a process: who is inside a hook. */
struct cwndlab_guard {
	void *jump;			/* where to go when a hook fails; NULL: in no hook */
	uint64_t thread;
	uint32_t installed;		/* signal handlers are */
	volatile uint32_t quanta;	/* of processor time that the hook has used */
	uint64_t stacked;		/* the thread whose signal handlers have a stack of their own */
	const char *address;		/* that the hook crashed at */
};

/* How a call ended. */
enum cwndlab_end {
	CWNDLAB_DONE = 0,	/* else: the number of the signal that a crash raised, */
	CWNDLAB_TOO_LONG = 1000, CWNDLAB_BUG = 1001, CWNDLAB_REFUSED = 1002,
};

/* What a compiled module exports: `const struct cwndlab_module *cwndlab_module(void)`. */
struct cwndlab_module {
	uint32_t abi;
	uint32_t exchange;	/* bytes of the family's structure above */
	const char *family;	/* "linux" or "freebsd" */
	/* The family's copy of a module begins: as compiled. */
	void (*attach)(struct cwndlab_guard *guard);
	/* Statics as compiled, no memory in use. */
	void (*reset)(void);
	/* Number `at` of the knobs; 0: there are no more. */
	int (*knob)(uint32_t at, struct cwndlab_knob *knob);
	int (*set_knob)(uint32_t at, int64_t value);
	/* Calls the module's own initialisation, its end. */
	int (*start)(const struct cwndlab_host *host);
	int (*stop)(void);
	/* A connection, which lives as long as the caller keeps `size` bytes zeroed for it. */
	uint64_t (*size)(void);
	/* Bits of the hooks that the connection has now; bit 31: it needs ECN. */
	uint32_t (*hooks)(void *connection);
	/* Calls a hook; its value, if it has one, goes to `value`. */
	int (*call)(void *connection, void *exchange, uint32_t hook, const int64_t *arguments, int64_t *value);
	/* Why the last call ended as it did, where the module said so. */
	const char *(*complaint)(void);
};

#endif
