/* The side of a compiled module for Linux since 4.9: growth that counts packets, windowed minima, and the hooks. */
#include "calls.h"

#if CWNDLAB_LINUX >= 40000

/* Growth (RFC 5681, counted in packets). */

EXPORTED bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->is_cwnd_limited || (tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out);
}

EXPORTED u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);
	u32 left = acked - (cwnd - tp->snd_cwnd);

	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return left;
}

EXPORTED void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	/* Credit that a larger w left. */
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		u32 more = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= more * w;
		tp->snd_cwnd += more;
	}
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

static u32 undo_cwnd(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

#if CWNDLAB_LINUX >= 41000
EXPORTED u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return undo_cwnd(sk);
}
#endif

EXPORTED void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

struct tcp_congestion_ops tcp_reno = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "reno",
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = undo_cwnd,
};

/* The engine reduces when the hook has returned. */
EXPORTED void tcp_enter_cwr(struct sock *sk)
{
	tcp_sk(sk)->cwndlab_cwr = true;
}

/* The best three of a window, after Kathleen Nichols. `sign` turns a maximum into a minimum. */

EXPORTED u32 minmax_reset(struct minmax *m, u32 t, u32 value)
{
	m->s[0] = m->s[1] = m->s[2] = (struct minmax_sample){ t, value };
	return value;
}

static u32 minmax_update(struct minmax *m, u32 window, u32 t, u32 value, bool largest)
{
	struct minmax_sample sample = { t, value };
	u32 age;

#define BETTER(at) (largest ? value >= m->s[at].v : value <= m->s[at].v)
	if (BETTER(0) || t - m->s[2].t > window)
		return minmax_reset(m, t, value);
	if (BETTER(1))
		m->s[1] = m->s[2] = sample;
	else if (BETTER(2))
		m->s[2] = sample;
#undef BETTER
	age = t - m->s[0].t;
	if (age > window) {
		/* The best has grown old: the next one follows, and perhaps the one behind it. */
		m->s[0] = m->s[1];
		m->s[1] = m->s[2];
		m->s[2] = sample;
		if (t - m->s[0].t > window) {
			m->s[0] = m->s[1];
			m->s[1] = m->s[2];
			m->s[2] = sample;
		}
	} else if (m->s[1].t == m->s[0].t && age > window / 4) {
		m->s[1] = m->s[2] = sample;
	} else if (m->s[2].t == m->s[1].t && age > window / 2) {
		m->s[2] = sample;
	}
	return m->s[0].v;
}

EXPORTED u32 minmax_running_max(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_update(m, window, t, value, true);
}

EXPORTED u32 minmax_running_min(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_update(m, window, t, value, false);
}

/* Calls of the engine. */

static bool has_segments(const struct tcp_congestion_ops *ops)
{
#if CWNDLAB_LINUX < 50000
	if (ops->tso_segs_goal)
		return true;
#endif
	return ops->min_tso_segs || ops->tso_segs;
}

static bool hears_events(const struct tcp_congestion_ops *ops)
{
#if CWNDLAB_LINUX >= 70000
	if (ops->cwnd_event_tx_start)
		return true;
#endif
	return ops->cwnd_event;
}

/* How many packets a burst has at least; hooks of other names say how many it has. */
static u32 segments(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	u32 goal = 0;

#if CWNDLAB_LINUX < 50000
	/* A module that has no goal yet says 0, and the kernel takes its own. */
	if (ops->tso_segs_goal)
		goal = ops->tso_segs_goal(sk);
#endif
	if (!goal && ops->tso_segs)
		goal = ops->tso_segs(sk, tcp_sk(sk)->mss_cache);
	if (!goal && ops->min_tso_segs)
		goal = ops->min_tso_segs(sk);
	return max(goal, 1u);
}

bool cwndlab_complete(const struct tcp_congestion_ops *ops)
{
	return ops->ssthresh && (ops->undo_cwnd || CWNDLAB_LINUX < 41000) && (ops->cong_avoid || ops->cong_control);
}

