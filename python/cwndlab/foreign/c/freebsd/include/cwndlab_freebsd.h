/* What congestion controls that were written for FreeBSD see of it: mod_cc(9), and what modules touch besides. Our own text, by
   the interface's documentation; where releases differ, CWNDLAB_FREEBSD says which. */
#ifndef CWNDLAB_FREEBSD_H
#define CWNDLAB_FREEBSD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/cdefs.h>
#include <sys/queue.h>

#include "cwndlab/runtime.h"

#define __FreeBSD__ (CWNDLAB_FREEBSD / 100000)
#define __FreeBSD_version CWNDLAB_FREEBSD

/* Types. */

typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned int u_int;
typedef unsigned long u_long;
typedef uint8_t u_int8_t;
typedef uint16_t u_int16_t;
typedef uint32_t u_int32_t;
typedef uint64_t u_int64_t;
typedef int64_t quad_t;
typedef uint64_t u_quad_t;
typedef char *caddr_t;
typedef long ssize_t;
typedef int64_t sbintime_t;
typedef uint32_t tcp_seq;

struct timeval {
	long tv_sec, tv_usec;
};

/* Numbers of errors. */

#define EPERM 1
#define ENOENT 2
#define EIO 5
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define EINVAL 22
#define ERANGE 34
#define EMSGSIZE 40
#define ENOPROTOOPT 42
#define EOPNOTSUPP 45

/* Arithmetic, strings, output. */

#define CWNDLAB_MINMAX(name, type) \
	static inline type name##max(type a, type b) { return a > b ? a : b; } \
	static inline type name##min(type a, type b) { return a < b ? a : b; }
CWNDLAB_MINMAX(, u_int)
CWNDLAB_MINMAX(i, int)
CWNDLAB_MINMAX(l, long)
CWNDLAB_MINMAX(ul, u_long)
CWNDLAB_MINMAX(q, quad_t)
CWNDLAB_MINMAX(uq, u_quad_t)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define nitems(array) (sizeof(array) / sizeof((array)[0]))
#define howmany(x, of) (((x) + ((of) - 1)) / (of))
#define rounddown(x, to) (((x) / (to)) * (to))
#define roundup(x, to) (howmany(x, to) * (to))
#define powerof2(x) ((((x) - 1) & (x)) == 0)
#define CTASSERT(truth) _Static_assert(truth, "CTASSERT")

static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long labs(long x) { return x < 0 ? -x : x; }
static inline int fls(int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline int flsl(long x) { return x ? 64 - __builtin_clzl(x) : 0; }
static inline int flsll(long long x) { return x ? 64 - __builtin_clzll(x) : 0; }

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *where, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t size);
size_t strlen(const char *text);
int snprintf(char *text, size_t size, const char *format, ...);
#define bcopy(from, to, size) memmove(to, from, size)
#define bzero(where, size) memset(where, 0, size)

/* Consoles are not kept. */
static inline int printf(const char *format, ...) { (void)format; return 0; }
static inline void log(int level, const char *format, ...) { (void)level; (void)format; }
#define panic(...) cwndlab_bug("panic: " CWNDLAB_FIRST(__VA_ARGS__, ))
#define CWNDLAB_FIRST(first, ...) first
/* Only kernels that are built for debugging look. */
#define KASSERT(truth, message) do { } while (0)
#define MPASS(truth) do { } while (0)

/* Time and randomness: the host's clock, the connection's stream. */

extern int ticks, hz, tick;
void getmicrouptime(struct timeval *now);
#define microuptime(now) getmicrouptime(now)
uint32_t tcp_get_usecs(struct timeval *now);
uint32_t tcp_ts_getticks(void);
sbintime_t sbinuptime(void);
#define getsbinuptime() sbinuptime()
#define SBT_1S ((sbintime_t)1 << 32)
#define SBT_1MS (SBT_1S / 1000)
#define SBT_1US (SBT_1S / 1000000)
#define TICKS_2_MSEC(t) ((t) * 1000 / hz)
#define TICKS_2_USEC(t) ((t) * (1000000 / hz))

u_long random(void);
uint32_t arc4random(void);
static inline uint32_t arc4random_uniform(uint32_t below) { return below ? arc4random() % below : 0; }
#define prng32() arc4random()
#define prng32_bounded(below) arc4random_uniform(below)

