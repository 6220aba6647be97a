/* FreeBSD's side of a compiled module: the kernel's functions, and the engine's calls of struct cc_algo. */
#include "cwndlab_freebsd.h"
#include "exchange.h"

int ticks, hz, tick;
int cwndlab_do_rfc3465, cwndlab_do_rfc3390, cwndlab_abc_l_var;
/* tcp_compute_pipe answers with what the release counts, whichever way that is. */
int cwndlab_do_rfc6675_pipe = 1;
#if CWNDLAB_FREEBSD >= 1400000
uint32_t newreno_beta = 50, newreno_beta_ecn = 80;
#elif CWNDLAB_FREEBSD >= 1200000
uint32_t cwndlab_newreno_beta = 50, cwndlab_newreno_beta_ecn = 80;
#define newreno_beta cwndlab_newreno_beta
#define newreno_beta_ecn cwndlab_newreno_beta_ecn
#endif
#if CWNDLAB_FREEBSD >= 1200000
int cc_do_abe, cc_abe_frlossreduce;
#endif
#if CWNDLAB_FREEBSD >= 1400000
uint32_t hystart_lowcwnd = 16, hystart_minrtt_thresh, hystart_maxrtt_thresh, hystart_n_rttsamples;
uint32_t hystart_css_growth_div, hystart_css_rounds, hystart_bblogs;
#endif
struct malloc_type M_CC_MEM[1], M_TEMP[1];

static const struct cwndlab_freebsd *now;

/* Time and randomness. */

void getmicrouptime(struct timeval *when)
{
	when->tv_sec = cwndlab_host.now_ns / 1000000000;
	when->tv_usec = cwndlab_host.now_ns % 1000000000 / 1000;
}

uint32_t tcp_get_usecs(struct timeval *when)
{
	if (when)
		getmicrouptime(when);
	return cwndlab_host.now_ns / 1000;
}

uint32_t tcp_ts_getticks(void)
{
	return cwndlab_host.now_ns / 1000000;
}

sbintime_t sbinuptime(void)
{
	uint64_t part = cwndlab_host.now_ns % 1000000000;

	return (sbintime_t)(cwndlab_host.now_ns / 1000000000) << 32 | (part << 32) / 1000000000;
}

u_long random(void)
{
	return (uint32_t)cwndlab_random() >> 1;
}

uint32_t arc4random(void)
{
	return cwndlab_random() >> 32;
}

/* Memory, helpers. */

uma_zone_t uma_zcreate(const char *name, size_t size, void *ctor, void *dtor, void *init, void *fini, int align, uint32_t flags)
{
	uma_zone_t zone = cwndlab_alloc(sizeof(*zone));

	if (ctor || dtor || init || fini)
		cwndlab_bug("uma_zcreate: constructors of items are not called here");
	if (zone)
		zone->size = size;
	return zone;
}

void uma_zdestroy(uma_zone_t zone)
{
	cwndlab_free(zone);
}

static bool wants_ertt;

int32_t khelp_get_id(char *name)
{
	if (strcmp(name, "ertt") != 0)
		return -1;
	wants_ertt = true;
	return 1;
}

void *khelp_get_osd(struct osd *osd, int32_t id)
{
	return id == 1 ? &osd->ertt : NULL;
}

/* The connection. */

u_int tcp_maxseg(const struct tcpcb *tp)
{
	return tp->cwndlab_mss;
}

int tcp_compute_pipe(struct tcpcb *tp)
{
	return tp->cwndlab_pipe;
}

#if CWNDLAB_FREEBSD >= 1400000
uint32_t tcp_get_srtt(struct tcpcb *tp, int granularity)
{
	uint32_t srtt = tp->t_srtt;

	return (granularity == TCP_TMR_GRANULARITY_USEC ? srtt * tick : srtt) >> TCP_RTT_SHIFT;
}
#endif

/* RFC 3390, or RFC 6928 with the host's number of segments. */
uint32_t tcp_compute_initwnd(uint32_t maxseg)
{
	uint32_t segments = now->restart_segments;

	if (segments)
		return min(segments * maxseg, max(2 * maxseg, segments * 1460));
	return min(4 * maxseg, max(2 * maxseg, 4380));
}

/* Registration. */

static struct cc_algo *registered;

int cc_register_algo(struct cc_algo *algo)
{
	/* The first is the module's. */
	if (!registered)
		registered = algo;
	return 0;
}

