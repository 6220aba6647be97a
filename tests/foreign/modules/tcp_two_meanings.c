/* What Linux 3.9 and today's kernels both compile: the last argument was what is in flight, and is what was acknowledged. */
#include <linux/module.h>
#include <net/tcp.h>

static u32 two_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2U);
}

static void two_cong_avoid(struct sock *sk, u32 ack, u32 number)
{
	if (number >= tcp_sk(sk)->snd_cwnd)
		tcp_sk(sk)->snd_cwnd++;
}

static struct tcp_congestion_ops two = {
	.ssthresh = two_ssthresh,
	.cong_avoid = two_cong_avoid,
	.name = "two",
};

static int __init two_register(void)
{
	return tcp_register_congestion_control(&two);
}

module_init(two_register);
MODULE_LICENSE("Dual BSD/GPL");
