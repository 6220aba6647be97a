/* Linux's side of a compiled module: the kernel's functions, and the engine's calls of struct tcp_congestion_ops. */
#include <stdio.h>
#include <stdlib.h>

#include "cwndlab_linux.h"

/* The first that was registered is the module's. */
static struct tcp_congestion_ops *registered;

extern int (*__start_cwndlab_inits[])(void) __attribute__((weak, visibility("hidden")));
extern int (*__stop_cwndlab_inits[])(void) __attribute__((weak, visibility("hidden")));
extern void (*__start_cwndlab_exits[])(void) __attribute__((weak, visibility("hidden")));
extern void (*__stop_cwndlab_exits[])(void) __attribute__((weak, visibility("hidden")));

int tcp_register_congestion_control(struct tcp_congestion_ops *ops)
{
	if (!ops->ssthresh || !ops->undo_cwnd || !(ops->cong_avoid || ops->cong_control))
		return -EINVAL;
	if (!registered)
		registered = ops;
	return 0;
}

void tcp_unregister_congestion_control(struct tcp_congestion_ops *ops)
{
	if (registered == ops)
		registered = NULL;
}

/* Growth (RFC 5681, counted in packets). */

bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->is_cwnd_limited || (tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out);
}

u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);
	u32 left = acked - (cwnd - tp->snd_cwnd);

	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return left;
}

void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	/* Credit that a larger w left. */
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		u32 more = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= more * w;
		tp->snd_cwnd += more;
	}
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2u);
}

u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

struct tcp_congestion_ops tcp_reno = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "reno",
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

u32 tcp_current_ssthresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_cwnd_reduction(sk))
		return tp->snd_ssthresh;
	return max(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

/* The engine reduces when the hook has returned. */
void tcp_enter_cwr(struct sock *sk)
{
	tcp_sk(sk)->cwndlab_cwr = true;
}

/* The best three of a window, after Kathleen Nichols. `sign` turns a maximum into a minimum. */

u32 minmax_reset(struct minmax *m, u32 t, u32 value)
{
	m->s[0] = m->s[1] = m->s[2] = (struct minmax_sample){ t, value };
	return value;
}

static u32 minmax_update(struct minmax *m, u32 window, u32 t, u32 value, bool largest)
{
	struct minmax_sample sample = { t, value };
	u32 age;

#define BETTER(at) (largest ? value >= m->s[at].v : value <= m->s[at].v)
	if (BETTER(0) || t - m->s[2].t > window)
		return minmax_reset(m, t, value);
	if (BETTER(1))
		m->s[1] = m->s[2] = sample;
	else if (BETTER(2))
		m->s[2] = sample;
#undef BETTER
	age = t - m->s[0].t;
	if (age > window) {
		/* The best has grown old: the next one follows, and perhaps the one behind it. */
		m->s[0] = m->s[1];
		m->s[1] = m->s[2];
		m->s[2] = sample;
		if (t - m->s[0].t > window) {
			m->s[0] = m->s[1];
			m->s[1] = m->s[2];
			m->s[2] = sample;
		}
	} else if (m->s[1].t == m->s[0].t && age > window / 4) {
		m->s[1] = m->s[2] = sample;
	} else if (m->s[2].t == m->s[1].t && age > window / 2) {
		m->s[2] = sample;
	}
	return m->s[0].v;
}

u32 minmax_running_max(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_update(m, window, t, value, true);
}

u32 minmax_running_min(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_update(m, window, t, value, false);
}

/* The rest of the library. */

u32 int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit = 1UL << (sizeof(x) * 8 - 2);

	for (; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root += 2 * bit;
		}
		root >>= 1;
	}
	return root;
}

void get_random_bytes(void *where, size_t size)
{
	unsigned char *byte = where;

	while (size--)
		*byte++ = cwndlab_random() >> 56;
}

int kstrtouint(const char *text, unsigned int base, unsigned int *value)
{
	char *end;
	unsigned long read = strtoul(text, &end, base);

	if (end == text || *end)
		return -EINVAL;
	if (read > UINT_MAX)
		return -ERANGE;
	*value = read;
	return 0;
}

int kstrtoint(const char *text, unsigned int base, int *value)
{
	char *end;
	long read = strtol(text, &end, base);

	if (end == text || *end)
		return -EINVAL;
	if (read > INT_MAX || read < INT_MIN)
		return -ERANGE;
	*value = read;
	return 0;
}

int param_set_int(const char *text, const struct kernel_param *param)
{
	return kstrtoint(text, 0, param->arg);
}

int param_set_uint(const char *text, const struct kernel_param *param)
{
	return kstrtouint(text, 0, param->arg);
}

int param_set_uint_minmax(const char *text, const struct kernel_param *param, unsigned int low, unsigned int high)
{
	unsigned int value;
	int wrong = kstrtouint(text, 0, &value);

	if (wrong)
		return wrong;
	if (value < low || value > high)
		return -EINVAL;
	*(unsigned int *)param->arg = value;
	return 0;
}

