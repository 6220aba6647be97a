/* Sends at a rate of its own, as modules with cong_control do, through the hooks of every release since 4.9. */
#include <linux/version.h>
#include <linux/module.h>
#include <net/tcp.h>

static unsigned int rate = 1000000;
module_param(rate, uint, 0644);

static void paced_init(struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = 200;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(4, 13, 0)
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
#endif
	sk->sk_pacing_rate = rate;
}

static u64 stamp_us(const struct rate_sample *rs)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 13, 0)
	return rs->prior_mstamp.stamp_us;
#else
	return rs->prior_mstamp;
#endif
}

static void control(struct sock *sk, const struct rate_sample *rs)
{
	BUG_ON(rs->delivered > 0 && rs->interval_us > 0 && !stamp_us(rs));
	tcp_sk(sk)->snd_cwnd = 200;
	sk->sk_pacing_rate = min_t(u64, rate, sk->sk_max_pacing_rate);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void paced_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	control(sk, rs);
}
#else
#define paced_control control
#endif

static u32 paced_segments(struct sock *sk)
{
	return 2;
}

static u32 paced_undo(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

static u32 paced_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static struct tcp_congestion_ops paced = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = paced_init,
	.cong_control = paced_control,
#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 17, 0)
	.tso_segs_goal = paced_segments,
#else
	.min_tso_segs = paced_segments,
#endif
	.undo_cwnd = paced_undo,
	.ssthresh = paced_ssthresh,
	.name = "paced",
};

static int __init paced_register(void)
{
	return tcp_register_congestion_control(&paced);
}

module_init(paced_register);
MODULE_LICENSE("GPL");
