/* What a congestion control written for Linux 4.4 to 7.2 finds: the connection, its samples and hooks. */
#ifndef CWNDLAB_LINUX_4_H
#define CWNDLAB_LINUX_4_H

/* Time. 4.9's TCP counts jiffies, and has a structure for times of packets. */
#define tcp_jiffies32 ((u32)cwndlab_host.ticks)
#define TCP_TS_HZ 1000
static inline u64 ktime_get_ns(void) { return cwndlab_host.now_ns; }
static inline u64 ktime_get_real_ns(void) { return cwndlab_host.now_ns; }
#if CWNDLAB_LINUX < 41000
typedef union { s64 tv64; } ktime_t;
static inline ktime_t ktime_get(void) { return (ktime_t){ cwndlab_host.now_ns }; }
static inline ktime_t ktime_sub(ktime_t later, ktime_t earlier) { return (ktime_t){ later.tv64 - earlier.tv64 }; }
static inline s64 ktime_to_ns(ktime_t t) { return t.tv64; }
#else
typedef s64 ktime_t;
static inline ktime_t ktime_get(void) { return cwndlab_host.now_ns; }
static inline ktime_t ktime_sub(ktime_t later, ktime_t earlier) { return later - earlier; }
static inline s64 ktime_to_ns(ktime_t t) { return t; }
#endif
static inline ktime_t ktime_get_real(void) { return ktime_get(); }
static inline s64 ktime_to_us(ktime_t t) { return ktime_to_ns(t) / NSEC_PER_USEC; }
static inline s64 ktime_to_ms(ktime_t t) { return ktime_to_ns(t) / NSEC_PER_MSEC; }
static inline s64 ktime_us_delta(ktime_t later, ktime_t earlier) { return ktime_to_us(ktime_sub(later, earlier)); }
static inline s64 ktime_ms_delta(ktime_t later, ktime_t earlier) { return ktime_to_ms(ktime_sub(later, earlier)); }
#if CWNDLAB_LINUX < 41300
#define tcp_time_stamp ((u32)jiffies)
struct skb_mstamp {
	union {
		u64 v64;
		struct { u32 stamp_us, stamp_jiffies; };
	};
};
typedef struct skb_mstamp cwndlab_stamp;
static inline struct skb_mstamp cwndlab_stamp_of(u64 us)
{
	return (struct skb_mstamp){ .stamp_us = us, .stamp_jiffies = us * HZ / USEC_PER_SEC };
}
static inline void skb_mstamp_get(struct skb_mstamp *t) { *t = cwndlab_stamp_of(cwndlab_host.now_ns / NSEC_PER_USEC); }
static inline u32 skb_mstamp_us_delta(const struct skb_mstamp *later, const struct skb_mstamp *earlier)
{
	return max_t(s32, later->stamp_us - earlier->stamp_us, 0);
}
#else
typedef u64 cwndlab_stamp;
static inline u64 cwndlab_stamp_of(u64 us) { return us; }
static inline u64 tcp_clock_ns(void) { return cwndlab_host.now_ns; }
static inline u64 tcp_clock_us(void) { return cwndlab_host.now_ns / NSEC_PER_USEC; }
static inline u64 tcp_clock_ms(void) { return cwndlab_host.now_ns / NSEC_PER_MSEC; }
#endif

/* Randomness: the connection's stream. */
static inline u32 get_random_u32(void) { return cwndlab_random() >> 32; }
static inline u32 get_random_u32_below(u32 n) { return ((unsigned __int128)cwndlab_random() * n) >> 64; }
static inline u32 prandom_u32_max(u32 n) { return get_random_u32_below(n); }
static inline u32 prandom_u32(void) { return get_random_u32(); }