/* Memory. */

struct malloc_type {
	int unused;
};
#define MALLOC_DEFINE(type, name, about) struct malloc_type type[1] __unused
#define MALLOC_DECLARE(type) extern struct malloc_type type[1]
#define M_NOWAIT 0x1
#define M_WAITOK 0x2
#define M_ZERO 0x100
#define malloc(size, type, flags) cwndlab_alloc(size)
#define free(memory, type) cwndlab_free(memory)
MALLOC_DECLARE(M_CC_MEM);
MALLOC_DECLARE(M_TEMP);

struct cwndlab_zone {
	size_t size;
};
typedef struct cwndlab_zone *uma_zone_t;
uma_zone_t uma_zcreate(const char *name, size_t size, void *ctor, void *dtor, void *init, void *fini, int align, uint32_t flags);
void uma_zdestroy(uma_zone_t zone);
#define uma_zalloc(zone, flags) cwndlab_alloc((zone)->size)
#define uma_zfree(zone, item) cwndlab_free(item)
#define UMA_ALIGN_PTR 7

#ifndef STAILQ_FOREACH_SAFE
#define STAILQ_FOREACH_SAFE(item, head, link, next) \
	for ((item) = STAILQ_FIRST(head); (item) && ((next) = STAILQ_NEXT(item, link), 1); (item) = (next))
#endif
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(item, head, link, next) \
	for ((item) = TAILQ_FIRST(head); (item) && ((next) = TAILQ_NEXT(item, link), 1); (item) = (next))
#endif

/* Virtual network stacks: a host has one, and a copy of the module. */

struct vnet;
#define VNET_DEFINE(type, name) type name
#define VNET_DECLARE(type, name) extern type name
#define VNET_NAME(name) name
#define VNET(name) name
#define VNET_PTR(name) (&(name))
#define VNET_DEFINE_STATIC(type, name) static type name
#define VNET_ITERATOR_DECL(each) int each
#define VNET_FOREACH(each) for ((each) = 0; (each) < 1; (each)++)
#define VNET_LIST_RLOCK() do { } while (0)
#define VNET_LIST_RUNLOCK() do { } while (0)
#define VNET_LIST_RLOCK_NOSLEEP() do { } while (0)
#define VNET_LIST_RUNLOCK_NOSLEEP() do { } while (0)
#define CURVNET_SET(to) do { } while (0)
#define CURVNET_RESTORE() do { } while (0)

/* Modules, and what is called when one is loaded. */

typedef struct cwndlab_kernel_module *module_t;
typedef int (*modeventhand_t)(module_t module, int what, void *own);
enum modeventtype { MOD_LOAD, MOD_UNLOAD, MOD_SHUTDOWN, MOD_QUIESCE };
typedef struct moduledata {
	const char *name;
	modeventhand_t evhand;
	void *priv;
} moduledata_t;
#define SI_SUB_PROTO_IFATTACHDOMAIN 1
#define SI_SUB_PROTO_BEGIN 1
#define SI_SUB_PROTO_END 1
#define SI_ORDER_FIRST 0
#define SI_ORDER_SECOND 1
#define SI_ORDER_ANY 0xfffffff
#define DECLARE_MODULE(name, data, sub, order) \
	static const moduledata_t *cwndlab_module_##name CWNDLAB_GATHER("cwndlab_modules") = &data
#define MODULE_VERSION(name, version) struct cwndlab_nothing
#define MODULE_DEPEND(name, on, low, best, high) struct cwndlab_nothing

struct cwndlab_sysinit {
	void (*code)(const void *argument);
	const void *argument;
};
#define SYSINIT(name, sub, order, function, given) \
	static const struct cwndlab_sysinit cwndlab_sysinit_of_##name = { (void (*)(const void *))(function), (given) }; \
	static const struct cwndlab_sysinit *cwndlab_sysinit_##name CWNDLAB_GATHER("cwndlab_sysinits") = \
		&cwndlab_sysinit_of_##name
#define VNET_SYSINIT(name, sub, order, function, given) SYSINIT(name, sub, order, function, given)
#define SYSUNINIT(name, sub, order, function, given) struct cwndlab_nothing
#define VNET_SYSUNINIT(name, sub, order, function, given) struct cwndlab_nothing