int param_get_int(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%d\n", *(int *)param->arg);
}

int param_get_uint(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%u\n", *(unsigned int *)param->arg);
}

int cwndlab_set_param(struct cwndlab_variable *variable, int64_t value)
{
	const struct kernel_param_ops *operations = variable->own;
	struct kernel_param param = { variable->name, variable->where };
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	return operations->set(text, &param);
}

/* Calls of the engine. */

struct call {
	struct tcp_sock *tp;
	const struct cwndlab_linux *x;
	uint32_t hook;
	const int64_t *arguments;
	int64_t value;
};

static void fill(struct tcp_sock *tp, const struct cwndlab_linux *x)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;

	cwndlab_host = x->host;
	icsk->sk.sk_state = TCP_ESTABLISHED;
	icsk->sk.sk_pacing_status = x->pacing ? SK_PACING_NEEDED : SK_PACING_NONE;
	icsk->sk.sk_pacing_rate = x->pacing_rate;
	icsk->sk.sk_max_pacing_rate = ~0UL;
	icsk->sk.sk_pacing_shift = 10;
	icsk->sk.sk_gso_max_size = x->gso_max_size;
	icsk->sk.sk_gso_max_segs = x->gso_max_segs;
	icsk->icsk_ca_state = x->ca_state;
	tp->snd_una = x->una;
	tp->snd_nxt = tp->write_seq = x->nxt;
	tp->rcv_nxt = x->rcv_nxt;
	tp->snd_cwnd = x->cwnd;
	tp->snd_cwnd_cnt = x->cwnd_cnt;
	tp->snd_ssthresh = x->ssthresh;
	tp->prior_cwnd = x->prior_cwnd;
	tp->packets_out = x->packets_out;
	tp->sacked_out = x->sacked_out;
	tp->lost_out = x->lost_out;
	tp->retrans_out = x->retrans_out;
	tp->max_packets_out = x->max_packets_out;
	tp->is_cwnd_limited = x->cwnd_limited;
	tp->mss_cache = x->mss;
	tp->srtt_us = x->srtt8_us;
	tp->tcp_clock_cache = x->host.now_ns;
	tp->tcp_mstamp = x->host.now_ns / NSEC_PER_USEC;
	tp->tcp_wstamp_ns = x->departure_ns;
	tp->delivered = x->delivered;
	tp->delivered_ce = x->delivered_ce;
	tp->delivered_mstamp = x->delivered_mstamp;
	tp->first_tx_mstamp = x->first_tx_mstamp;
	tp->lost = x->lost;
	tp->app_limited = x->app_limited;
	tp->lsndtime = x->last_sent_jiffies;
	tp->ecn_flags = x->ecn ? TCP_ECN_OK : 0;
	tp->cwndlab_min_rtt_us = x->min_rtt_us;
	tp->cwndlab_cwr = false;
}

static void read_back(const struct tcp_sock *tp, struct cwndlab_linux *x)
{
	x->host.random = cwndlab_host.random;
	x->pacing = tp->inet_conn.sk.sk_pacing_status != SK_PACING_NONE;
	x->pacing_rate = tp->inet_conn.sk.sk_pacing_rate;
	x->cwnd = tp->snd_cwnd;
	x->cwnd_cnt = tp->snd_cwnd_cnt;
	x->ssthresh = tp->snd_ssthresh;
	x->app_limited = tp->app_limited;
	x->cwr_requested = tp->cwndlab_cwr;
}

static void tell_sample(struct sock *sk, const struct tcp_congestion_ops *ops, const struct cwndlab_linux *x,
			const int64_t *arguments)
{
	struct rate_sample rs = {
		.prior_mstamp = x->prior_mstamp,
		.prior_delivered = x->prior_delivered,
		.delivered = x->sample_delivered,
		.interval_us = x->interval_us,
		.rtt_us = x->rtt_us,
		.losses = x->losses,
		.acked_sacked = x->acked_sacked,
		.prior_in_flight = x->prior_in_flight,
		.is_app_limited = x->is_app_limited,
		.is_retrans = x->is_retrans,
		.is_ack_delayed = x->is_ack_delayed,
	};

#if CWNDLAB_LINUX >= 61000
	ops->cong_control(sk, arguments[0], arguments[1], &rs);
#else
	(void)arguments;
	ops->cong_control(sk, &rs);
#endif
}