/* BPF's names for a module's functions, as several releases write them. */
struct btf_id_set8 { u32 count; };
struct btf_id_set { u32 count; };
#if CWNDLAB_LINUX < 60000
struct btf_kfunc_id_set { struct module *owner; struct btf_id_set *check_set; };
#define BTF_SET_START(name) static struct btf_id_set name __attribute__((unused));
#define BTF_SET_END(name)
#define BTF_ID(kind, name)
struct kfunc_btf_id_set { int unused; };
struct kfunc_btf_id_list { int unused; };
static struct kfunc_btf_id_list bpf_tcp_ca_kfunc_list __attribute__((unused));
#define DEFINE_KFUNC_BTF_ID_SET(set, name) struct kfunc_btf_id_set name __attribute__((unused))
static inline void register_kfunc_btf_id_set(struct kfunc_btf_id_list *list, struct kfunc_btf_id_set *set)
{
	(void)list;
	(void)set;
}
static inline void unregister_kfunc_btf_id_set(struct kfunc_btf_id_list *list, struct kfunc_btf_id_set *set)
{
	register_kfunc_btf_id_set(list, set);
}
#else
struct btf_kfunc_id_set { struct module *owner; struct btf_id_set8 *set; };
#endif
#define BPF_PROG_TYPE_STRUCT_OPS 0
#define BTF_KFUNC_HOOK_STRUCT_OPS 0
#define BPF_SOCK_OPS_BASE_RTT 0
#define BTF_SET8_START(name) static struct btf_id_set8 name __attribute__((unused));
#define BTF_SET8_END(name)
#define BTF_KFUNCS_START(name) BTF_SET8_START(name)
#define BTF_KFUNCS_END(name)
#define BTF_ID_FLAGS(...)
static inline int register_btf_kfunc_id_set(int type, const struct btf_kfunc_id_set *set)
{
	(void)type;
	(void)set;
	return 0;
}

enum inet_csk_ack_state_t { ICSK_ACK_SCHED = 1, ICSK_ACK_TIMER = 2, ICSK_ACK_NOW = 16 };

/* What is to be sent next, as far as it is known: its sequence numbers and length. */
struct sk_buff { unsigned int len; };
struct tcp_skb_cb { u32 seq, end_seq; };
struct cwndlab_skb { struct sk_buff skb; struct tcp_skb_cb cb; };
#define TCP_SKB_CB(s) (&container_of(s, struct cwndlab_skb, skb)->cb)

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_una, snd_nxt, rcv_nxt, write_seq, high_seq, snd_wnd, data_segs_out;
	u64 bytes_acked;
	u32 snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd, prior_ssthresh;
	u32 packets_out, sacked_out, lost_out, retrans_out, max_packets_out, reordering, prior_in_flight;
	bool is_cwnd_limited;
	u32 mss_cache, advmss;
	u32 srtt_us;		/* times 8 */
	u64 tcp_clock_cache, tcp_wstamp_ns;
	cwndlab_stamp tcp_mstamp;
	u32 delivered, delivered_ce, lost, app_limited;
	cwndlab_stamp delivered_mstamp, first_tx_mstamp;
	u32 lsndtime;
	u8 ecn_flags;
	struct tcp_options_received rx_opt;
	u32 tcp_header_len;
	u32 cwndlab_min_rtt_us;
	bool cwndlab_cwr;
	bool cwndlab_sent_ack, cwndlab_sent_echo;
	u32 cwndlab_sent_nxt;
	struct cwndlab_skb cwndlab_head;
};

