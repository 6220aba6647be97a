/* A window of its own that grows until marks halve it; what a sample says of them has to agree with the connection. */
#include <linux/version.h>
#include <linux/module.h>
#include <net/tcp.h>

/* A sample stops the run that has so many marks; 0: none. */
static unsigned int stops;
module_param(stops, uint, 0644);

struct own {
	u32 most;
};

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
static void own_control(struct sock *sk, const struct rate_sample *rs)
#else
static void own_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
#endif
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_CWR)
		tp->snd_cwnd = tp->snd_ssthresh;
	else
		tp->snd_cwnd += rs->acked_sacked;
	if (rs->delivered < 0)
		return;
	BUG_ON(rs->delivered_ce < 0 || rs->delivered_ce > rs->delivered);
	BUG_ON(rs->prior_delivered_ce + rs->delivered_ce != tp->delivered_ce);
	BUG_ON(rs->prior_delivered_ce > rs->prior_delivered);
	own->most = max_t(u32, own->most, rs->delivered_ce);
	BUG_ON(stops && own->most >= stops);
}

static u32 own_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd / 2, 2U);
}

static struct tcp_congestion_ops own = {
	.ssthresh = own_ssthresh,
	.cong_control = own_control,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "own",
};

static int __init own_register(void)
{
	return tcp_register_congestion_control(&own);
}

static void __exit own_unregister(void)
{
	tcp_unregister_congestion_control(&own);
}

module_init(own_register);
module_exit(own_unregister);
MODULE_LICENSE("GPL");