/* sysctl(9): a module's variables are knobs of its host. */

struct sysctl_req {
	void *oldptr, *newptr;
	size_t oldlen, newlen;
};
struct sysctl_oid {
	struct cwndlab_variable variable;
	const char *parent;
	int (*handler)(struct sysctl_oid *oidp, void *arg1, intmax_t arg2, struct sysctl_req *req);
	void *arg1;
	intmax_t arg2;
	int64_t read;	/* what the handler told last */
	char path[96];
};
/* A folder of the tree: what it is called in macros, and by users. */
struct cwndlab_folder {
	const char *parent, *name;
};
#define SYSCTL_HANDLER_ARGS struct sysctl_oid *oidp, void *arg1, intmax_t arg2, struct sysctl_req *req
int sysctl_handle_int(SYSCTL_HANDLER_ARGS);
int sysctl_handle_long(SYSCTL_HANDLER_ARGS);
int sysctl_handle_64(SYSCTL_HANDLER_ARGS);
int sysctl_handle_bool(SYSCTL_HANDLER_ARGS);
int sysctl_handle_8(SYSCTL_HANDLER_ARGS);
int sysctl_handle_16(SYSCTL_HANDLER_ARGS);
#define sysctl_handle_32 sysctl_handle_int
int cwndlab_set_sysctl(struct cwndlab_variable *variable, int64_t value);

#define OID_AUTO (-1)
#define CTLTYPE 0xf
#define CTLTYPE_NODE 1
#define CTLTYPE_INT 2
#define CTLTYPE_STRING 3
#define CTLTYPE_S64 4
#define CTLTYPE_QUAD CTLTYPE_S64
#define CTLTYPE_OPAQUE 5
#define CTLTYPE_UINT 6
#define CTLTYPE_LONG 7
#define CTLTYPE_ULONG 8
#define CTLTYPE_U64 9
#define CTLTYPE_U8 0xa
#define CTLTYPE_U16 0xb
#define CTLTYPE_S8 0xc
#define CTLTYPE_S16 0xd
#define CTLTYPE_S32 0xe
#define CTLTYPE_U32 0xf
#define CTLFLAG_RD 0x80000000
#define CTLFLAG_WR 0x40000000
#define CTLFLAG_RW (CTLFLAG_RD | CTLFLAG_WR)
#define CTLFLAG_TUN 0x00080000
#define CTLFLAG_RDTUN (CTLFLAG_RD | CTLFLAG_TUN)
#define CTLFLAG_RWTUN (CTLFLAG_RW | CTLFLAG_TUN)
#define CTLFLAG_VNET 0x00020000
#define CTLFLAG_MPSAFE 0x00040000
#define CTLFLAG_NEEDGIANT 0x00000010
#define CTLFLAG_STATS 0x00002000

#define CWNDLAB_KIND(type) \
	(((type) & CTLTYPE) == CTLTYPE_INT || ((type) & CTLTYPE) == CTLTYPE_S64 || ((type) & CTLTYPE) == CTLTYPE_LONG || \
	 ((type) & CTLTYPE) == CTLTYPE_S8 || ((type) & CTLTYPE) == CTLTYPE_S16 || ((type) & CTLTYPE) == CTLTYPE_S32 ? 'i' : 'u')
#define CWNDLAB_SIZE(type) \
	(((type) & CTLTYPE) == CTLTYPE_S64 || ((type) & CTLTYPE) == CTLTYPE_U64 || ((type) & CTLTYPE) == CTLTYPE_LONG || \
	 ((type) & CTLTYPE) == CTLTYPE_ULONG ? 8 : ((type) & CTLTYPE) == CTLTYPE_U8 || ((type) & CTLTYPE) == CTLTYPE_S8 ? 1 : \
	 ((type) & CTLTYPE) == CTLTYPE_U16 || ((type) & CTLTYPE) == CTLTYPE_S16 ? 2 : 4)
