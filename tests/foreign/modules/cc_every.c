/* An AIMD for FreeBSD's hooks, with all of them, knobs and statics of its own. */
#include <sys/param.h>
#include <sys/kernel.h>
#include <sys/malloc.h>
#include <sys/module.h>
#include <sys/sysctl.h>
#include <sys/systm.h>

#include <net/vnet.h>

#include <netinet/tcp.h>
#include <netinet/tcp_seq.h>
#include <netinet/tcp_var.h>
#if __FreeBSD_version < 1300000
/* 9's and 12's spellings: the interface of 11 is theirs. */
#include <netinet/cc.h>
#define EVERY_PROC SYSCTL_VNET_PROC
#define EVERY_DEFINE VNET_DEFINE_STATIC
#else
#include <netinet/cc/cc.h>
#define EVERY_PROC SYSCTL_PROC
#define EVERY_DEFINE static VNET_DEFINE
#endif
#include <netinet/cc/cc_module.h>

#if __FreeBSD_version >= 1500000
#define TP(ccv) ((ccv)->tp)
#else
#define TP(ccv) ((ccv)->ccvc.tcp)
#endif
#if __FreeBSD_version >= 1500000
typedef ccsignal_t ack_type;
typedef ccsignal_t signal_type;
#else
typedef uint16_t ack_type;
typedef uint32_t signal_type;
#endif

struct every {
	uint64_t holds;
	u_int rounds, samples;
};

static MALLOC_DEFINE(M_EVERY, "every data", "what a connection keeps");

EVERY_DEFINE(u_int, every_beta) = 50;
static u_int stop_at;
static u_int opened;

enum { CB_INIT = 1, CB_DESTROY, CONN_INIT, ACK, SIGNAL, POST, IDLE, ECNPKT, ROUND, SAMPLE };

static void
reached(u_int hook)
{
	if (hook == stop_at)
		panic("as asked for");
}

static int
every_cb_init(struct cc_var *ccv
#if __FreeBSD_version >= 1400000
    , void *memory
#endif
    )
{
	struct every *own = malloc(sizeof(*own), M_EVERY, M_NOWAIT | M_ZERO);

	reached(CB_INIT);
	if (own == NULL)
		return (ENOMEM);
	/* Statics are the host's own: as many as its connections. */
	if (++opened > 4)
		return (EBUSY);
	own->holds = 42;
	ccv->cc_data = own;
	return (0);
}

#if __FreeBSD_version >= 1400000
static size_t
every_data_sz(void)
{
	return (sizeof(struct every));
}

static void
every_newround(struct cc_var *ccv, uint32_t round)
{
	struct every *own = ccv->cc_data;

	reached(ROUND);
	own->rounds = round;
}

static void
every_rttsample(struct cc_var *ccv, uint32_t usec, uint32_t sent, uint32_t flight)
{
	struct every *own = ccv->cc_data;

	reached(SAMPLE);
	if (usec == 0 || sent != 1)
		panic("a sample of nothing");
	own->samples++;
}
#endif

static void
every_cb_destroy(struct cc_var *ccv)
{
	reached(CB_DESTROY);
	free(ccv->cc_data, M_EVERY);
}

static void
every_conn_init(struct cc_var *ccv)
{
	reached(CONN_INIT);
	if (CCV(ccv, snd_cwnd) < tcp_maxseg(TP(ccv)) || CCV(ccv, t_maxseg) < tcp_maxseg(TP(ccv)))
		panic("a window of less than a segment");
}

static void
every_ack_received(struct cc_var *ccv, ack_type type)
{
	struct every *own = ccv->cc_data;

	reached(ACK);
	if (own->holds != 42)
		panic("another connection's memory");
	if (type != CC_ACK || IN_RECOVERY(CCV(ccv, t_flags)) || !(ccv->flags & CCF_CWND_LIMITED))
		return;
	if (CCV(ccv, snd_cwnd) <= CCV(ccv, snd_ssthresh))
		CCV(ccv, snd_cwnd) += ccv->bytes_this_ack;
	else if (ccv->flags & CCF_ABC_SENTAWND) {
		ccv->flags &= ~CCF_ABC_SENTAWND;
		CCV(ccv, snd_cwnd) += CCV(ccv, t_maxseg);
	}
}

static void
every_cong_signal(struct cc_var *ccv, signal_type type)
{
	u_int mss = tcp_maxseg(TP(ccv));
	u_int window = max(CCV(ccv, snd_cwnd) * (uint64_t)VNET(every_beta) / 100, 2 * mss);

	reached(SIGNAL);
	switch (type) {
	case CC_NDUPACK:
		CCV(ccv, snd_ssthresh) = window;
		ENTER_RECOVERY(CCV(ccv, t_flags));
		break;
	case CC_ECN:
		CCV(ccv, snd_ssthresh) = CCV(ccv, snd_cwnd) = window;
		ENTER_CONGRECOVERY(CCV(ccv, t_flags));
		break;
	case CC_RTO:
		CCV(ccv, snd_ssthresh) = window;
		CCV(ccv, snd_cwnd) = mss;
		break;
	default:
		break;
	}
}

static void
every_post_recovery(struct cc_var *ccv)
{
	reached(POST);
	CCV(ccv, snd_cwnd) = CCV(ccv, snd_ssthresh);
}

static void
every_after_idle(struct cc_var *ccv)
{
	reached(IDLE);
	CCV(ccv, snd_cwnd) = min(CCV(ccv, snd_cwnd), tcp_compute_initwnd(tcp_maxseg(TP(ccv))));
}

static void
every_ecnpkt_handler(struct cc_var *ccv)
{
	reached(ECNPKT);
}

static struct cc_algo every_cc_algo = {
	.name = "every",
	.cb_init = every_cb_init,
	.cb_destroy = every_cb_destroy,
	.conn_init = every_conn_init,
	.ack_received = every_ack_received,
	.cong_signal = every_cong_signal,
	.post_recovery = every_post_recovery,
	.after_idle = every_after_idle,
	.ecnpkt_handler = every_ecnpkt_handler,
#if __FreeBSD_version >= 1400000
	.cc_data_sz = every_data_sz,
	.newround = every_newround,
	.rttsample = every_rttsample,
#endif
};

static int
every_beta_handler(SYSCTL_HANDLER_ARGS)
{
	u_int value = VNET(every_beta);
	int error = sysctl_handle_int(oidp, &value, 0, req);

	if (error != 0 || req->newptr == NULL)
		return (error);
	if (value < 1 || value > 100)
		return (EINVAL);
	VNET(every_beta) = value;
	return (0);
}

SYSCTL_DECL(_net_inet_tcp_cc_every_one);
SYSCTL_NODE(_net_inet_tcp_cc, OID_AUTO, every_one, CTLFLAG_RW, NULL, "Settings of every");
EVERY_PROC(_net_inet_tcp_cc_every_one, OID_AUTO, beta, CTLFLAG_VNET | CTLTYPE_UINT | CTLFLAG_RW,
    &VNET_NAME(every_beta), 0, every_beta_handler, "IU", "what a loss leaves of the window, in percent");
SYSCTL_UINT(_net_inet_tcp_cc_every_one, OID_AUTO, stop_at, CTLFLAG_RW, &stop_at, 0, "the hook to stop at");

DECLARE_CC_MODULE(every, &every_cc_algo);
MODULE_VERSION(every, 1);