int cc_deregister_algo(struct cc_algo *algo)
{
	if (registered == algo)
		registered = NULL;
	return 0;
}

int cc_modevent(module_t module, int what, void *own)
{
	struct cc_algo *algo = own;
	int wrong;

	(void)module;
	switch (what) {
	case MOD_LOAD:
		wrong = algo->mod_init ? algo->mod_init() : 0;
		return wrong ? wrong : cc_register_algo(algo);
	case MOD_UNLOAD:
		wrong = cc_deregister_algo(algo);
		if (!wrong && algo->mod_destroy)
			algo->mod_destroy();
		return wrong;
	default:
		return what == MOD_SHUTDOWN || what == MOD_QUIESCE ? 0 : EINVAL;
	}
}

/* sysctl(9). */

static int exchange_number(void *where, size_t size, struct sysctl_req *req)
{
	if (req->oldptr)
		memcpy(req->oldptr, where, size);
	if (req->newptr)
		memcpy(where, req->newptr, size); /* little-endian */
	return 0;
}

#define HANDLER(name, type) \
	int name(SYSCTL_HANDLER_ARGS) \
	{ \
		type constant = arg2; \
		(void)oidp; \
		if (!arg1 && req->newptr) \
			return EPERM; \
		return exchange_number(arg1 ? arg1 : &constant, sizeof(type), req); \
	}
HANDLER(sysctl_handle_int, int)
HANDLER(sysctl_handle_long, long)
HANDLER(sysctl_handle_64, int64_t)
HANDLER(sysctl_handle_bool, uint8_t)
HANDLER(sysctl_handle_8, int8_t)
HANDLER(sysctl_handle_16, int16_t)

int cwndlab_set_sysctl(struct cwndlab_variable *variable, int64_t value)
{
	struct sysctl_oid *oid = variable->own;
	struct sysctl_req req = { NULL, &value, 0, variable->size };

	return oid->handler(oid, oid->arg1, oid->arg2, &req);
}

static void read_sysctl(void *argument)
{
	struct sysctl_oid *oid = argument;
	struct sysctl_req req = { &oid->read, NULL, oid->variable.size, 0 };

	oid->handler(oid, oid->arg1, oid->arg2, &req);
}

extern const struct cwndlab_folder *__start_cwndlab_folders[] __attribute__((weak, visibility("hidden")));
extern const struct cwndlab_folder *__stop_cwndlab_folders[] __attribute__((weak, visibility("hidden")));

/* What a folder of the tree is called: macros join its names by underscores, which names may hold too. */
static size_t tell_path(const char *folder, char *text, size_t room)
{
	const struct cwndlab_folder **known;
	size_t used, at, parent;

	for (known = __start_cwndlab_folders; known < __stop_cwndlab_folders; known++) {
		parent = strlen((*known)->parent);
		if (strncmp(folder, (*known)->parent, parent) != 0 || folder[parent] != '_' ||
		    strcmp(folder + parent + 1, (*known)->name) != 0)
			continue;
		used = tell_path((*known)->parent, text, room);
		return used + snprintf(text + used, room - used, ".%s", (*known)->name);
	}
	used = snprintf(text, room, "%s", folder + 1);
	for (at = 0; at < used; at++)
		if (text[at] == '_')
			text[at] = '.';
	return used;
}

extern struct cwndlab_variable *__start_cwndlab_knobs[] __attribute__((weak, visibility("hidden")));
extern struct cwndlab_variable *__stop_cwndlab_knobs[] __attribute__((weak, visibility("hidden")));

static int knob(uint32_t at, struct cwndlab_knob *told)
{
	struct sysctl_oid *oid;
	size_t used;

	if (at >= (size_t)(__stop_cwndlab_knobs - __start_cwndlab_knobs))
		return 0;
	oid = __start_cwndlab_knobs[at]->own;
	oid->read = 0;
	oid->variable.where = &oid->read;
	cwndlab_guarded(read_sysctl, oid);
	cwndlab_knob(at, told);
	used = tell_path(oid->parent, oid->path, sizeof(oid->path) / 2);
	snprintf(oid->path + used, sizeof(oid->path) - used, ".%s", oid->variable.name);
	told->name = oid->path;
	return 1;
}

/* Calls of the engine. */

struct connection {
	struct tcpcb tp;
#if CWNDLAB_FREEBSD >= 1400000
#define CCV_OF(connection) (&(connection)->tp.t_ccv)
#define OSD_OF(connection) (&(connection)->tp.t_osd)
#else
#define CCV_OF(connection) (&(connection)->tp.cwndlab_ccv)
#define OSD_OF(connection) (&(connection)->tp.cwndlab_osd)
#endif
};