#define CWNDLAB_OID(in, called, kinds, bytes, flags, call, one, two) \
	static struct sysctl_oid cwndlab_oid##in##_##called = { \
		.variable = { #called, NULL, kinds, bytes, ((flags) & (CTLFLAG_WR | CTLFLAG_TUN)) != 0, 0, 0, \
			      cwndlab_set_sysctl, &cwndlab_oid##in##_##called }, \
		.parent = #in, .handler = call, .arg1 = (void *)(one), .arg2 = (two), \
	}; \
	static struct cwndlab_variable *cwndlab_knob##in##_##called CWNDLAB_GATHER("cwndlab_knobs") = \
		&cwndlab_oid##in##_##called.variable
#define SYSCTL_PROC(in, number, called, access, one, two, call, format, about) \
	CWNDLAB_OID(in, called, CWNDLAB_KIND(access), CWNDLAB_SIZE(access), access, call, one, two)
#define SYSCTL_INT(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'i', 4, access, sysctl_handle_int, where, value)
#define SYSCTL_UINT(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'u', 4, access, sysctl_handle_int, where, value)
#define SYSCTL_S32 SYSCTL_INT
#define SYSCTL_U32 SYSCTL_UINT
#define SYSCTL_LONG(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'i', 8, access, sysctl_handle_long, where, value)
#define SYSCTL_ULONG(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'u', 8, access, sysctl_handle_long, where, value)
#define SYSCTL_S64 SYSCTL_LONG
#define SYSCTL_U64 SYSCTL_ULONG
#define SYSCTL_QUAD SYSCTL_LONG
#define SYSCTL_UQUAD SYSCTL_ULONG
#define SYSCTL_U8(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'u', 1, access, sysctl_handle_8, where, value)
#define SYSCTL_U16(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'u', 2, access, sysctl_handle_16, where, value)
#define SYSCTL_BOOL(in, number, called, access, where, value, about) \
	CWNDLAB_OID(in, called, 'b', 1, access, sysctl_handle_bool, where, value)
/* As FreeBSD 9 has them for variables of a virtual network. */
#define SYSCTL_VNET_PROC SYSCTL_PROC
#define SYSCTL_VNET_INT SYSCTL_INT
#define SYSCTL_VNET_UINT SYSCTL_UINT
/* Texts are no knobs. */
#define SYSCTL_STRING(in, number, called, access, where, value, about) struct cwndlab_nothing
#define SYSCTL_DECL(name) struct cwndlab_nothing
#define SYSCTL_NODE(in, number, called, access, call, about) \
	static const struct cwndlab_folder cwndlab_folder##in##_##called = { #in, #called }; \
	static const struct cwndlab_folder *cwndlab_known##in##_##called CWNDLAB_GATHER("cwndlab_folders") = \
		&cwndlab_folder##in##_##called

/* khelp(9), and what h_ertt(4) measures of a connection: RTTs in ticks, one more than the difference of time stamps. */

struct ertt {
	long bytes_tx_in_rtt;
	long bytes_tx_in_marked_rtt;
	unsigned long marked_snd_cwnd;
	int rtt, maxrtt, minrtt;
	int dlyack_rx;
	int timestamp_errors;
	int markedpkt_rtt;
	uint32_t flags;
};
#define ERTT_NEW_MEASUREMENT 0x01
#define ERTT_MEASUREMENT_IN_PROGRESS 0x02
#define ERTT_TSO_DISABLED 0x04

struct osd {
	struct ertt ertt;
};
int32_t khelp_get_id(char *name);
void *khelp_get_osd(struct osd *osd, int32_t id);

/* The connection (tcp(4)): windows in bytes. */

#define TCP_CA_NAME_MAX 16
#define TCP_MAXWIN 65535
#define TCP_MAX_WINSHIFT 14
#define TCP_RTT_SHIFT 5
#define TCP_RTT_SCALE 32
#define TCP_RTTVAR_SHIFT 4
#define TCP_RTTVAR_SCALE 16
#define TCPTV_SRTTBASE 0
#define TCP_MAXRXTSHIFT 12

