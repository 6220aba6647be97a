/* Reno that checks what newer modules ask of a connection: its timeout, bytes acknowledged, a host's sysctl, counters. */
#include <linux/module.h>
#include <linux/time64.h>
#include <net/tcp.h>

static atomic_t connections = ATOMIC_INIT(0);

static void idle_init(struct sock *sk)
{
	BUG_ON(atomic_inc_return(&connections) != 1);
	BUG_ON(inet_csk(sk)->icsk_rto == 0 || tcp_sk(sk)->bytes_acked != 0);
}

static void idle_release(struct sock *sk)
{
	BUG_ON(!atomic_dec_and_test(&connections));
}

static void idle_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	BUG_ON(tp->bytes_acked == 0 || tp->bytes_acked % tp->mss_cache != 0);
	/* 20 ms of path and up to 30 ms of queue: the least timeout, 200 ms beyond what was measured. */
	BUG_ON(inet_csk(sk)->icsk_rto < msecs_to_jiffies(200) || inet_csk(sk)->icsk_rto > msecs_to_jiffies(400));
	BUG_ON(!sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle);
	tcp_reno_cong_avoid(sk, ack, acked);
}

static void idle_pkts_acked(struct sock *sk, u32 num_acked, s32 rtt_us)
{
	uint packets = num_acked;

	BUG_ON(packets > 100 || (rtt_us >= 0 && rtt_us < 20000));
	BUG_ON(get_seconds() == 0);
}

static struct tcp_congestion_ops idle = {
	.init = idle_init,
	.release = idle_release,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = idle_cong_avoid,
	.pkts_acked = idle_pkts_acked,
	.name = "idle",
};

static int __init idle_register(void)
{
	return tcp_register_congestion_control(&idle);
}

module_init(idle_register);
MODULE_LICENSE("Dual BSD/GPL");
