/* Linux's side of a compiled module, as all releases have it: the kernel's library, and the engine's calls. */
#include <stdio.h>
#include <stdlib.h>

#include "calls.h"

int cwndlab_hz;

/* The first that was registered is the module's. */
static struct tcp_congestion_ops *registered;

extern int (*__start_cwndlab_inits[])(void) __attribute__((weak, visibility("hidden")));
extern int (*__stop_cwndlab_inits[])(void) __attribute__((weak, visibility("hidden")));
extern void (*__start_cwndlab_exits[])(void) __attribute__((weak, visibility("hidden")));
extern void (*__stop_cwndlab_exits[])(void) __attribute__((weak, visibility("hidden")));

int tcp_register_congestion_control(struct tcp_congestion_ops *ops)
{
	if (!cwndlab_complete(ops))
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

EXPORTED u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2u);
}

EXPORTED u32 tcp_current_ssthresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_cwnd_reduction(sk))
		return tp->snd_ssthresh;
	return max(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

static int set_option(struct sock *sk, int level, int option, sockptr_t value, unsigned int size)
{
	(void)sk;
	(void)level;
	(void)option;
	(void)value;
	(void)size;
	return -ENOPROTOOPT;
}

struct net cwndlab_net;
struct proto tcp_prot = { .name = "TCP", .setsockopt = set_option };
struct proto tcpv6_prot = { .name = "TCPv6", .setsockopt = set_option };

/* The library. */

EXPORTED u32 int_sqrt(unsigned long x)
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

EXPORTED void get_random_bytes(void *where, size_t size)
{
	unsigned char *byte = where;

	while (size--)
		*byte++ = cwndlab_random() >> 56;
}

EXPORTED int kstrtouint(const char *text, unsigned int base, unsigned int *value)
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

EXPORTED int kstrtoint(const char *text, unsigned int base, int *value)
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

EXPORTED int param_set_int(const char *text, const struct kernel_param *param)
{
	return kstrtoint(text, 0, param->arg);
}

EXPORTED int param_set_uint(const char *text, const struct kernel_param *param)
{
	return kstrtouint(text, 0, param->arg);
}

EXPORTED int param_set_uint_minmax(const char *text, const struct kernel_param *param, unsigned int low, unsigned int high)
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

EXPORTED int param_get_int(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%d\n", *(int *)param->arg);
}

EXPORTED int param_get_uint(char *text, const struct kernel_param *param)
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

static void fill(struct tcp_sock *tp, const struct cwndlab_linux *x)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;

	cwndlab_host = x->host;
	cwndlab_hz = x->host.hz;
	cwndlab_net.ipv4.sysctl_tcp_min_tso_segs = x->min_tso_segs;
	cwndlab_net.ipv4.sysctl_tcp_slow_start_after_idle = x->slow_start_after_idle;
	if (icsk->sk.sk_state)
		tp->bytes_acked += (u32)(x->una - tp->snd_una);
	icsk->sk.sk_state = TCP_ESTABLISHED;
	icsk->sk.sk_family = AF_INET;
	icsk->sk.sk_pacing_status = x->pacing ? SK_PACING_NEEDED : SK_PACING_NONE;
	icsk->sk.sk_max_pacing_rate = -1;
	icsk->sk.sk_pacing_rate = min_t(u64, x->pacing_rate, icsk->sk.sk_max_pacing_rate);
	icsk->sk.sk_pacing_shift = 10;
	icsk->sk.sk_gso_max_size = x->gso_max_size;
	icsk->sk.sk_gso_max_segs = x->gso_max_segs;
	icsk->sk.cwndlab_gso = x->gso;
	icsk->icsk_ca_state = x->ca_state;
	icsk->icsk_ack.rcv_mss = x->mss;
	icsk->icsk_rto = x->rto_jiffies;
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
	tp->mss_cache = x->mss;
	tp->lsndtime = x->last_sent_jiffies;
	tp->ecn_flags = x->ecn ? TCP_ECN_OK : 0;
	tp->snd_wnd = x->snd_wnd;
	tp->data_segs_out = x->data_segs_out;
	tp->rx_opt.saw_tstamp = tp->rx_opt.tstamp_ok = x->stamped;
	tp->rx_opt.rcv_tsval = x->rcv_tsval;
	tp->rx_opt.rcv_tsecr = x->rcv_tsecr;
	cwndlab_fill_own(tp, x);
}

static void read_back(const struct tcp_sock *tp, struct cwndlab_linux *x)
{
	x->host.random = cwndlab_host.random;
	x->pacing = tp->inet_conn.sk.sk_pacing_status != SK_PACING_NONE;
	x->pacing_rate = tp->inet_conn.sk.sk_pacing_rate;
	x->cwnd = tp->snd_cwnd;
	x->cwnd_cnt = tp->snd_cwnd_cnt;
	x->ssthresh = tp->snd_ssthresh;
	cwndlab_read_own(tp, x);
}

static void carry_out(void *argument)
{
	struct cwndlab_call *call = argument;
	struct sock *sk = &call->tp->inet_conn.sk;
	const struct tcp_congestion_ops *ops = call->tp->inet_conn.icsk_ca_ops;

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
	case CWNDLAB_SET_STATE:
		ops->set_state(sk, call->arguments[0]);
		break;
	default:
		cwndlab_call_own(call, ops);
	}
}

static int call(void *connection, void *exchange, uint32_t hook, const int64_t *arguments, int64_t *value)
{
	struct tcp_sock *tp = connection;
	struct cwndlab_call it = { tp, exchange, hook, arguments, 0 };
	int how;

	if (hook == CWNDLAB_INIT) {
		tp->inet_conn.icsk_ca_ops = registered;
		tp->inet_conn.cwndlab_priv = cwndlab_private_block(ICSK_CA_PRIV_SIZE);
		tp->snd_cwnd_clamp = ~0u;
	}
	fill(tp, exchange);
	how = cwndlab_guarded(carry_out, &it);
	read_back(tp, exchange);
	*value = it.value;
	if (hook == CWNDLAB_RELEASE) {
		cwndlab_free(tp->inet_conn.cwndlab_priv);
		tp->inet_conn.cwndlab_priv = NULL;
	}
	return how;
}

static uint64_t size(void)
{
	return sizeof(struct tcp_sock);
}

static uint32_t hooks(void *connection)
{
	const struct tcp_congestion_ops *ops = connection ? inet_csk(connection)->icsk_ca_ops : NULL;

	return cwndlab_hooks_of(ops ? ops : registered);
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
	cwndlab_hz = host->hz;
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
