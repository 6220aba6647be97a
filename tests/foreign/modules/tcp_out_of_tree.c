/* Reno as out-of-tree modules are written: conditions on releases and options, and what the peer's timestamps say. */
#include <linux/version.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <net/tcp.h>

#if IS_ENABLED(CONFIG_IPV6) && LINUX_VERSION_CODE >= KERNEL_VERSION(4, 9, 0)
#include <net/transp_v6.h>
#else
#error "no IPv6"
#endif
#if IS_ENABLED(CONFIG_NOTHING_OF_THE_KIND)
#error "every option is on"
#endif

struct own {
	u32 tsval, tsecr, acks, stamped, starts;
	s64 least;
	u32 *table;
};

static unsigned int fails;
module_param(fails, uint, 0644);

static u32 clock_ms(struct sock *sk)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 13, 0)
	return jiffies_to_msecs(tcp_time_stamp);
#else
	return tcp_time_stamp_raw();
#endif
}

static void own_init(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(*own) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(BITS_PER_TYPE(u32) != 32 || GSO_MAX_SIZE < 65536);
	own->least = S64_MIN;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	own->table = kzalloc_objs(u32, 1000, GFP_NOWAIT);
#else
	own->table = vmalloc(1000 * sizeof(u32));
#endif
	BUG_ON(!own->table || sk->sk_family != AF_INET);
}

static void own_release(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	kvfree(own->table);
}

/* The first transmission; and what DCTCP asks for, as releases have it. */
static void own_starts(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	own->starts++;
	BUG_ON(inet_csk(sk)->icsk_ack.rcv_mss != tcp_sk(sk)->mss_cache);
#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 19, 0)
	tcp_send_ack(sk);
#elif LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	__tcp_send_ack(sk, tcp_sk(sk)->rcv_nxt);
#else
	__tcp_send_ack(sk, tcp_sk(sk)->rcv_nxt, 0);
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
	BUG_ON(tcp_ecn_mode_any(tcp_sk(sk)));
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
static void own_event(struct sock *sk, enum tcp_ca_event event)
{
	switch (event) {
	case CA_EVENT_TX_START:
		own_starts(sk);
		break;
#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 19, 0)
	case CA_EVENT_DELAYED_ACK:
	case CA_EVENT_NON_DELAYED_ACK:
#endif
	default:
		break;
	}
}
#endif

static void own_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = inet_csk_ca(sk);

	own->acks++;
	BUG_ON(!own->starts);
	own->stamped += tp->rx_opt.saw_tstamp;
	BUG_ON(own->acks == 500 && own->stamped < own->acks);
	/* An ACK acknowledges at least one segment and two of them at most. */
	BUG_ON(own->acks == 500 && (tp->data_segs_out < own->acks || tp->data_segs_out > 4 * own->acks));
	/* Neither clock goes back, and an echo is at most a round trip and the peer's delay old. */
	BUG_ON(before(tp->rx_opt.rcv_tsval, own->tsval) || before(tp->rx_opt.rcv_tsecr, own->tsecr));
	BUG_ON(tp->rx_opt.saw_tstamp && clock_ms((struct sock *)sk) - tp->rx_opt.rcv_tsecr > 1000);
	own->tsval = tp->rx_opt.rcv_tsval;
	own->tsecr = tp->rx_opt.rcv_tsecr;
	if (tcp_send_head(sk)) {
		const struct tcp_skb_cb *cb = TCP_SKB_CB(tcp_send_head(sk));

		BUG_ON(cb->seq != tp->snd_nxt || !after(cb->end_seq, cb->seq) || fails);
	}
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 10, 0)
static u32 own_undo(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}
#else
#define own_undo tcp_reno_undo_cwnd
#endif

static struct tcp_congestion_ops own = {
	.init = own_init,
	.release = own_release,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.pkts_acked = own_pkts_acked,
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	.cwnd_event = own_event,
#else
	.cwnd_event_tx_start = own_starts,
#endif
	.undo_cwnd = own_undo,
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