struct call {
	struct connection *connection;
	uint32_t hook;
	const int64_t *arguments;
	int64_t value;
};

static void tell_host(const struct cwndlab_freebsd *x)
{
	now = x;
	cwndlab_host = x->host;
	ticks = x->host.ticks;
	hz = x->host.hz;
	tick = 1000000 / hz;
	cwndlab_do_rfc3465 = !!(x->is & CWNDLAB_IS_ABC);
	cwndlab_do_rfc3390 = !x->restart_segments;
	cwndlab_abc_l_var = x->abc_l_var;
#if CWNDLAB_FREEBSD >= 1200000
	cc_do_abe = !!(x->is & CWNDLAB_IS_ABE);
	cc_abe_frlossreduce = !!(x->is & CWNDLAB_IS_ABE_LOSS);
	/* Else whatever the module's own sysctl says. */
	if (x->beta != 50)
		newreno_beta = x->beta;
	if (x->beta_ecn != 80)
		newreno_beta_ecn = x->beta_ecn;
#endif
#if CWNDLAB_FREEBSD >= 1400000
	hystart_minrtt_thresh = x->hystart_min_us;
	hystart_maxrtt_thresh = x->hystart_max_us;
	hystart_n_rttsamples = x->hystart_samples;
	hystart_css_growth_div = x->hystart_divisor;
	hystart_css_rounds = x->hystart_rounds;
#endif
}

/* Where the engine's bits are in the module's flags. */
struct bit {
	uint32_t is, flag;
};

static const struct bit flags_of_connection[] = {
	{ CWNDLAB_IS_FAST_RECOVERY, TF_FASTRECOVERY },
	{ CWNDLAB_IS_CONG_RECOVERY, TF_CONGRECOVERY },
#if CWNDLAB_FREEBSD < 1300000
	{ CWNDLAB_IS_ECN, TF_ECN_PERMIT },
	{ CWNDLAB_IS_ECHOES_CE, TF_ECN_SND_ECE },
#endif
};

#if CWNDLAB_FREEBSD >= 1300000
static const struct bit second_flags_of_connection[] = {
	{ CWNDLAB_IS_ECN, TF2_ECN_PERMIT },
	{ CWNDLAB_IS_ECHOES_CE, TF2_ECN_SND_ECE },
};
#endif

static const struct bit flags_of_cc_var[] = {
	{ CWNDLAB_IS_WINDOW_ACKED, CCF_ABC_SENTAWND },
	{ CWNDLAB_IS_LIMITED, CCF_CWND_LIMITED },
	{ CWNDLAB_IS_CE, CCF_IPHDR_CE },
	{ CWNDLAB_IS_CWR, CCF_TCPHDR_CWR },
	{ CWNDLAB_IS_ACK_NOW, CCF_ACKNOW },
#if CWNDLAB_FREEBSD < 1200000
	{ CWNDLAB_IS_DELAYED_ACK, CCF_DELACK },
#endif
#if CWNDLAB_FREEBSD >= 1400000
	{ CWNDLAB_IS_HYSTART, CCF_HYSTART_ALLOWED },
	{ CWNDLAB_IS_HYSTART_SHRINK, CCF_HYSTART_CAN_SH_CWND },
	{ CWNDLAB_IS_HYSTART_SAFE, CCF_HYSTART_CONS_SSTH },
#endif
};

static void to_module(const struct bit *bits, size_t count, uint32_t is, uint32_t *flags)
{
	for (; count--; bits++)
		*flags = is & bits->is ? *flags | bits->flag : *flags & ~bits->flag;
}

static void to_engine(const struct bit *bits, size_t count, uint32_t flags, uint32_t *is)
{
	for (; count--; bits++)
		*is = flags & bits->flag ? *is | bits->is : *is & ~bits->is;
}