#define TF_ACKNOW 0x00000001
#define TF_DELACK 0x00000002
#define TF_REQ_TSTMP 0x00000080
#define TF_RCVD_TSTMP 0x00000100
#define TF_SACK_PERMIT 0x00000200
#define TF_FASTRECOVERY 0x00100000
#define TF_TSO 0x01000000
#define TF_CONGRECOVERY 0x20000000
#if CWNDLAB_FREEBSD < 1300000
#define TF_ECN_PERMIT 0x00004000
#define TF_ECN_SND_CWR 0x00008000
#define TF_ECN_SND_ECE 0x10000000
#else
#define TF2_ECN_PERMIT 0x00000020
#define TF2_ECN_SND_CWR 0x00000040
#define TF2_ECN_SND_ECE 0x00000080
#endif
#if CWNDLAB_FREEBSD >= 1400000
#define TF2_ECN_USE_ECT1 0x00000800	/* of no effect here */
#endif
#define IN_FASTRECOVERY(flags) ((flags) & TF_FASTRECOVERY)
#define ENTER_FASTRECOVERY(flags) ((flags) |= TF_FASTRECOVERY)
#define EXIT_FASTRECOVERY(flags) ((flags) &= ~TF_FASTRECOVERY)
#define IN_CONGRECOVERY(flags) ((flags) & TF_CONGRECOVERY)
#define ENTER_CONGRECOVERY(flags) ((flags) |= TF_CONGRECOVERY)
#define EXIT_CONGRECOVERY(flags) ((flags) &= ~TF_CONGRECOVERY)
#define IN_RECOVERY(flags) ((flags) & (TF_FASTRECOVERY | TF_CONGRECOVERY))
#define ENTER_RECOVERY(flags) ((flags) |= TF_FASTRECOVERY | TF_CONGRECOVERY)
#define EXIT_RECOVERY(flags) ((flags) &= ~(TF_FASTRECOVERY | TF_CONGRECOVERY))

#define SEQ_LT(a, b) ((int32_t)((a) - (b)) < 0)
#define SEQ_LEQ(a, b) ((int32_t)((a) - (b)) <= 0)
#define SEQ_GT(a, b) ((int32_t)((a) - (b)) > 0)
#define SEQ_GEQ(a, b) ((int32_t)((a) - (b)) >= 0)
#define SEQ_MIN(a, b) (SEQ_LT(a, b) ? (a) : (b))
#define SEQ_MAX(a, b) (SEQ_GT(a, b) ? (a) : (b))

struct tcpcb;
struct cc_algo;
struct sctp_nets;
struct inpcb;
struct sockbuf;
struct socket {
	struct sockbuf *so_rcv, *so_snd;
};

struct cc_var {
	void *cc_data;
	int bytes_this_ack;
	tcp_seq curack;
	uint32_t flags;
#if CWNDLAB_FREEBSD < 1500000
	int type;
	union ccv_container {
		struct tcpcb *tcp;
		struct sctp_nets *sctp;
	} ccvc;
#else
	struct tcpcb *tp;
#endif
#if CWNDLAB_FREEBSD >= 1200000
	uint16_t nsegs;
#endif
#if CWNDLAB_FREEBSD >= 1400000
	uint8_t labc;
#endif
};

#define CCF_ABC_SENTAWND 0x0001
#define CCF_CWND_LIMITED 0x0002
#define CCF_ACKNOW 0x0008
#define CCF_IPHDR_CE 0x0010
#define CCF_TCPHDR_CWR 0x0020
#if CWNDLAB_FREEBSD < 1200000
#define CCF_DELACK 0x0004
#endif
#if CWNDLAB_FREEBSD >= 1400000
#define CCF_USE_LOCAL_ABC 0x0004
#if CWNDLAB_FREEBSD < 1500000
#define CCF_MAX_CWND 0x0040
#define CCF_CHG_MAX_CWND 0x0080
#define CCF_USR_IWND 0x0100
#define CCF_USR_IWND_INIT_NSEG 0x0200
#endif
#define CCF_HYSTART_ALLOWED 0x0400
#define CCF_HYSTART_CAN_SH_CWND 0x0800
#define CCF_HYSTART_CONS_SSTH 0x1000
#endif