uint32_t cwndlab_hooks_of(const struct tcp_congestion_ops *ops)
{
#define HAS(field, hook) ((uint32_t)!!ops->field << (hook))
	return HAS(init, CWNDLAB_INIT) | HAS(release, CWNDLAB_RELEASE) | HAS(ssthresh, CWNDLAB_SSTHRESH) |
	       HAS(cong_avoid, CWNDLAB_CONG_AVOID) | HAS(cong_control, CWNDLAB_CONG_CONTROL) |
	       HAS(set_state, CWNDLAB_SET_STATE) | (uint32_t)hears_events(ops) << CWNDLAB_CWND_EVENT |
	       HAS(in_ack_event, CWNDLAB_IN_ACK_EVENT) | HAS(pkts_acked, CWNDLAB_PKTS_ACKED) |
	       1u << CWNDLAB_UNDO_CWND | HAS(sndbuf_expand, CWNDLAB_SNDBUF_EXPAND) |
	       (uint32_t)has_segments(ops) << CWNDLAB_MIN_TSO_SEGS | HAS(get_info, CWNDLAB_GET_INFO) |
	       (uint32_t)!!(ops->flags & TCP_CONG_NEEDS_ECN) << 31;
#undef HAS
}

void cwndlab_fill_own(struct tcp_sock *tp, const struct cwndlab_linux *x)
{
	tp->max_packets_out = x->max_packets_out;
	tp->is_cwnd_limited = x->cwnd_limited;
	tp->srtt_us = x->srtt8_us;
	tp->tcp_clock_cache = x->host.now_ns;
	tp->tcp_mstamp = cwndlab_stamp_of(x->host.now_ns / NSEC_PER_USEC);
	tp->advmss = x->mss;
	tp->tcp_header_len = x->stamped ? 32 : 20;
	tp->write_seq = x->nxt + x->unsent;
	tp->cwndlab_head.skb.len = min(x->unsent, x->mss);
	tp->cwndlab_head.cb.seq = x->nxt;
	tp->cwndlab_head.cb.end_seq = x->nxt + min(x->unsent, x->mss);
	tp->tcp_wstamp_ns = x->departure_ns;
	tp->delivered = x->delivered;
	tp->delivered_ce = x->delivered_ce;
	tp->delivered_mstamp = cwndlab_stamp_of(x->delivered_mstamp);
	tp->first_tx_mstamp = cwndlab_stamp_of(x->first_tx_mstamp);
	tp->lost = x->lost;
	tp->app_limited = x->app_limited;
	tp->cwndlab_min_rtt_us = x->min_rtt_us;
	tp->cwndlab_cwr = false;
	tp->cwndlab_sent_ack = false;
	tp->inet_conn.icsk_ack.pending = x->delays_ack ? ICSK_ACK_SCHED | ICSK_ACK_TIMER : 0;
	if (x->echoes_ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
#if CWNDLAB_LINUX < 41300
	/* TCP itself paces since 4.13; before, modules with a rate asked for the queue discipline fq. */
	if (tp->inet_conn.icsk_ca_ops->cong_control)
		tp->inet_conn.sk.sk_pacing_status = SK_PACING_FQ;
#endif
}

void cwndlab_read_own(const struct tcp_sock *tp, struct cwndlab_linux *x)
{
	x->app_limited = tp->app_limited;
	x->cwr_requested = tp->cwndlab_cwr;
	x->echoes_ce = (tp->ecn_flags & TCP_ECN_DEMAND_CWR) != 0;
	x->ack_now = (tp->inet_conn.icsk_ack.pending & ICSK_ACK_NOW) != 0;
	x->sent_ack = tp->cwndlab_sent_ack;
	x->sent_ack_nxt = tp->cwndlab_sent_nxt;
	x->sent_ack_echoes = tp->cwndlab_sent_echo;
}

static void tell_sample(struct sock *sk, const struct tcp_congestion_ops *ops, const struct cwndlab_linux *x,
			const int64_t *arguments)
{
	struct rate_sample rs = {
		.prior_mstamp = cwndlab_stamp_of(x->prior_mstamp),
		.prior_delivered = x->prior_delivered,
		.prior_delivered_ce = x->prior_delivered_ce,
		.delivered = x->sample_delivered,
		.delivered_ce = x->sample_delivered_ce,
		.interval_us = x->interval_us,
		.snd_interval_us = x->snd_interval_us,
		.rcv_interval_us = x->rcv_interval_us,
		.last_end_seq = x->last_end_seq,
		.rtt_us = x->rtt_us,
		.losses = x->losses,
		.acked_sacked = x->acked_sacked,
		.prior_in_flight = x->prior_in_flight,
		.is_app_limited = x->is_app_limited,
		.is_retrans = x->is_retrans,
		.is_ack_delayed = x->is_ack_delayed,
	};

#if CWNDLAB_LINUX >= 61000
	ops->cong_control(sk, arguments[0], arguments[1], &rs);
#else
	(void)arguments;
	ops->cong_control(sk, &rs);
#endif
}

/* What our enumeration has in the kernel's; what 3.9 alone has is of no interest here. */
static void tell_event(struct sock *sk, const struct tcp_congestion_ops *ops, int64_t event)
{
#if CWNDLAB_LINUX >= 70000
	/* A module without that hook is of an older release: its source may be compiled for any that has the types. */
	if (event == CWNDLAB_TX_START && ops->cwnd_event_tx_start) {
		ops->cwnd_event_tx_start(sk);
		return;
	}
#endif
	static const enum tcp_ca_event events[] = {
		[CWNDLAB_TX_START] = CA_EVENT_TX_START,
		[CWNDLAB_RESTART] = CA_EVENT_CWND_RESTART,
		[CWNDLAB_COMPLETE_CWR] = CA_EVENT_COMPLETE_CWR,
		[CWNDLAB_LOSS] = CA_EVENT_LOSS,
		[CWNDLAB_ECN_NO_CE] = CA_EVENT_ECN_NO_CE,
		[CWNDLAB_ECN_IS_CE] = CA_EVENT_ECN_IS_CE,
	};

	if (event < (int64_t)ARRAY_SIZE(events) && ops->cwnd_event)
		ops->cwnd_event(sk, events[event]);
}

void cwndlab_call_own(struct cwndlab_call *call, const struct tcp_congestion_ops *ops)
{
	struct sock *sk = &call->tp->inet_conn.sk;
	const struct cwndlab_linux *x = call->x;
	const int64_t *a = call->arguments;
	struct ack_sample sample = { x->acked, x->rtt_us, x->in_flight };
	union tcp_cc_info info = { { 0, 0, 0, 0 } };
	int kind = 0;

	switch (call->hook) {
	case CWNDLAB_CONG_AVOID:
		if (ops->cong_avoid)
			ops->cong_avoid(sk, a[0], a[1]);
		break;
	case CWNDLAB_CONG_CONTROL:
		tell_sample(sk, ops, x, a);
		break;
	case CWNDLAB_CWND_EVENT:
		tell_event(sk, ops, a[0]);
		break;
	case CWNDLAB_IN_ACK_EVENT:
		ops->in_ack_event(sk, a[0]);
		break;
	case CWNDLAB_PKTS_ACKED:
#if CWNDLAB_LINUX < 40700
		ops->pkts_acked(sk, sample.pkts_acked, sample.rtt_us);
#else
		ops->pkts_acked(sk, &sample);
#endif
		break;
	case CWNDLAB_UNDO_CWND:
		/* 4.9: a module without one has the kernel's. */
		call->value = ops->undo_cwnd ? ops->undo_cwnd(sk) : max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->snd_ssthresh << 1);
		break;
	case CWNDLAB_SNDBUF_EXPAND:
		call->value = ops->sndbuf_expand(sk);
		break;
	case CWNDLAB_MIN_TSO_SEGS:
		call->value = segments(sk, ops);
		break;
	case CWNDLAB_GET_INFO:
		ops->get_info(sk, ~0u, &kind, &info);
		break;
	}
}

#endif
