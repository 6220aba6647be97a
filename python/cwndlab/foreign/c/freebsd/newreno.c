/* NewReno (RFC 5681, 6582) as FreeBSD has it, for modules that call it; a module of that name stands before it. */
#include "cwndlab_freebsd.h"

#if CWNDLAB_FREEBSD >= 1400000
#define NAMED(hook) newreno_cc_##hook
#define LINKAGE
#else
#define NAMED(hook) newreno_##hook
#define LINKAGE static
#endif

#if CWNDLAB_FREEBSD >= 1200000
#define UNIT(ccv) tcp_maxseg(TP(ccv))
#define MERGED(ccv) ((ccv)->nsegs)
#else
#define UNIT(ccv) CCV(ccv, t_maxseg)
#define MERGED(ccv) 1
#endif
#if CWNDLAB_FREEBSD >= 1500000
#define TP(ccv) ((ccv)->tp)
#else
#define TP(ccv) ((ccv)->ccvc.tcp)
#endif

#if CWNDLAB_FREEBSD >= 1500000
#define STEP(name) newreno_cc_cwnd_##name
#define STEP_LINKAGE
#else
#define STEP(name) cwnd_##name
#define STEP_LINKAGE static
#endif

static u_int grown(struct cc_var *ccv, u_int more)
{
	u_int window = CCV(ccv, snd_cwnd);

	return more ? min(window + more, TCP_MAXWIN << CCV(ccv, snd_scale)) : window;
}

/* The window after an ACK, above the threshold and up to it. */
STEP_LINKAGE u_int STEP(in_cong_avoid)(struct cc_var *ccv)
{
	u_int segment = CCV(ccv, t_maxseg);

	if (!V_tcp_do_rfc3465)
		return grown(ccv, max(segment * segment / CCV(ccv, snd_cwnd), 1));
	if (!(ccv->flags & CCF_ABC_SENTAWND))
		return CCV(ccv, snd_cwnd);
	ccv->flags &= ~CCF_ABC_SENTAWND;
	return grown(ccv, segment);
}

STEP_LINKAGE u_int STEP(in_slow_start)(struct cc_var *ccv)
{
	u_int segment = CCV(ccv, t_maxseg);
	/* While data is sent again, one segment (RFC 3465 section 2.3). */
	u_int limit = CCV(ccv, snd_nxt) == CCV(ccv, snd_max) ? MERGED(ccv) * V_tcp_abc_l_var : 1;

	return grown(ccv, V_tcp_do_rfc3465 ? min(ccv->bytes_this_ack, limit * segment) : segment);
}

LINKAGE void NAMED(ack_received)(struct cc_var *ccv, cwndlab_ack_type type)
{
	if (type != CC_ACK || IN_RECOVERY(CCV(ccv, t_flags)) || !(ccv->flags & CCF_CWND_LIMITED))
		return;
	CCV(ccv, snd_cwnd) = CCV(ccv, snd_cwnd) > CCV(ccv, snd_ssthresh) ? STEP(in_cong_avoid)(ccv) : STEP(in_slow_start)(ccv);
}

LINKAGE void NAMED(after_idle)(struct cc_var *ccv)
{
	u_int window = CCV(ccv, snd_cwnd);

#if CWNDLAB_FREEBSD >= 1200000
	CCV(ccv, snd_ssthresh) = max(CCV(ccv, snd_ssthresh), window - window / 4);
#endif
	CCV(ccv, snd_cwnd) = min(window, tcp_compute_initwnd(UNIT(ccv)));
}

#if CWNDLAB_FREEBSD < 1200000
#define PERCENT(ccv, type) 50
#elif CWNDLAB_FREEBSD < 1400000
/* Two percentages at the beginning of the connection's memory, whichever module's that is. */
struct betas {
	uint32_t loss, ecn;
};
extern uint32_t cwndlab_newreno_beta, cwndlab_newreno_beta_ecn;