#define INET_ECN_xmit(s) ((void)(s))
#define INET_ECN_dontxmit(s) ((void)(s))
#define NET_INC_STATS(net, item) ((void)(net))
#define NET_ADD_STATS(net, item, n) ((void)(net))
#if CWNDLAB_LINUX < 40700
#define NET_INC_STATS_BH(net, item) NET_INC_STATS(net, item)
#define NET_ADD_STATS_BH(net, item, n) NET_ADD_STATS(net, item, n)
#endif
#define tcp_call_bpf(s, op, n, args) ((void)(s), -1)
static inline void cwndlab_send_ack(struct sock *sk, u32 nxt)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->cwndlab_sent_ack = true;
	tp->cwndlab_sent_nxt = nxt;
	tp->cwndlab_sent_echo = tp->ecn_flags & TCP_ECN_DEMAND_CWR;
}
#define tcp_send_ack(s) cwndlab_send_ack(s, tcp_sk(s)->rcv_nxt)
/* With flags in newer releases. */
#define __tcp_send_ack(s, nxt, ...) cwndlab_send_ack(s, nxt)
#if CWNDLAB_LINUX >= 61800
static inline bool tcp_ecn_mode_rfc3168(const struct tcp_sock *tp) { return tp->ecn_flags & TCP_ECN_OK; }
static inline bool tcp_ecn_mode_accecn(const struct tcp_sock *tp) { (void)tp; return false; }
static inline bool tcp_ecn_mode_any(const struct tcp_sock *tp) { return tcp_ecn_mode_rfc3168(tp); }
static inline bool tcp_ecn_disabled(const struct tcp_sock *tp) { return !tcp_ecn_mode_any(tp); }
#endif

/* Congestion control (include/net/tcp.h; Documentation/networking says what it is for). */
#define GSO_LEGACY_MAX_SIZE 65536u
#if CWNDLAB_LINUX < 51900
#define GSO_MAX_SIZE GSO_LEGACY_MAX_SIZE
#else
#define GSO_MAX_SIZE (8 * 65535u)
#endif
#define GSO_MAX_SEGS 65535u
#define TCP_CONG_NEEDS_ECN 2

enum tcp_ca_event {
	CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_LOSS, CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
#if CWNDLAB_LINUX < 41900
	CA_EVENT_DELAYED_ACK, CA_EVENT_NON_DELAYED_ACK,		/* nobody tells of these */
#endif
};
enum tcp_ca_ack_event_flags { CA_ACK_SLOWPATH = 1, CA_ACK_WIN_UPDATE = 2, CA_ACK_ECE = 4 };

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};
struct rate_sample {
	cwndlab_stamp prior_mstamp;
	u32 prior_delivered, prior_delivered_ce;
	s32 delivered, delivered_ce;
	long interval_us;
	u32 snd_interval_us, rcv_interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked, prior_in_flight, last_end_seq;
	bool is_app_limited, is_retrans, is_ack_delayed;
};

struct tcp_dctcp_info { u16 dctcp_enabled, dctcp_ce_state; u32 dctcp_alpha, dctcp_ab_ecn, dctcp_ab_tot; };
struct tcp_bbr_info { u32 bbr_bw_lo, bbr_bw_hi, bbr_min_rtt, bbr_pacing_gain, bbr_cwnd_gain; };
union tcp_cc_info {
	struct tcpvegas_info vegas;
	struct tcp_dctcp_info dctcp;
	struct tcp_bbr_info bbr;
};
enum { INET_DIAG_DCTCPINFO = 9, INET_DIAG_BBRINFO = 16 };

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
#if CWNDLAB_LINUX >= 70000
	void (*cwnd_event_tx_start)(struct sock *sk);		/* in place of CA_EVENT_TX_START */
#endif
	void (*in_ack_event)(struct sock *sk, u32 flags);
#if CWNDLAB_LINUX < 40700
	void (*pkts_acked)(struct sock *sk, u32 num_acked, s32 rtt_us);
#else
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
#endif
#if CWNDLAB_LINUX < 50000
	u32 (*tso_segs_goal)(struct sock *sk);			/* before 4.17, in place of min_tso_segs */
#endif
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*tso_segs)(struct sock *sk, unsigned int mss);	/* of Google's kernels, likewise */
#if CWNDLAB_LINUX >= 61000
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
#else
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
#endif
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
	struct module *owner;
	u32 key, flags;
};

