/* NewReno for FreeBSD 13 that fails in the way its knob says, once the window is 20 segments. */
#include <sys/param.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/sysctl.h>
#include <sys/systm.h>

#include <netinet/tcp.h>
#include <netinet/tcp_var.h>
#include <netinet/cc/cc.h>
#include <netinet/cc/cc_module.h>

int raise(int signal);

static u_int how;
static volatile int zero;
static volatile u_int turns;

static int
deeper(int depth)
{
	volatile char room[4096];

	room[0] = depth;
	return (deeper(depth + 1) + room[0]);
}

static void
fails_ack_received(struct cc_var *ccv, uint16_t type)
{
	newreno_cc_algo.ack_received(ccv, type);
	if (CCV(ccv, snd_cwnd) < 20 * CCV(ccv, t_maxseg))
		return;
	switch (how) {
	case 1:
		*(volatile int *)(long)zero = 1;
		break;
	case 2:
		for (;;)
			turns++;
	case 3:
		CCV(ccv, snd_cwnd) = 0;
		break;
	case 4:
		CCV(ccv, snd_cwnd) = 1U << 31;
		break;
	case 5:
		zero = how / zero;
		break;
	case 6:
		zero = deeper(0);
		break;
	case 7:
		panic("how is %u", how);
	case 8:
		raise(9);
		break;
	case 9:
		CCV(ccv, snd_ssthresh) = 0;
		break;
	}
}

static int
fails_cb_init(struct cc_var *ccv)
{
	return (how == 10 ? ENOMEM : 0);
}

static void
fails_cong_signal(struct cc_var *ccv, uint32_t type)
{
	newreno_cc_algo.cong_signal(ccv, type);
}

static void
fails_post_recovery(struct cc_var *ccv)
{
	newreno_cc_algo.post_recovery(ccv);
}

static struct cc_algo fails_cc_algo = {
	.name = "fails",
	.cb_init = fails_cb_init,
	.ack_received = fails_ack_received,
	.cong_signal = fails_cong_signal,
	.post_recovery = fails_post_recovery,
};

static int
how_handler(SYSCTL_HANDLER_ARGS)
{
	u_int value = how;
	int error = sysctl_handle_int(oidp, &value, 0, req);

	if (error == 0 && req->newptr != NULL && value == 11)
		error = EINVAL;
	if (error == 0)
		how = value;
	return (error);
}

SYSCTL_NODE(_net_inet_tcp_cc, OID_AUTO, fails, CTLFLAG_RW, NULL, "Settings of fails");
SYSCTL_PROC(_net_inet_tcp_cc_fails, OID_AUTO, how, CTLTYPE_UINT | CTLFLAG_RW, &how, 0, how_handler, "IU", "how");

DECLARE_CC_MODULE(fails, &fails_cc_algo);
