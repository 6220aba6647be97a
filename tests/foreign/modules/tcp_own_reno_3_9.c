/* Linux 3.9's Reno and nothing else: what the kernel's own functions do, an undo included. */
#include <linux/module.h>
#include <net/tcp.h>

static struct tcp_congestion_ops own_reno = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.min_cwnd = tcp_reno_min_cwnd,
	.name = "own_reno",
};

static int __init own_reno_register(void)
{
	return tcp_register_congestion_control(&own_reno);
}

module_init(own_reno_register);
MODULE_LICENSE("Dual BSD/GPL");
