/* An AIMD for Linux's hooks, with all of them, a knob and statics of its own. */
#include <linux/module.h>
#include <linux/inet_diag.h>
#include <net/tcp.h>

static int beta __read_mostly = 512;
module_param(beta, int, 0644);
MODULE_PARM_DESC(beta, "what a loss leaves of the window, in 1/1024");

static unsigned int opened;

struct every {
	u32 hooks;
	u32 samples;
	bool holds;
};

static void every_init(struct sock *sk)
{
	struct every *ca = inet_csk_ca(sk);

	/* Statics are the host's own: as many as its connections. */
	BUG_ON(++opened > 4);
	ca->holds = true;
}

static void every_release(struct sock *sk)
{
	struct every *ca = inet_csk_ca(sk);

	ca->holds = false;
}

static u32 every_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * beta / 1024, 2U);
}

static void every_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct every *ca = inet_csk_ca(sk);

	BUG_ON(!ca->holds);
	tcp_reno_cong_avoid(sk, ack, acked);
}

static void every_set_state(struct sock *sk, u8 state)
{
	BUG_ON(state > TCP_CA_Loss);
}

static void every_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct every *ca = inet_csk_ca(sk);

	ca->hooks |= 1 << event;
}

static void every_in_ack_event(struct sock *sk, u32 flags)
{
	BUG_ON(!(flags & (CA_ACK_SLOWPATH | CA_ACK_WIN_UPDATE)));
}

static void every_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct every *ca = inet_csk_ca(sk);

	if (sample->rtt_us > 0)
		ca->samples++;
	BUG_ON(ca->samples == 100 && !(ca->hooks & 1 << CA_EVENT_TX_START));
}

static u32 every_undo_cwnd(struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

static u32 every_sndbuf_expand(struct sock *sk)
{
	return 2;
}

static u32 every_min_tso_segs(struct sock *sk)
{
	return 2;
}

static size_t every_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	*attr = INET_DIAG_VEGASINFO;
	info->vegas.tcpv_enabled = 1;
	return sizeof(info->vegas);
}

static struct tcp_congestion_ops every __read_mostly = {
	.init = every_init,
	.release = every_release,
	.ssthresh = every_ssthresh,
	.cong_avoid = every_cong_avoid,
	.set_state = every_set_state,
	.cwnd_event = every_cwnd_event,
	.in_ack_event = every_in_ack_event,
	.pkts_acked = every_pkts_acked,
	.undo_cwnd = every_undo_cwnd,
	.sndbuf_expand = every_sndbuf_expand,
	.min_tso_segs = every_min_tso_segs,
	.get_info = every_get_info,
	.owner = THIS_MODULE,
	.name = "every",
};

static int __init every_register(void)
{
	BUILD_BUG_ON(sizeof(struct every) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&every);
}

static void __exit every_unregister(void)
{
	tcp_unregister_congestion_control(&every);
}

module_init(every_register);
module_exit(every_unregister);
MODULE_LICENSE("Dual BSD/GPL");