struct tcpcb {
	u_int t_flags, t_flags2;
	tcp_seq snd_una, snd_nxt, snd_max, snd_recover;
	uint32_t snd_cwnd, snd_ssthresh, snd_wnd;
	uint32_t snd_cwnd_prev, snd_ssthresh_prev;	/* what modules keep in them */
	u_int t_maxseg;
	uint8_t snd_scale;
	int t_rxtshift;
	int t_srtt;
	u_int t_bytes_acked;
	u_long t_rttupdated;
	int t_state;
#if CWNDLAB_FREEBSD < 1400000
	struct cc_algo *cc_algo;
	struct cc_var *ccv;
	struct osd *osd;
	struct inpcb *t_inpcb;
	struct cc_var cwndlab_ccv;
	struct osd cwndlab_osd;
#else
	struct cc_algo *t_cc;
	struct cc_var t_ccv;
	struct osd t_osd;
	/* Such that snd_max - snd_fack + sack_bytes_rexmit is in flight. */
	tcp_seq snd_fack;
	struct { int sack_bytes_rexmit; } sackhint;
#endif
	/* What functions answer with. */
	uint32_t cwndlab_mss, cwndlab_pipe;
};

#if CWNDLAB_FREEBSD < 1500000
#define CCV(ccv, what) (ccv)->ccvc.tcp->what
#else
#define CCV(ccv, what) (ccv)->tp->what
#endif
#if CWNDLAB_FREEBSD < 1400000
#define CC_ALGO(tp) ((tp)->cc_algo)
#define CC_DATA(tp) ((tp)->ccv->cc_data)
#else
#define CC_ALGO(tp) ((tp)->t_cc)
#define CC_DATA(tp) ((tp)->t_ccv.cc_data)
#endif

u_int tcp_maxseg(const struct tcpcb *tp);
int tcp_compute_pipe(struct tcpcb *tp);
uint32_t tcp_compute_initwnd(uint32_t maxseg);
#if CWNDLAB_FREEBSD >= 1400000
u_int tcp_fixed_maxseg(const struct tcpcb *tp);
/* The smoothed round trip in whole microseconds or ticks, whichever way t_srtt has it. */
#define TCP_TMR_GRANULARITY_TICKS 1
#define TCP_TMR_GRANULARITY_USEC 2
uint32_t tcp_get_srtt(struct tcpcb *tp, int granularity);
#endif

extern int cwndlab_do_rfc3465, cwndlab_do_rfc3390, cwndlab_do_rfc6675_pipe, cwndlab_abc_l_var;
#define V_tcp_do_rfc3465 cwndlab_do_rfc3465
#define V_tcp_do_rfc3390 cwndlab_do_rfc3390
#define V_tcp_do_rfc6675_pipe cwndlab_do_rfc6675_pipe
#define V_tcp_do_newsack cwndlab_do_rfc6675_pipe
#define V_tcp_abc_l_var cwndlab_abc_l_var
#if CWNDLAB_FREEBSD >= 1400000
extern uint32_t newreno_beta, newreno_beta_ecn;
#define V_newreno_beta newreno_beta
#define V_newreno_beta_ecn newreno_beta_ecn
#endif
#if CWNDLAB_FREEBSD >= 1200000
extern int cc_do_abe, cc_abe_frlossreduce;
#define V_cc_do_abe cc_do_abe
#define V_cc_abe_frlossreduce cc_abe_frlossreduce
#endif

/* Congestion control (mod_cc(9)). */

#define CC_ACK 0x0001
#define CC_DUPACK 0x0002
#define CC_PARTIALACK 0x0004
#define CC_SACK 0x0008
#if CWNDLAB_FREEBSD < 1500000
#define CC_ECN 0x00000001
#define CC_RTO 0x00000002
#define CC_RTO_ERR 0x00000004
#define CC_NDUPACK 0x00000008
#define CC_SIGPRIVMASK 0xff000000
typedef uint16_t cwndlab_ack_type;
typedef uint32_t cwndlab_signal_type;
#else
typedef enum {
	CC_ECN = 0x0100,
	CC_RTO = 0x0200,
	CC_RTO_ERR = 0x0400,
	CC_NDUPACK = 0x0800,
	CC_PRIVATE1 = 0x01000000,
	CC_PRIVATE2 = 0x02000000,
	CC_PRIVATE3 = 0x04000000,
	CC_SIGPRIVMASK = (int)0xff000000,
} ccsignal_t;
typedef ccsignal_t cwndlab_ack_type;
typedef ccsignal_t cwndlab_signal_type;
#endif

