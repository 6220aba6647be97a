/* What the modules of FreeBSD's main ask of the kernel since 15: smoothed round trips by unit, what is in flight when congestion is told,
   private signals by name, prng32. */
#include <sys/param.h>
#include <sys/kernel.h>
#include <sys/malloc.h>
#include <sys/module.h>
#include <sys/prng.h>
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <sys/systm.h>

#include <net/vnet.h>

#include <netinet/in_pcb.h>
#include <netinet/tcp.h>
#include <netinet/tcp_var.h>
#include <netinet/cc/cc.h>
#include <netinet/cc/cc_module.h>

/* The connection's own guess that the path is full. */
#define CC_NEWER_GUESS CC_PRIVATE2

static void
newer_cong_signal(struct cc_var *ccv, ccsignal_t type)
{
	uint32_t mss = tcp_fixed_maxseg(ccv->tp), sent = CCV(ccv, snd_max) - CCV(ccv, snd_una);
	uint32_t flight = tcp_compute_pipe(ccv->tp);

	switch ((int)type) {
	case CC_NEWER_GUESS:
		CCV(ccv, snd_ssthresh) = max(CCV(ccv, snd_cwnd) / 4 * 3, 2 * mss);
		CCV(ccv, snd_cwnd) = CCV(ccv, snd_ssthresh);
		CCV(ccv, snd_recover) = CCV(ccv, snd_max);
		ENTER_CONGRECOVERY(CCV(ccv, t_flags));
		break;
	case CC_NDUPACK:
	case CC_ECN:
		/* The stack tells of every echo. */
		if (type == CC_ECN && IN_CONGRECOVERY(CCV(ccv, t_flags)))
			break;
		if (flight == 0 || flight > sent + CCV(ccv, snd_cwnd) || flight < sent / 4)
			panic("what is in flight is not known");
		CCV(ccv, snd_ssthresh) = max(flight / 2, 2 * mss);
		if (type == CC_ECN) {
			CCV(ccv, snd_cwnd) = CCV(ccv, snd_ssthresh);
			ENTER_CONGRECOVERY(CCV(ccv, t_flags));
		} else
			ENTER_RECOVERY(CCV(ccv, t_flags));
		break;
	default:
		newreno_cc_cong_signal(ccv, type);
		break;
	}
}

static void
newer_ack_received(struct cc_var *ccv, ccsignal_t type)
{
	uint32_t micros = tcp_get_srtt(ccv->tp, TCP_TMR_GRANULARITY_USEC);
	uint32_t whole = tcp_get_srtt(ccv->tp, TCP_TMR_GRANULARITY_TICKS);

	if (CCV(ccv, t_rttupdated) > 0 && (micros < whole * tick || micros >= (whole + 1) * tick || micros < 20000))
		panic("a round trip in other units");
	if (type == CC_ACK && !IN_RECOVERY(CCV(ccv, t_flags)) && prng32() < UINT32_MAX / 1000)
		newer_cong_signal(ccv, CC_NEWER_GUESS);
	else
		newreno_cc_ack_received(ccv, type);
}

static size_t
newer_data_sz(void)
{
	return (0);
}

static struct cc_algo newer_cc_algo = {
	.name = "newer",
	.cc_data_sz = newer_data_sz,
	.ack_received = newer_ack_received,
	.cong_signal = newer_cong_signal,
	.after_idle = newreno_cc_after_idle,
	.post_recovery = newreno_cc_post_recovery,
};

DECLARE_CC_MODULE(newer, &newer_cc_algo);
MODULE_VERSION(newer, 1);
