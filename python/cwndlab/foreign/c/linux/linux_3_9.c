/* Linux 3.9's side of a compiled module: growth that counts ACKs, and the hooks and events of its time. */
#include "calls.h"

#if CWNDLAB_LINUX < 40000

/* So much of the window may be unused, packets. */
#define DEFERRED 3

EXPORTED bool tcp_is_cwnd_limited(const struct sock *sk, u32 in_flight)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 unused = tp->snd_cwnd - in_flight;

	if (in_flight >= tp->snd_cwnd || unused <= DEFERRED)
		return true;
	/* A burst that segmentation offload still gathers. */
	return sk_can_gso(sk) && unused * tp->cwndlab_tso_win_divisor < tp->snd_cwnd &&
	       (u64)unused * tp->mss_cache < sk->sk_gso_max_size && unused < sk->sk_gso_max_segs;
}

/* One packet for each ACK; beyond tcp_max_ssthresh less (RFC 3742). */
EXPORTED void tcp_slow_start(struct tcp_sock *tp)
{
	u32 window = tp->snd_cwnd, limit = tp->cwndlab_max_ssthresh;

	tp->snd_cwnd_cnt += limit && window > limit ? limit / 2 : window;
	tp->snd_cwnd = min(window + tp->snd_cwnd_cnt / window, tp->snd_cwnd_clamp);
	tp->snd_cwnd_cnt %= window;
}

/* One packet for w + 1 ACKs. */
EXPORTED void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w)
{
	if (tp->snd_cwnd_cnt < w) {
		tp->snd_cwnd_cnt++;
		return;
	}
	tp->snd_cwnd_cnt = 0;
	if (tp->snd_cwnd < tp->snd_cwnd_clamp)
		tp->snd_cwnd++;
}

EXPORTED void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 in_flight)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk, in_flight))
		return;
	if (tp->snd_cwnd <= tp->snd_ssthresh)
		tcp_slow_start(tp);
	else
		tcp_cong_avoid_ai(tp, tp->snd_cwnd);
}

EXPORTED u32 tcp_reno_min_cwnd(const struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh / 2;
}

struct tcp_congestion_ops tcp_reno = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "reno",
	.ssthresh = tcp_reno_ssthresh,
	.min_cwnd = tcp_reno_min_cwnd,
	.cong_avoid = tcp_reno_cong_avoid,
};

/* Calls of the engine. */

bool cwndlab_complete(const struct tcp_congestion_ops *ops)
{
	return ops->ssthresh && ops->cong_avoid;
}

uint32_t cwndlab_hooks_of(const struct tcp_congestion_ops *ops)
{
#define HAS(field, hook) ((uint32_t)!!ops->field << (hook))
	/* A module without undo_cwnd has the kernel's. */
	return HAS(init, CWNDLAB_INIT) | HAS(release, CWNDLAB_RELEASE) | HAS(ssthresh, CWNDLAB_SSTHRESH) |
	       HAS(cong_avoid, CWNDLAB_CONG_AVOID) | HAS(set_state, CWNDLAB_SET_STATE) |
	       HAS(cwnd_event, CWNDLAB_CWND_EVENT) | HAS(pkts_acked, CWNDLAB_PKTS_ACKED) |
	       HAS(get_info, CWNDLAB_GET_INFO) | 1u << CWNDLAB_UNDO_CWND;
#undef HAS
}

void cwndlab_fill_own(struct tcp_sock *tp, const struct cwndlab_linux *x)
{
	tp->srtt = ((u64)x->srtt8_us * HZ + USEC_PER_SEC / 2) / USEC_PER_SEC;
	tp->cwndlab_tso_win_divisor = x->tso_win_divisor;
	tp->cwndlab_max_ssthresh = x->max_ssthresh;
}

void cwndlab_read_own(const struct tcp_sock *tp, struct cwndlab_linux *x)
{
	(void)tp;
	(void)x;
}

/* What our enumeration has in the kernel's; what came after 3.9 is of no interest here. */
static void tell_event(struct sock *sk, const struct tcp_congestion_ops *ops, int64_t event)
{
	static const int events[] = {
		[CWNDLAB_TX_START] = CA_EVENT_TX_START,
		[CWNDLAB_RESTART] = CA_EVENT_CWND_RESTART,
		[CWNDLAB_COMPLETE_CWR] = CA_EVENT_COMPLETE_CWR,
		[CWNDLAB_LOSS] = CA_EVENT_LOSS,
		[CWNDLAB_ECN_NO_CE] = -1,
		[CWNDLAB_ECN_IS_CE] = -1,
		[CWNDLAB_FRTO] = CA_EVENT_FRTO,
		[CWNDLAB_FAST_ACK] = CA_EVENT_FAST_ACK,
		[CWNDLAB_SLOW_ACK] = CA_EVENT_SLOW_ACK,
	};

	if (events[event] >= 0)
		ops->cwnd_event(sk, events[event]);
}

void cwndlab_call_own(struct cwndlab_call *call, const struct tcp_congestion_ops *ops)
{
	struct sock *sk = &call->tp->inet_conn.sk;
	const struct cwndlab_linux *x = call->x;

	switch (call->hook) {
	case CWNDLAB_CONG_AVOID:
		ops->cong_avoid(sk, call->arguments[0], x->prior_in_flight);
		break;
	case CWNDLAB_CWND_EVENT:
		tell_event(sk, ops, call->arguments[0]);
		break;
	case CWNDLAB_PKTS_ACKED:
		/* Newer stacks also tell of ACKs that acknowledge nothing. */
		if (x->acked)
			ops->pkts_acked(sk, x->acked, ops->flags & TCP_CONG_RTT_STAMP ? x->stamped_rtt_us : x->rtt_us);
		break;
	case CWNDLAB_UNDO_CWND:
		call->value = ops->undo_cwnd ? ops->undo_cwnd(sk) : max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->snd_ssthresh << 1);
		break;
	case CWNDLAB_GET_INFO:
		ops->get_info(sk, ~0u, NULL);
		break;
	}
}

#endif
