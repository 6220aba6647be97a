/* What a congestion control written for Linux 3.9 (2013) finds: the connection, its hooks, and what has gone since. */
#ifndef CWNDLAB_LINUX_3_9_H
#define CWNDLAB_LINUX_3_9_H

/* Time: TCP's is in jiffies, and a ktime_t is a structure. */
#define tcp_time_stamp ((u32)jiffies)
typedef union { s64 tv64; } ktime_t;
static inline ktime_t ktime_get(void) { return (ktime_t){ cwndlab_host.now_ns }; }
static inline ktime_t ktime_get_real(void) { return ktime_get(); }
static inline ktime_t ktime_sub(ktime_t later, ktime_t earlier) { return (ktime_t){ later.tv64 - earlier.tv64 }; }
static inline s64 ktime_to_ns(ktime_t t) { return t.tv64; }
static inline s64 ktime_to_us(ktime_t t) { return t.tv64 / NSEC_PER_USEC; }
static inline s64 ktime_to_ms(ktime_t t) { return t.tv64 / NSEC_PER_MSEC; }
static inline s64 ktime_us_delta(ktime_t later, ktime_t earlier) { return ktime_to_us(ktime_sub(later, earlier)); }

/* Randomness: the connection's stream. */
static inline u32 prandom_u32(void) { return cwndlab_random() >> 32; }
#define random32() prandom_u32()
#define net_random() prandom_u32()

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_una, snd_nxt, rcv_nxt, write_seq, snd_wnd, data_segs_out;
	u64 bytes_acked;
	u32 snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd;
	u32 packets_out, sacked_out, lost_out, retrans_out;
	u32 mss_cache;
	u32 srtt;		/* jiffies, times 8 */
	u32 lsndtime;
	u8 ecn_flags;
	struct tcp_options_received rx_opt;
	u32 cwndlab_tso_win_divisor, cwndlab_max_ssthresh;
};

/* Congestion control (include/net/tcp.h). */
#define TCP_CONG_RTT_STAMP 2

enum tcp_ca_event {
	CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_FRTO, CA_EVENT_LOSS, CA_EVENT_FAST_ACK,
	CA_EVENT_SLOW_ACK,
};

struct sk_buff;
struct tcp_congestion_ops {
	struct list_head list;
	unsigned long flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	u32 (*min_cwnd)(const struct sock *sk);		/* which nobody calls since 3.7 */
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 in_flight);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, u32 num_acked, s32 rtt_us);
	void (*get_info)(struct sock *sk, u32 ext, struct sk_buff *skb);
	char name[TCP_CA_NAME_MAX];
	struct module *owner;
};

void tcp_slow_start(struct tcp_sock *tp);
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w);
void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 in_flight);
u32 tcp_reno_min_cwnd(const struct sock *sk);
bool tcp_is_cwnd_limited(const struct sock *sk, u32 in_flight);
static inline bool sk_can_gso(const struct sock *sk) { return sk->cwndlab_gso; }

/* What a module tells of itself is asked for, and read by nobody. */
static inline int nla_put(struct sk_buff *skb, int kind, int size, const void *what)
{
	(void)skb;
	(void)kind;
	(void)size;
	(void)what;
	return 0;
}

#endif
