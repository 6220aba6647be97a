/* FreeBSD's NewReno, taken from the kernel hook by hook, with a loader and a header of its own. */
#include <sys/param.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/systm.h>

#include <netinet/tcp_var.h>
#include <netinet/cc/cc.h>
#include <netinet/cc/cc_module.h>
#include <netinet/cc/cc_own_newreno.h>

static struct cc_algo own_cc_algo = {
	.name = OWN_NAME,
};

static int
own_mod_init(void)
{
	own_cc_algo.ack_received = newreno_cc_algo.ack_received;
	own_cc_algo.cong_signal = newreno_cc_algo.cong_signal;
	own_cc_algo.post_recovery = newreno_cc_algo.post_recovery;
	own_cc_algo.after_idle = newreno_cc_algo.after_idle;
	return (0);
}

static int
own_load(module_t module, int what, void *algo)
{
	if (what == MOD_LOAD)
		own_mod_init();
	return (cc_modevent(module, what, algo));
}

static moduledata_t own = { "own", own_load, &own_cc_algo };
DECLARE_MODULE(own, own, SI_SUB_PROTO_IFATTACHDOMAIN, SI_ORDER_ANY);