u32 tcp_slow_start(struct tcp_sock *tp, u32 acked);
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked);
#if CWNDLAB_LINUX >= 41000
u32 tcp_reno_undo_cwnd(struct sock *sk);
#endif
void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
void tcp_enter_cwr(struct sock *sk);
bool tcp_is_cwnd_limited(const struct sock *sk);

static inline struct sk_buff *tcp_send_head(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->cwndlab_head.skb.len ? (struct sk_buff *)&tp->cwndlab_head.skb : NULL;
}
static inline u32 tcp_wnd_end(const struct tcp_sock *tp) { return tp->snd_una + tp->snd_wnd; }
static inline int tcp_mss_to_mtu(struct sock *sk, int mss) { return mss + tcp_sk(sk)->tcp_header_len + 20; }
static inline u32 tcp_init_cwnd(const struct tcp_sock *tp, const struct dst_entry *dst)
{
	(void)tp;
	(void)dst;
	return TCP_INIT_CWND;
}
static inline bool tcp_needs_internal_pacing(const struct sock *sk) { return sk->sk_pacing_status == SK_PACING_NEEDED; }
static inline u32 tcp_tso_autosize(const struct sock *sk, unsigned int mss, int least)
{
	u32 bytes = min_t(u64, sk->sk_pacing_rate >> sk->sk_pacing_shift, sk->sk_gso_max_size - 1 - MAX_TCP_HEADER);

	return max_t(u32, bytes / mss, least);
}
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp) { return tp->snd_cwnd; }
static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 packets) { tp->snd_cwnd = packets; }
static inline bool tcp_in_slow_start(const struct tcp_sock *tp) { return tp->snd_cwnd < tp->snd_ssthresh; }
static inline u32 tcp_min_rtt(const struct tcp_sock *tp) { return tp->cwndlab_min_rtt_us; }
static inline u32 tcp_max_tso_deferred_mss(const struct tcp_sock *tp) { (void)tp; return 3; }
#if CWNDLAB_LINUX >= 41300
static inline u32 tcp_stamp_us_delta(u64 later, u64 earlier) { return max_t(s64, later - earlier, 0); }
static inline u32 tcp_time_stamp(const struct tcp_sock *tp) { return tp->tcp_mstamp / USEC_PER_MSEC; }
static inline u32 tcp_time_stamp_ms(const struct tcp_sock *tp) { return tcp_time_stamp(tp); }
static inline u32 tcp_time_stamp_ts(const struct tcp_sock *tp) { return tcp_time_stamp(tp); }
static inline u32 tcp_time_stamp_raw(void) { return tcp_clock_us() / USEC_PER_MSEC; }
#endif

/* Windowed minimum and maximum (linux/win_minmax.h). */
struct minmax_sample { u32 t, v; };
struct minmax { struct minmax_sample s[3]; };
static inline u32 minmax_get(const struct minmax *m) { return m->s[0].v; }
u32 minmax_reset(struct minmax *m, u32 t, u32 value);
u32 minmax_running_max(struct minmax *m, u32 window, u32 t, u32 value);
u32 minmax_running_min(struct minmax *m, u32 window, u32 t, u32 value);

/* Protective load balancing: there is one path. */
#define TCP_PLB_SCALE 8
struct tcp_plb_state { u8 consec_cong_rounds; };
static inline void tcp_plb_init(const struct sock *sk, struct tcp_plb_state *plb) { (void)sk; (void)plb; }
static inline void tcp_plb_update_state(const struct sock *sk, struct tcp_plb_state *plb, int ratio)
{
	(void)sk;
	(void)plb;
	(void)ratio;
}
static inline void tcp_plb_check_rehash(struct sock *sk, struct tcp_plb_state *plb) { (void)sk; (void)plb; }
static inline void tcp_plb_update_state_upon_rto(struct sock *sk, struct tcp_plb_state *plb) { (void)sk; (void)plb; }

#endif
