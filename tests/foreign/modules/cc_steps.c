/* FreeBSD 15's NewReno, made of the steps that its kernel offers to modules. */
#include <sys/param.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/systm.h>

#include <netinet/tcp_seq.h>
#include <netinet/tcp_var.h>
#include <netinet/cc/cc.h>
#include <netinet/cc/cc_module.h>

static void
steps_ack_received(struct cc_var *ccv, ccsignal_t type)
{
	if (type != CC_ACK || IN_RECOVERY(CCV(ccv, t_flags)) || !(ccv->flags & CCF_CWND_LIMITED))
		return;
	if (CCV(ccv, snd_cwnd) > CCV(ccv, snd_ssthresh))
		CCV(ccv, snd_cwnd) = newreno_cc_cwnd_in_cong_avoid(ccv);
	else
		CCV(ccv, snd_cwnd) = newreno_cc_cwnd_in_slow_start(ccv);
}

static void
steps_cong_signal(struct cc_var *ccv, ccsignal_t type)
{
	uint32_t mss = tcp_fixed_maxseg(ccv->tp);
	uint32_t less = newreno_cc_cwnd_on_multiplicative_decrease(ccv, mss);
	uint32_t flight = CCV(ccv, snd_max) - CCV(ccv, snd_fack) + CCV(ccv, sackhint.sack_bytes_rexmit);

	switch (type) {
	case CC_NDUPACK:
		if (!IN_RECOVERY(CCV(ccv, t_flags)))
			CCV(ccv, snd_ssthresh) = less;
		ENTER_RECOVERY(CCV(ccv, t_flags));
		break;
	case CC_RTO:
		if (CCV(ccv, t_rxtshift) == 1)
			CCV(ccv, snd_ssthresh) = max(2, min(CCV(ccv, snd_wnd), flight) / 2 / mss) * mss;
		CCV(ccv, snd_cwnd) = mss;
		break;
	default:
		break;
	}
}

static struct cc_algo steps_cc_algo = {
	.name = "steps",
	.ack_received = steps_ack_received,
	.cong_signal = steps_cong_signal,
	.post_recovery = newreno_cc_post_recovery,
	.after_idle = newreno_cc_after_idle,
};

DECLARE_CC_MODULE(steps, &steps_cc_algo);