static u_int percent(struct cc_var *ccv, cwndlab_signal_type type)
{
	const struct betas usual = { cwndlab_newreno_beta, cwndlab_newreno_beta_ecn };
	const struct betas *betas = ccv->cc_data ? ccv->cc_data : &usual;

	return V_cc_do_abe && type == CC_ECN ? betas->ecn : betas->loss;
}
#define PERCENT(ccv, type) percent(ccv, type)
#else
#define PERCENT(ccv, type) V_newreno_beta
#endif

#if CWNDLAB_FREEBSD >= 1200000
/* The module itself reduces on a timeout. */
static void on_timeout(struct cc_var *ccv)
{
	u_int unit = UNIT(ccv);

#if CWNDLAB_FREEBSD >= 1500000
	u_int flight = min(CCV(ccv, snd_wnd), tcp_compute_pipe(ccv->tp));

	/* The first of a row says how much was in flight. */
	if (CCV(ccv, t_rxtshift) == 1)
		CCV(ccv, snd_ssthresh) = max(flight / 2 / unit, 2) * unit;
#else
	CCV(ccv, snd_ssthresh) = max(min(CCV(ccv, snd_wnd), CCV(ccv, snd_cwnd)) / 2 / unit, 2) * unit;
#endif
	CCV(ccv, snd_cwnd) = unit;
}
#endif

/* So many per cent of the window, in whole segments. */
static u_int share(struct cc_var *ccv, u_int percent, u_int unit)
{
	return max((uint64_t)CCV(ccv, snd_cwnd) * percent / (100 * unit), 2) * unit;
}

#if CWNDLAB_FREEBSD >= 1500000
u_int newreno_cc_cwnd_on_multiplicative_decrease(struct cc_var *ccv, uint32_t unit)
{
	return share(ccv, V_newreno_beta, unit);
}
#endif

LINKAGE void NAMED(cong_signal)(struct cc_var *ccv, cwndlab_signal_type type)
{
	u_int less = share(ccv, PERCENT(ccv, type), UNIT(ccv));

	switch (type) {
	case CC_NDUPACK:
		if (IN_FASTRECOVERY(CCV(ccv, t_flags)))
			break;
		if (!IN_CONGRECOVERY(CCV(ccv, t_flags)))
			CCV(ccv, snd_ssthresh) = less;
		ENTER_RECOVERY(CCV(ccv, t_flags));
		break;
	case CC_ECN:
		if (IN_CONGRECOVERY(CCV(ccv, t_flags)))
			break;
		CCV(ccv, snd_ssthresh) = CCV(ccv, snd_cwnd) = less;
		ENTER_CONGRECOVERY(CCV(ccv, t_flags));
		break;
#if CWNDLAB_FREEBSD >= 1200000
	case CC_RTO:
		on_timeout(ccv);
		break;
#endif
	default:
		break;
	}
}

LINKAGE void NAMED(post_recovery)(struct cc_var *ccv)
{
	u_int pipe = tcp_compute_pipe(TP(ccv)), segment = CCV(ccv, t_maxseg);

	if (!IN_FASTRECOVERY(CCV(ccv, t_flags)))
		return;
	CCV(ccv, snd_cwnd) = CCV(ccv, snd_ssthresh);
	if (pipe < CCV(ccv, snd_ssthresh)) {
#if CWNDLAB_FREEBSD >= 1200000
		pipe = max(pipe, segment);
#endif
		CCV(ccv, snd_cwnd) = pipe + segment;
	}
}

#if CWNDLAB_FREEBSD >= 1400000
u_int tcp_fixed_maxseg(const struct tcpcb *tp)
{
	return tcp_maxseg(tp);
}
#else
__attribute__((weak)) struct cc_algo newreno_cc_algo = {
	.name = "newreno",
	.ack_received = newreno_ack_received,
	.after_idle = newreno_after_idle,
	.cong_signal = newreno_cong_signal,
	.post_recovery = newreno_post_recovery,
};
#endif