enum sopt_dir { SOPT_GET, SOPT_SET };
struct sockopt {
	enum sopt_dir sopt_dir;
	int sopt_level, sopt_name;
	void *sopt_val;
	size_t sopt_valsize;
};

struct cc_algo {
	char name[TCP_CA_NAME_MAX];
	int (*mod_init)(void);
	int (*mod_destroy)(void);
#if CWNDLAB_FREEBSD >= 1400000
	size_t (*cc_data_sz)(void);
	int (*cb_init)(struct cc_var *ccv, void *memory);
#else
	int (*cb_init)(struct cc_var *ccv);
#endif
	void (*cb_destroy)(struct cc_var *ccv);
	void (*conn_init)(struct cc_var *ccv);
	void (*ack_received)(struct cc_var *ccv, cwndlab_ack_type type);
	void (*cong_signal)(struct cc_var *ccv, cwndlab_signal_type type);
	void (*post_recovery)(struct cc_var *ccv);
	void (*after_idle)(struct cc_var *ccv);
	void (*ecnpkt_handler)(struct cc_var *ccv);
#if CWNDLAB_FREEBSD >= 1400000
	void (*newround)(struct cc_var *ccv, uint32_t round);
	void (*rttsample)(struct cc_var *ccv, uint32_t usec, uint32_t sent, uint32_t flight);
#endif
#if CWNDLAB_FREEBSD >= 1200000
	int (*ctl_output)(struct cc_var *ccv, struct sockopt *sopt, void *buf);
#endif
	STAILQ_ENTRY(cc_algo) entries;
#if CWNDLAB_FREEBSD >= 1400000
	u_int cc_refcount;
	uint8_t flags;
#endif
};

int cc_register_algo(struct cc_algo *algo);
int cc_deregister_algo(struct cc_algo *algo);
int cc_modevent(module_t module, int what, void *algo);
#define DECLARE_CC_MODULE(name, algo) \
	static const moduledata_t cwndlab_data_##name = { #name, cc_modevent, algo }; \
	DECLARE_MODULE(name, cwndlab_data_##name, SI_SUB_PROTO_IFATTACHDOMAIN, SI_ORDER_ANY)

/* NewReno, which other modules call. */
#if CWNDLAB_FREEBSD < 1400000
extern struct cc_algo newreno_cc_algo;
#else
void newreno_cc_post_recovery(struct cc_var *ccv);
void newreno_cc_after_idle(struct cc_var *ccv);
void newreno_cc_cong_signal(struct cc_var *ccv, cwndlab_signal_type type);
void newreno_cc_ack_received(struct cc_var *ccv, cwndlab_ack_type type);
#if CWNDLAB_FREEBSD >= 1500000
u_int newreno_cc_cwnd_on_multiplicative_decrease(struct cc_var *ccv, uint32_t unit);
u_int newreno_cc_cwnd_in_cong_avoid(struct cc_var *ccv);
u_int newreno_cc_cwnd_in_slow_start(struct cc_var *ccv);
#endif

extern uint32_t hystart_lowcwnd, hystart_minrtt_thresh, hystart_maxrtt_thresh, hystart_n_rttsamples;
extern uint32_t hystart_css_growth_div, hystart_css_rounds, hystart_bblogs;
#endif

/* Locks are held, and black boxes are not kept. */

#define INP_WLOCK_ASSERT(inp) do { } while (0)
#define INP_LOCK_ASSERT(inp) do { } while (0)
#if CWNDLAB_FREEBSD >= 1400000
#define tptoinpcb(tp) ((struct inpcb *)NULL)
#define tptosocket(tp) ((struct socket *)NULL)
#define tcp_bblogging_on(tp) ((void)(tp), false)
#define TCP_HYSTART 56
union tcp_log_stackspecific {
	struct {
		uint64_t cur_del_rate, delRate, rttProp, bw_inuse;
		uint32_t inflight, applimited, delivered, timeStamp, epoch, lt_epoch, pkts_out;
		uint32_t flex1, flex2, flex3, flex4, flex5, flex6, lost;
		uint16_t pkt_epoch, flex7, pacing_gain, cwnd_gain;
		uint8_t inhpts, ininput, use_lt_bw, flex8;
	} u_bbr;
};
#define TCP_LOG_EVENTP(...) do { } while (0)
#endif

#endif
