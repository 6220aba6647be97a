/* Reno for Linux 6's hooks that stops at an event which its enumeration does not have. */
#include <linux/module.h>
#include <net/tcp.h>

static void newer_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	BUG_ON(event > CA_EVENT_ECN_IS_CE);
}

static struct tcp_congestion_ops newer = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.cwnd_event = newer_cwnd_event,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = "newer",
};

static int __init newer_register(void)
{
	return tcp_register_congestion_control(&newer);
}

module_init(newer_register);
MODULE_LICENSE("Dual BSD/GPL");
