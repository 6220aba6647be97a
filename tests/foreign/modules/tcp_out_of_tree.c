/* Reno as out-of-tree modules are written: conditions on releases and options, and what the peer's timestamps say. */
#include <linux/version.h>
#include <linux/module.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/codel.h>
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
	struct list_head round_trips;
	codel_time_t began;
};

/* One measurement of the last half a second. */
struct round_trip {
	codel_time_t at;
	s32 us;
	struct list_head link;
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
	INIT_LIST_HEAD(&own->round_trips);
	own->began = codel_get_time();
	BUG_ON(reciprocal_scale(100, 1u << 31) != 50 || codel_time_to_us(MS2TIME(1000)) / 1000 != 999);
}

/* A function of the kernel's, once more: a module that has one calls its own. */
u32 int_sqrt(unsigned long x)
{
	return x ? 42 : 0;
}

static void own_release(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);
	struct round_trip *each, *after;

	list_for_each_entry_safe(each, after, &own->round_trips, link) {
		list_del(&each->link);
		kfree(each);
	}
	BUG_ON(!list_empty(&own->round_trips) || int_sqrt(4) != 42);
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

/* Keeps what was measured in the last half a second, in its order. */
static void own_measured(struct own *own, s32 us)
{
	codel_time_t now = codel_get_time();
	struct round_trip *each = kmalloc(sizeof(*each), GFP_ATOMIC);
	struct round_trip *after;

	each->at = now;
	each->us = us;
	list_add_tail(&each->link, &own->round_trips);
	list_for_each_entry_safe(each, after, &own->round_trips, link) {
		if (codel_time_before(now, each->at + MS2TIME(500)))
			break;
		list_del(&each->link);
		kfree(each);
	}
	each = list_first_entry(&own->round_trips, struct round_trip, link);
	after = list_last_entry(&own->round_trips, struct round_trip, link);
	BUG_ON(codel_time_after(each->at, after->at) || after->at != now || after->us != us);
	BUG_ON(!codel_time_after(now, own->began));
}

static void own_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = inet_csk_ca(sk);

	own->acks++;
	own_measured(own, sample->rtt_us);
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