static void fill(struct connection *connection, const struct cwndlab_freebsd *x)
{
	struct tcpcb *tp = &connection->tp;
	struct cc_var *ccv = CCV_OF(connection);
	struct ertt *ertt = &OSD_OF(connection)->ertt;

	tell_host(x);
	to_module(flags_of_connection, nitems(flags_of_connection), x->is, &tp->t_flags);
	to_module(flags_of_cc_var, nitems(flags_of_cc_var), x->is, &ccv->flags);
#if CWNDLAB_FREEBSD >= 1300000
	to_module(second_flags_of_connection, nitems(second_flags_of_connection), x->is, &tp->t_flags2);
#endif
	tp->snd_una = x->una;
	tp->snd_nxt = x->nxt;
	tp->snd_max = x->max;
	tp->snd_recover = x->recover;
	tp->snd_cwnd = x->cwnd;
	tp->snd_ssthresh = x->ssthresh;
	tp->snd_wnd = x->snd_wnd;
	tp->snd_scale = x->snd_scale;
	tp->t_maxseg = x->maxseg;
	tp->t_rxtshift = x->rxtshift;
	tp->t_srtt = x->srtt;
	tp->t_rttupdated = x->rttupdates;
	tp->t_bytes_acked = x->bytes_acked;
	tp->cwndlab_mss = x->mss;
	tp->cwndlab_pipe = x->pipe;
#if CWNDLAB_FREEBSD >= 1400000
	tp->snd_fack = x->max - x->pipe;
#endif
	ccv->bytes_this_ack = x->bytes_this_ack;
	ccv->curack = x->curack;
#if CWNDLAB_FREEBSD >= 1200000
	ccv->nsegs = x->nsegs;
#endif
	ertt->rtt = x->rtt;
	ertt->minrtt = x->min_rtt;
	ertt->maxrtt = x->max_rtt;
	ertt->markedpkt_rtt = x->marked_rtt;
	ertt->bytes_tx_in_marked_rtt = x->marked_bytes;
	ertt->marked_snd_cwnd = x->marked_cwnd;
	ertt->flags = x->is & CWNDLAB_IS_NEW_ROUND ? ERTT_NEW_MEASUREMENT : 0;
}

static void read_back(struct connection *connection, struct cwndlab_freebsd *x)
{
	const struct tcpcb *tp = &connection->tp;
	const struct ertt *ertt = &OSD_OF(connection)->ertt;

	x->host.random = cwndlab_host.random;
	to_engine(flags_of_connection, nitems(flags_of_connection), tp->t_flags, &x->is);
#if CWNDLAB_FREEBSD >= 1300000
	to_engine(second_flags_of_connection, nitems(second_flags_of_connection), tp->t_flags2, &x->is);
#endif
	to_engine(flags_of_cc_var, nitems(flags_of_cc_var), CCV_OF(connection)->flags, &x->is);
	if (!(ertt->flags & ERTT_NEW_MEASUREMENT))
		x->is &= ~CWNDLAB_IS_NEW_ROUND;
	x->cwnd = tp->snd_cwnd;
	x->ssthresh = tp->snd_ssthresh;
	x->recover = tp->snd_recover;
	x->bytes_acked = tp->t_bytes_acked;
}

static int begin(struct connection *connection)
{
	struct cc_var *ccv = CCV_OF(connection);

#if CWNDLAB_FREEBSD >= 1500000
	ccv->tp = &connection->tp;
#else
	ccv->type = 6; /* TCP, among protocols */
	ccv->ccvc.tcp = &connection->tp;
#endif
#if CWNDLAB_FREEBSD >= 1400000
	ccv->labc = now->abc_l_var;
	connection->tp.t_cc = registered;
	return registered->cb_init ? registered->cb_init(ccv, NULL) : 0;
#else
	connection->tp.ccv = ccv;
	connection->tp.osd = OSD_OF(connection);
	connection->tp.cc_algo = registered;
	return registered->cb_init ? registered->cb_init(ccv) : 0;
#endif
}

/* In the order of the engine's `Signal`. */
static const cwndlab_signal_type signals[] = { CC_NDUPACK, CC_ECN, CC_RTO, CC_RTO_ERR };

static void carry_out(void *argument)
{
	struct call *call = argument;
	struct cc_var *ccv = CCV_OF(call->connection);
	const struct cc_algo *algo = registered;
	const int64_t *a = call->arguments;

	switch (call->hook) {
	case CWNDLAB_CB_INIT:
		call->value = begin(call->connection);
		break;
	case CWNDLAB_CB_DESTROY:
		algo->cb_destroy(ccv);
		break;
	case CWNDLAB_CONN_INIT:
		algo->conn_init(ccv);
		break;
	case CWNDLAB_ACK_RECEIVED:
		algo->ack_received(ccv, a[0] ? CC_DUPACK : CC_ACK);
		break;
	case CWNDLAB_CONG_SIGNAL:
		algo->cong_signal(ccv, signals[a[0]]);
		break;
	case CWNDLAB_POST_RECOVERY:
		algo->post_recovery(ccv);
		break;
	case CWNDLAB_AFTER_IDLE:
		algo->after_idle(ccv);
		break;
	case CWNDLAB_ECNPKT_HANDLER:
		algo->ecnpkt_handler(ccv);
		break;
#if CWNDLAB_FREEBSD >= 1400000
	case CWNDLAB_NEWROUND:
		algo->newround(ccv, a[0]);
		break;
	case CWNDLAB_RTTSAMPLE:
		algo->rttsample(ccv, a[0], 1, a[1]);
		break;
#endif
	}
}

