/* Reno for Linux 3.9's hooks, with all of them, which writes down each call: one line in the file that TCP_EVERY names. */
#include <stdio.h>
#include <stdlib.h>

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/inet_diag.h>
#include <net/tcp.h>

static int beta __read_mostly = 512;
module_param(beta, int, 0644);
MODULE_PARM_DESC(beta, "what a loss leaves of the window, in 1/1024");

static int stamped;
module_param(stamped, int, 0444);
MODULE_PARM_DESC(stamped, "ask for round trips in microseconds");

static unsigned int opened;

/* As large as the kernel allows. */
struct every {
	u32 holds;
	u32 filled[ICSK_CA_PRIV_SIZE / sizeof(u32) - 1];
};

#define SAID(...) do { \
	FILE *file = getenv("TCP_EVERY") ? fopen(getenv("TCP_EVERY"), "a") : NULL; \
	if (file) { \
		fprintf(file, __VA_ARGS__); \
		fclose(file); \
	} \
} while (0)

static void every_init(struct sock *sk)
{
	struct every *ca = inet_csk_ca(sk);

	SAID("init\n");
	/* Statics are the host's own: as many as its connections. */
	BUG_ON(++opened > 4);
	ca->holds = 42;
}

static void every_release(struct sock *sk)
{
	SAID("release\n");
}

static u32 every_ssthresh(struct sock *sk)
{
	SAID("ssthresh %u\n", tcp_sk(sk)->snd_cwnd);
	return max(tcp_sk(sk)->snd_cwnd * beta / 1024, 2U);
}

static u32 every_min_cwnd(const struct sock *sk)
{
	SAID("min_cwnd\n");
	return tcp_reno_min_cwnd(sk);
}

static void every_cong_avoid(struct sock *sk, u32 ack, u32 in_flight)
{
	struct every *ca = inet_csk_ca(sk);

	BUG_ON(ca->holds != 42 || ack != tcp_sk(sk)->snd_una);
	SAID("cong_avoid %d %u %u\n", inet_csk(sk)->icsk_ca_state, in_flight, tcp_packets_in_flight(tcp_sk(sk)));
	tcp_reno_cong_avoid(sk, ack, in_flight);
}

static void every_set_state(struct sock *sk, u8 state)
{
	SAID("set_state %d\n", state);
}

static void every_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	static const char *const names[] = {
		[CA_EVENT_TX_START] = "TX_START",
		[CA_EVENT_CWND_RESTART] = "CWND_RESTART",
		[CA_EVENT_COMPLETE_CWR] = "COMPLETE_CWR",
		[CA_EVENT_FRTO] = "FRTO",
		[CA_EVENT_LOSS] = "LOSS",
		[CA_EVENT_FAST_ACK] = "FAST_ACK",
		[CA_EVENT_SLOW_ACK] = "SLOW_ACK",
	};

	BUG_ON(event >= ARRAY_SIZE(names));
	SAID("cwnd_event %s\n", names[event]);
}

static u32 every_undo_cwnd(struct sock *sk)
{
	SAID("undo_cwnd\n");
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->snd_ssthresh << 1);
}

static void every_pkts_acked(struct sock *sk, u32 num_acked, s32 rtt_us)
{
	BUG_ON(tcp_time_stamp != (u32)jiffies);
	SAID("pkts_acked %u %d %u\n", num_acked, rtt_us, tcp_sk(sk)->srtt >> 3);
}

static void every_get_info(struct sock *sk, u32 ext, struct sk_buff *skb)
{
	struct tcpvegas_info info = { .tcpv_enabled = 1 };

	SAID("get_info\n");
	if (ext & (1 << (INET_DIAG_VEGASINFO - 1)))
		nla_put(skb, INET_DIAG_VEGASINFO, sizeof(info), &info);
}

static struct tcp_congestion_ops every __read_mostly = {
	.init = every_init,
	.release = every_release,
	.ssthresh = every_ssthresh,
	.min_cwnd = every_min_cwnd,
	.cong_avoid = every_cong_avoid,
	.set_state = every_set_state,
	.cwnd_event = every_cwnd_event,
	.undo_cwnd = every_undo_cwnd,
	.pkts_acked = every_pkts_acked,
	.get_info = every_get_info,
	.owner = THIS_MODULE,
	.name = "every",
};

static int __init every_register(void)
{
	BUILD_BUG_ON(sizeof(struct every) > ICSK_CA_PRIV_SIZE);
	if (stamped)
		every.flags |= TCP_CONG_RTT_STAMP;
	return tcp_register_congestion_control(&every);
}

static void __exit every_unregister(void)
{
	tcp_unregister_congestion_control(&every);
}

module_init(every_register);
module_exit(every_unregister);
MODULE_LICENSE("Dual BSD/GPL");
