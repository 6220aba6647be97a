/* DCTCP (RFC 8257) in few lines: its receiver tells of each mark by itself. */
#include <linux/module.h>
#include <net/tcp.h>

struct own {
	u32 alpha, delivered, delivered_ce, end, told, marked, before;
};

static void own_begin(struct sock *sk, struct own *own)
{
	own->end = tcp_sk(sk)->snd_nxt;
	own->delivered = tcp_sk(sk)->delivered;
	own->delivered_ce = tcp_sk(sk)->delivered_ce;
}

static void own_init(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	BUG_ON(!(tcp_sk(sk)->ecn_flags & TCP_ECN_OK));
	own->alpha = 1024;
	own->told = tcp_sk(sk)->rcv_nxt;
	own_begin(sk, own);
}

static void own_in_ack(struct sock *sk, u32 flags)
{
	struct own *own = inet_csk_ca(sk);
	u32 packets = tcp_sk(sk)->delivered - own->delivered, marks = tcp_sk(sk)->delivered_ce - own->delivered_ce;

	if (before(tcp_sk(sk)->snd_una, own->end))
		return;
	own->alpha -= own->alpha >> 4 ? own->alpha >> 4 : own->alpha;
	own->alpha = min(own->alpha + (marks << 6) / max(packets, 1U), 1024U);
	own_begin(sk, own);
}

static u32 own_ssthresh(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);
	u32 cwnd = own->before = tcp_sk(sk)->snd_cwnd;

	return max(cwnd - (cwnd * own->alpha >> 11), 2U);
}

static void own_lost(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	own->before = tcp_sk(sk)->snd_cwnd;
	tcp_sk(sk)->snd_ssthresh = max(own->before / 2, 2U);
}

static void own_state(struct sock *sk, u8 state)
{
	if (state == TCP_CA_Recovery && inet_csk(sk)->icsk_ca_state != state)
		own_lost(sk);
}

static void own_echo(struct sock *sk, bool marked)
{
	tcp_sk(sk)->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
	if (marked)
		tcp_sk(sk)->ecn_flags |= TCP_ECN_DEMAND_CWR;
}

static void own_event(struct sock *sk, enum tcp_ca_event event)
{
	struct own *own = inet_csk_ca(sk);
	bool marked = event == CA_EVENT_ECN_IS_CE;

	if (event == CA_EVENT_LOSS)
		own_lost(sk);
	if (!marked && event != CA_EVENT_ECN_NO_CE)
		return;
	if (marked != own->marked) {
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			own_echo(sk, own->marked);
			__tcp_send_ack(sk, own->told, 0);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	own->told = tcp_sk(sk)->rcv_nxt;
	own->marked = marked;
	own_echo(sk, marked);
}

static u32 own_undo(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	return max(tcp_sk(sk)->snd_cwnd, own->before);
}

static struct tcp_congestion_ops own = {
	.init = own_init,
	.in_ack_event = own_in_ack,
	.cwnd_event = own_event,
	.ssthresh = own_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = own_undo,
	.set_state = own_state,
	.flags = TCP_CONG_NEEDS_ECN,
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
MODULE_LICENSE("Dual BSD/GPL");
