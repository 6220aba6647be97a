/* Reno that fails in the way its knob says, once the window is 20 packets. */
#include <linux/module.h>
#include <net/tcp.h>
#include <signal.h>

static unsigned int how;
module_param(how, uint, 0644);

static volatile int zero;
static volatile unsigned int turns;

static int deeper(int depth)
{
	volatile char room[4096];

	room[0] = depth;
	return deeper(depth + 1) + room[0];
}

static void fails_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (tcp_snd_cwnd(tp) < 20)
		return;
	switch (how) {
	case 1:
		*(volatile int *)(long)zero = 1;
		break;
	case 2:
		for (;;)
			turns++;
	case 3:
		tcp_snd_cwnd_set(tp, 0);
		break;
	case 4:
		tcp_snd_cwnd_set(tp, 1U << 31);
		break;
	case 5:
		zero = how / zero;
		break;
	case 6:
		zero = deeper(0);
		break;
	case 7:
		BUG_ON(how == 7);
		break;
	case 8:
		raise(SIGKILL);
		break;
	}
}

static u32 fails_ssthresh(struct sock *sk)
{
	return how == 9 ? 0 : tcp_reno_ssthresh(sk);
}

static struct tcp_congestion_ops fails = {
	.ssthresh = fails_ssthresh,
	.cong_avoid = fails_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = "fails",
};

static int __init fails_register(void)
{
	return how == 10 ? -EINVAL : tcp_register_congestion_control(&fails);
}

module_init(fails_register);
MODULE_LICENSE("Dual BSD/GPL");