static void carry_out(void *argument)
{
	struct call *call = argument;
	struct sock *sk = &call->tp->inet_conn.sk;
	const struct tcp_congestion_ops *ops = call->tp->inet_conn.icsk_ca_ops;
	const struct cwndlab_linux *x = call->x;
	const int64_t *a = call->arguments;
	struct ack_sample sample = { x->acked, x->rtt_us, x->in_flight };
	union tcp_cc_info info = { { 0, 0, 0, 0 } };
	int kind = 0;

	switch (call->hook) {
	case CWNDLAB_INIT:
		if (ops->init)
			ops->init(sk);
		break;
	case CWNDLAB_RELEASE:
		if (ops->release)
			ops->release(sk);
		break;
	case CWNDLAB_SSTHRESH:
		call->value = ops->ssthresh(sk);
		break;
	case CWNDLAB_CONG_AVOID:
		if (ops->cong_avoid)
			ops->cong_avoid(sk, a[0], a[1]);
		break;
	case CWNDLAB_CONG_CONTROL:
		tell_sample(sk, ops, x, a);
		break;
	case CWNDLAB_SET_STATE:
		ops->set_state(sk, a[0]);
		break;
	case CWNDLAB_CWND_EVENT:
		ops->cwnd_event(sk, a[0]);
		break;
	case CWNDLAB_IN_ACK_EVENT:
		ops->in_ack_event(sk, a[0]);
		break;
	case CWNDLAB_PKTS_ACKED:
		ops->pkts_acked(sk, &sample);
		break;
	case CWNDLAB_UNDO_CWND:
		call->value = ops->undo_cwnd(sk);
		break;
	case CWNDLAB_SNDBUF_EXPAND:
		call->value = ops->sndbuf_expand(sk);
		break;
	case CWNDLAB_MIN_TSO_SEGS:
		call->value = ops->min_tso_segs(sk);
		break;
	case CWNDLAB_GET_INFO:
		ops->get_info(sk, ~0u, &kind, &info);
		break;
	}
}

static int call(void *connection, void *exchange, uint32_t hook, const int64_t *arguments, int64_t *value)
{
	struct tcp_sock *tp = connection;
	struct call it = { tp, exchange, hook, arguments, 0 };
	int how;

	if (hook == CWNDLAB_INIT) {
		tp->inet_conn.icsk_ca_ops = registered;
		tp->snd_cwnd_clamp = ~0u;
	}
	fill(tp, exchange);
	how = cwndlab_guarded(carry_out, &it);
	read_back(tp, exchange);
	*value = it.value;
	return how;
}

static uint64_t size(void)
{
	return sizeof(struct tcp_sock);
}

static uint32_t hooks(void *connection)
{
	const struct tcp_congestion_ops *ops = registered;

	if (connection && inet_csk(connection)->icsk_ca_ops)
		ops = inet_csk(connection)->icsk_ca_ops;
#define HAS(field, hook) ((uint32_t)!!ops->field << (hook))
	return HAS(init, CWNDLAB_INIT) | HAS(release, CWNDLAB_RELEASE) | HAS(ssthresh, CWNDLAB_SSTHRESH) |
	       HAS(cong_avoid, CWNDLAB_CONG_AVOID) | HAS(cong_control, CWNDLAB_CONG_CONTROL) |
	       HAS(set_state, CWNDLAB_SET_STATE) | HAS(cwnd_event, CWNDLAB_CWND_EVENT) |
	       HAS(in_ack_event, CWNDLAB_IN_ACK_EVENT) | HAS(pkts_acked, CWNDLAB_PKTS_ACKED) |
	       HAS(undo_cwnd, CWNDLAB_UNDO_CWND) | HAS(sndbuf_expand, CWNDLAB_SNDBUF_EXPAND) |
	       HAS(min_tso_segs, CWNDLAB_MIN_TSO_SEGS) | HAS(get_info, CWNDLAB_GET_INFO) |
	       (uint32_t)!!(ops->flags & TCP_CONG_NEEDS_ECN) << 31;
#undef HAS
}

static void run_inits(void *argument)
{
	int (**init)(void);

	for (init = __start_cwndlab_inits; init < __stop_cwndlab_inits; init++)
		if ((*init)() != 0)
			*(int *)argument = 1;
}

static void run_exits(void *unused)
{
	void (**end)(void);

	(void)unused;
	for (end = __start_cwndlab_exits; end < __stop_cwndlab_exits; end++)
		(*end)();
}

static int start(const struct cwndlab_host *host)
{
	int refused = 0, how;

	cwndlab_host = *host;
	how = cwndlab_guarded(run_inits, &refused);
	return how ? how : refused || !registered ? CWNDLAB_REFUSED : CWNDLAB_DONE;
}

static int stop(void)
{
	return cwndlab_guarded(run_exits, NULL);
}

__attribute__((visibility("default"))) const struct cwndlab_module *cwndlab_module(void)
{
	static const struct cwndlab_module module = {
		CWNDLAB_ABI, sizeof(struct cwndlab_linux), "linux", cwndlab_attach, cwndlab_reset, cwndlab_knob,
		cwndlab_set_knob, start, stop, size, hooks, call, cwndlab_complaint,
	};

	return &module;
}