static int call(void *connection, void *exchange, uint32_t hook, const int64_t *arguments, int64_t *value)
{
	struct call it = { connection, hook, arguments, 0 };
	int how;

	fill(connection, exchange);
	how = cwndlab_guarded(carry_out, &it);
	read_back(connection, exchange);
	*value = it.value;
	return how;
}

static uint64_t size(void)
{
	return sizeof(struct connection);
}

static uint32_t hooks(void *connection)
{
	const struct cc_algo *algo = registered;

	(void)connection;
#define HAS(field, hook) ((uint32_t)!!algo->field << (hook))
	/* What cb_init sets up is wanted of every module. */
	return 1u << CWNDLAB_CB_INIT | HAS(cb_destroy, CWNDLAB_CB_DESTROY) | HAS(conn_init, CWNDLAB_CONN_INIT) |
	       HAS(ack_received, CWNDLAB_ACK_RECEIVED) | HAS(cong_signal, CWNDLAB_CONG_SIGNAL) |
	       HAS(post_recovery, CWNDLAB_POST_RECOVERY) | HAS(after_idle, CWNDLAB_AFTER_IDLE) |
#if CWNDLAB_FREEBSD >= 1400000
	       HAS(newround, CWNDLAB_NEWROUND) | HAS(rttsample, CWNDLAB_RTTSAMPLE) |
#endif
	       HAS(ecnpkt_handler, CWNDLAB_ECNPKT_HANDLER) | (uint32_t)wants_ertt << CWNDLAB_WANTS_ERTT;
#undef HAS
}

extern const moduledata_t *__start_cwndlab_modules[] __attribute__((weak, visibility("hidden")));
extern const moduledata_t *__stop_cwndlab_modules[] __attribute__((weak, visibility("hidden")));
extern const struct cwndlab_sysinit *__start_cwndlab_sysinits[] __attribute__((weak, visibility("hidden")));
extern const struct cwndlab_sysinit *__stop_cwndlab_sysinits[] __attribute__((weak, visibility("hidden")));

static void load_modules(void *wrong)
{
	const struct cwndlab_sysinit **init;
	const moduledata_t **data;

	for (init = __start_cwndlab_sysinits; init < __stop_cwndlab_sysinits; init++)
		(*init)->code((*init)->argument);
	for (data = __start_cwndlab_modules; data < __stop_cwndlab_modules; data++)
		if ((*data)->evhand((module_t)data, MOD_LOAD, (*data)->priv) != 0)
			*(bool *)wrong = true;
}

static void unload_modules(void *unused)
{
	const moduledata_t **data;

	(void)unused;
	for (data = __stop_cwndlab_modules; data-- > __start_cwndlab_modules;)
		(*data)->evhand((module_t)data, MOD_UNLOAD, (*data)->priv);
}

static int start(const struct cwndlab_host *host)
{
	struct cwndlab_freebsd nobody = {
		.host = *host, .abc_l_var = 2, .beta = 50, .beta_ecn = 80, .is = host->abe ? CWNDLAB_IS_ABE : 0,
	};
	bool wrong = false;
	int how;

	tell_host(&nobody);
	how = cwndlab_guarded(load_modules, &wrong);
	now = NULL;
	return how ? how : wrong || !registered ? CWNDLAB_REFUSED : CWNDLAB_DONE;
}

static int stop(void)
{
	return cwndlab_guarded(unload_modules, NULL);
}

__attribute__((visibility("default"))) const struct cwndlab_module *cwndlab_module(void)
{
	static const struct cwndlab_module module = {
		CWNDLAB_ABI, sizeof(struct cwndlab_freebsd), "freebsd", cwndlab_attach, cwndlab_reset, knob,
		cwndlab_set_knob, start, stop, size, hooks, call, cwndlab_complaint,
	};

	return &module;
}
