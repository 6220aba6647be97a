/* What a congestion control written for Linux finds of the kernel: the documented part of its interface, in our words.
 *
 * CWNDLAB_LINUX is the version, 60800 for 6.8. Layout and order of fields are ours; a module is compiled against names.
 * Here is what all releases have; the connection and its hooks are in the header of the release's own, included below.
 */
#ifndef CWNDLAB_LINUX_H
#define CWNDLAB_LINUX_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cwndlab/runtime.h"

/* Types (linux/types.h). */
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u64 ktime_t_ns;
typedef unsigned int gfp_t;

#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S8_MAX INT8_MAX
#define S8_MIN INT8_MIN
#define S16_MAX INT16_MAX
#define S16_MIN INT16_MIN
#define S32_MAX INT32_MAX
#define S32_MIN INT32_MIN
#define S64_MAX INT64_MAX
#define S64_MIN INT64_MIN
#define U32_C(x) UINT32_C(x)
#define BITS_PER_BYTE 8
#define BITS_PER_TYPE(type) ((int)sizeof(type) * BITS_PER_BYTE)
#define BITS_PER_LONG BITS_PER_TYPE(long)
typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;
typedef u16 __sum16;
typedef unsigned int uint;
typedef struct { int counter; } atomic_t;
#define ATOMIC_INIT(value) { value }
static inline int atomic_read(const atomic_t *a) { return a->counter; }
static inline void atomic_set(atomic_t *a, int value) { a->counter = value; }
static inline int atomic_add_return(int value, atomic_t *a) { return a->counter += value; }
#define atomic_add(value, a) ((void)atomic_add_return(value, a))
#define atomic_sub(value, a) atomic_add(-(value), a)
#define atomic_inc(a) atomic_add(1, a)
#define atomic_dec(a) atomic_add(-1, a)
#define atomic_inc_return(a) atomic_add_return(1, a)
#define atomic_dec_return(a) atomic_add_return(-1, a)
#define atomic_dec_and_test(a) (atomic_dec_return(a) == 0)
#define LINUX_VERSION_CODE (((CWNDLAB_LINUX / 10000) << 16) + ((CWNDLAB_LINUX / 100 % 100) << 8))
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))

/* Options of a kernel (linux/kconfig.h): 1 where it is built in, as a macro that is not there is none. */
#define CWNDLAB_SECOND(first, second, ...) second
#define CWNDLAB_IS(first) CWNDLAB_SECOND(first 1, 0)
#define CWNDLAB_WORD_1 0,
#define CWNDLAB_PASTE(value) CWNDLAB_IS(CWNDLAB_WORD_##value)
#define IS_BUILTIN(option) CWNDLAB_PASTE(option)
#define IS_ENABLED(option) IS_BUILTIN(option)
#define IS_REACHABLE(option) IS_BUILTIN(option)
#define IS_MODULE(option) 0
#define CONFIG_IPV6 1
#define CONFIG_INET 1
#define CONFIG_64BIT 1

/* Compilers and annotations. */
#define __init
#define __exit
#define __read_mostly
#define __ro_after_init
#define __initdata
#define __user
#define __force
#define __rcu
#define __percpu
#define __must_check __attribute__((warn_unused_result))
#define __always_inline inline __attribute__((always_inline))
#define __aligned(x) __attribute__((aligned(x)))
#define __bpf_kfunc_nothing
#define ____cacheline_aligned
#define barrier() __asm__ volatile("" : : : "memory")
#define __always_unused __attribute__((unused))
#define __maybe_unused __attribute__((unused))
#define __packed __attribute__((packed))
#define __pure __attribute__((pure))
#define __used __attribute__((used))
#define noinline __attribute__((noinline))
#define __bpf_kfunc __attribute__((unused))
#define __bpf_kfunc_start_defs()
#define __bpf_kfunc_end_defs()
#define fallthrough __attribute__((fallthrough))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define ACCESS_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define cmpxchg(where, before, after) \
	({ __typeof__(*(where)) _was = *(where); if (_was == (before)) *(where) = (after); _was; })
#define BUILD_BUG_ON(x) _Static_assert(!(x), "BUILD_BUG_ON: " #x)
#define BUILD_BUG_ON_MSG(x, text) _Static_assert(!(x), text)
#define BUG() cwndlab_bug("BUG()")
#define BUG_ON(x) do { if (unlikely(x)) cwndlab_bug("BUG_ON: " #x); } while (0)
#define WARN_ON(x) unlikely(!!(x))
#define WARN_ON_ONCE(x) unlikely(!!(x))
#define WARN_ONCE(x, ...) unlikely(!!(x))
#define EXPORT_SYMBOL(x) extern int cwndlab_exported_##x
#define EXPORT_SYMBOL_GPL(x) extern int cwndlab_exported_##x
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define KERN_DEBUG ""
#define KERN_INFO ""
#define KERN_NOTICE ""
#define KERN_WARNING ""
#define KERN_ERR ""
#define KERN_ALERT ""
#define pr_devel(...) do { } while (0)
#define pr_debug_ratelimited(...) do { } while (0)
#define pr_info_ratelimited(...) do { } while (0)
#define pr_warn_ratelimited(...) do { } while (0)
#define pr_info_once(...) do { } while (0)
#define pr_err_once(...) do { } while (0)
#define pr_alert(...) do { } while (0)
#define pr_crit(...) do { } while (0)
#define net_info_ratelimited(...) do { } while (0)
#define printk_ratelimited(...) do { } while (0)
#define printk_once(...) do { } while (0)
#define trace_printk(...) do { } while (0)
#define pr_debug(...) do { } while (0)
#define pr_info(...) do { } while (0)
#define pr_notice(...) do { } while (0)
#define pr_warn(...) do { } while (0)
#define pr_warn_once(...) do { } while (0)
#define pr_err(...) do { } while (0)
#define printk(...) do { } while (0)

/* Arithmetic (linux/minmax.h, linux/math64.h, linux/bitops.h). */
#define min(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#define min3(a, b, c) ({ __auto_type _c3 = (c); __auto_type _ab = min(a, b); _ab < _c3 ? _ab : _c3; })
#define max3(a, b, c) ({ __auto_type _c3 = (c); __auto_type _ab = max(a, b); _ab > _c3 ? _ab : _c3; })
#define min_t(type, a, b) ({ type _at = (a), _bt = (b); _at < _bt ? _at : _bt; })
#define max_t(type, a, b) ({ type _at = (a), _bt = (b); _at > _bt ? _at : _bt; })
#define min_not_zero(a, b) \
	({ __auto_type _x = (a); __auto_type _y = (b); _x == 0 ? _y : _y == 0 ? _x : _x < _y ? _x : _y; })
#define clamp(x, low, high) ({ __auto_type _v = (x); __auto_type _l = (low); __auto_type _h = (high); \
	_v < _l ? _l : _v > _h ? _h : _v; })
#define clamp_t(type, x, low, high) ({ type _v = (x), _l = (low), _h = (high); _v < _l ? _l : _v > _h ? _h : _v; })
#define clamp_val(x, low, high) clamp_t(__typeof__(x), x, low, high)
#define swap(a, b) do { __auto_type _s = (a); (a) = (b); (b) = _s; } while (0)
#define abs(x) ({ __auto_type _x = (x); _x < 0 ? -_x : _x; })
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST(x, d) ({ __auto_type _x = (x); __auto_type _d = (d); \
	(((__typeof__(_x))-1) > 0 || ((__typeof__(_d))-1) > 0 || ((_x > 0) == (_d > 0))) \
		? (_x + _d / 2) / _d : (_x - _d / 2) / _d; })
#define do_div(n, by) ({ u32 _by = (by); u32 _rest = (u64)(n) % _by; (n) = (u64)(n) / _by; _rest; })
#define BIT(n) (1UL << (n))

static inline u64 div_u64_rem(u64 a, u32 b, u32 *rest) { *rest = a % b; return a / b; }
static inline u64 div64_u64_rem(u64 a, u64 b, u64 *rest) { *rest = a % b; return a / b; }
static inline u64 mul_u64_u32_shr(u64 a, u32 b, unsigned int by) { return ((unsigned __int128)a * b) >> by; }
static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int by) { return ((unsigned __int128)a * b) >> by; }
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 by) { return ((unsigned __int128)a * b) / by; }
static inline u64 div_u64(u64 a, u32 b) { return a / b; }
static inline s64 div_s64(s64 a, s32 b) { return a / b; }
static inline u64 div64_u64(u64 a, u64 b) { return a / b; }
static inline s64 div64_s64(s64 a, s64 b) { return a / b; }
static inline u64 mul_u32_u32(u32 a, u32 b) { return (u64)a * b; }
static inline u32 reciprocal_scale(u32 value, u32 below) { return ((u64)value * below) >> 32; }
#define div64_ul(a, b) div64_u64(a, b)
#define div64_long(a, b) div64_s64(a, b)
static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
static inline unsigned long __fls(unsigned long x) { return 63 - __builtin_clzl(x); }
static inline unsigned long __ffs(unsigned long x) { return __builtin_ctzl(x); }
static inline int ffs_of(int x) { return __builtin_ffs(x); }
static inline unsigned int hweight32(u32 x) { return __builtin_popcount(x); }
static inline unsigned long roundup_pow_of_two(unsigned long x) { return x < 2 ? 1 : 1UL << (64 - __builtin_clzl(x - 1)); }
static inline unsigned long rounddown_pow_of_two(unsigned long x) { return 1UL << __fls(x); }
static inline int ilog2(u64 x) { return fls64(x) - 1; }
static inline bool is_power_of_2(unsigned long x) { return x && !(x & (x - 1)); }
u32 int_sqrt(unsigned long x);

/* Memory (linux/slab.h). */
#define GFP_KERNEL 0u
#define GFP_ATOMIC 1u
#define GFP_NOWAIT 2u
#define __GFP_NOWARN 4u
#define kmalloc(size, flags) cwndlab_alloc(size)
#define kzalloc(size, flags) cwndlab_alloc(size)
#define kcalloc(n, size, flags) cwndlab_alloc((size_t)(n) * (size))
#define kmalloc_array(n, size, flags) cwndlab_alloc((size_t)(n) * (size))
#if CWNDLAB_LINUX >= 70000
#define kmalloc_obj(what, ...) ((__typeof__(what) *)cwndlab_alloc(sizeof(what)))
#define kmalloc_objs(what, n, ...) ((__typeof__(what) *)cwndlab_alloc((size_t)(n) * sizeof(what)))
#define kzalloc_obj(what, ...) kmalloc_obj(what)
#define kzalloc_objs(what, n, ...) kmalloc_objs(what, n)
#endif
#define kfree(p) cwndlab_free((void *)(p))
#define kvmalloc(size, flags) cwndlab_alloc(size)
#define kvzalloc(size, flags) cwndlab_alloc(size)
#define kvfree(p) kfree(p)
#define vmalloc(size) cwndlab_alloc(size)
#define vzalloc(size) cwndlab_alloc(size)
#define vfree(p) kfree(p)

/* Rings of entries that a head begins (linux/list.h). */
struct list_head { struct list_head *next, *prev; };
#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)
static inline void INIT_LIST_HEAD(struct list_head *head) { head->next = head->prev = head; }
static inline void cwndlab_list_join(struct list_head *first, struct list_head *second)
{
	first->next = second;
	second->prev = first;
}
static inline void list_add(struct list_head *entry, struct list_head *head)
{
	cwndlab_list_join(entry, head->next);
	cwndlab_list_join(head, entry);
}
static inline void list_add_tail(struct list_head *entry, struct list_head *head) { list_add(entry, head->prev); }
static inline void list_del(struct list_head *entry)
{
	cwndlab_list_join(entry->prev, entry->next);
	entry->next = entry->prev = NULL;
}
static inline void list_del_init(struct list_head *entry) { list_del(entry); INIT_LIST_HEAD(entry); }
static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}
static inline bool list_empty(const struct list_head *head) { return head->next == head; }
#define list_entry(p, type, member) container_of(p, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_for_each(at, head) for (at = (head)->next; at != (head); at = at->next)
#define list_for_each_safe(at, after, head) \
	for (at = (head)->next, after = at->next; at != (head); at = after, after = at->next)
#define list_for_each_entry(at, head, member) \
	for (at = list_first_entry(head, __typeof__(*at), member); &at->member != (head); \
	     at = list_first_entry(&at->member, __typeof__(*at), member))
#define list_for_each_entry_safe(at, after, head, member) \
	for (at = list_first_entry(head, __typeof__(*at), member), \
	     after = list_first_entry(&at->member, __typeof__(*at), member); &at->member != (head); \
	     at = after, after = list_first_entry(&at->member, __typeof__(*at), member))

/* Time: the host's clock. `#if HZ < 1000` sees 0, so that a module takes the way that is right for any frequency. */
extern int cwndlab_hz;
#define HZ cwndlab_hz
#define jiffies ((unsigned long)cwndlab_host.ticks)
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define USEC_PER_MSEC 1000L
#define USEC_PER_SEC 1000000L
#define MSEC_PER_SEC 1000L
#define USEC_PER_JIFFY ((unsigned int)(USEC_PER_SEC / HZ))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
static inline u64 get_jiffies_64(void) { return cwndlab_host.ticks; }
#define jiffies_64 ((u64)cwndlab_host.ticks)
static inline unsigned long get_seconds(void) { return cwndlab_host.now_ns / NSEC_PER_SEC; }
static inline u64 sched_clock(void) { return cwndlab_host.now_ns; }
static inline u64 local_clock(void) { return cwndlab_host.now_ns; }
static inline unsigned long usecs_to_jiffies(unsigned int us) { return DIV_ROUND_UP((u64)us, USEC_PER_JIFFY); }
static inline unsigned long msecs_to_jiffies(unsigned int ms) { return DIV_ROUND_UP((u64)ms * HZ, 1000u); }
static inline unsigned int jiffies_to_usecs(unsigned long j) { return USEC_PER_JIFFY * j; }
static inline unsigned int jiffies_to_msecs(unsigned long j) { return j * 1000 / HZ; }

/* Randomness: the connection's stream. */
void get_random_bytes(void *where, size_t size);

/* Modules (linux/module.h, linux/moduleparam.h). */
struct module;
#define THIS_MODULE ((struct module *)0)
#define MODULE_AUTHOR(x) extern int cwndlab_exported_author
#define MODULE_DESCRIPTION(x) extern int cwndlab_exported_description
#define MODULE_LICENSE(x) extern int cwndlab_exported_license
#define MODULE_VERSION(x) extern int cwndlab_exported_version
#define MODULE_ALIAS(x) extern int cwndlab_exported_alias
#define MODULE_PARM_DESC(name, text) extern int cwndlab_exported_text
#define module_init(f) CWNDLAB_GATHER("cwndlab_inits") static int (*cwndlab_init)(void) = f
#define module_exit(f) CWNDLAB_GATHER("cwndlab_exits") static void (*cwndlab_exit)(void) = f

struct kernel_param {
	const char *name;
	void *arg;
};
struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *text, const struct kernel_param *param);
	void (*free)(void *arg);
};
int param_set_int(const char *text, const struct kernel_param *param);
int param_set_uint(const char *text, const struct kernel_param *param);
int param_get_int(char *text, const struct kernel_param *param);
int param_get_uint(char *text, const struct kernel_param *param);
int param_set_uint_minmax(const char *text, const struct kernel_param *param, unsigned int low, unsigned int high);
int kstrtouint(const char *text, unsigned int base, unsigned int *value);
int kstrtoint(const char *text, unsigned int base, int *value);
int cwndlab_set_param(struct cwndlab_variable *variable, int64_t value);

#define CWNDLAB_KNOB(knob, place, sort, setter, ops) \
	static struct cwndlab_variable cwndlab_knob_##knob = { #knob, (void *)(place), sort, sizeof(*(place)), \
		1, 0, 0, setter, (void *)(ops) }; \
	CWNDLAB_GATHER("cwndlab_knobs") static struct cwndlab_variable *cwndlab_knob_at_##knob = &cwndlab_knob_##knob
#define CWNDLAB_SORT(place) (_Generic(*(place), bool: 'b', default: ((__typeof__(*(place)))-1 < 1 ? 'i' : 'u')))
#define module_param_named(knob, variable, type, mode) CWNDLAB_KNOB(knob, &variable, CWNDLAB_SORT(&variable), NULL, NULL)
#define module_param(variable, type, mode) module_param_named(variable, variable, type, mode)
#define module_param_cb(knob, operations, place, mode) \
	CWNDLAB_KNOB(knob, place, CWNDLAB_SORT(place), cwndlab_set_param, operations)

/* Options of sockets are never set here; a module that takes one has the function for it, and nobody calls it. */
typedef struct { void *user; } sockptr_t;
#define _LINUX_SOCKPTR_H
#define _TRANSP_V6_H
static inline int copy_from_sockptr(void *to, sockptr_t from, size_t size) { (void)to; (void)from; (void)size; return -EFAULT; }
static inline unsigned long copy_from_user(void *to, const void *from, unsigned long n) { (void)to; (void)from; return n; }
static inline unsigned long copy_to_user(void *to, const void *from, unsigned long n) { (void)to; (void)from; return n; }
struct sock;
struct proto {
	char name[32];
	int (*setsockopt)(struct sock *sk, int level, int option, sockptr_t value, unsigned int size);
	int (*getsockopt)(struct sock *sk, int level, int option, char *value, int *size);
};
extern struct proto tcp_prot, tcpv6_prot;
enum { AF_INET = 2, AF_INET6 = 10, IPPROTO_TCP = 6 };

/* Sockets. Memory of one is that of all: a tcp_sock begins with an inet_connection_sock, that with a sock. */
struct net {
	struct { int sysctl_tcp_min_tso_segs, sysctl_tcp_ecn, sysctl_tcp_slow_start_after_idle; } ipv4;
};
struct dst_entry;
struct sock {
	u16 sk_family;
	u8 sk_state;
	struct proto *sk_prot;
	u32 sk_pacing_status;
#if CWNDLAB_LINUX < 42000
	u32 sk_pacing_rate, sk_max_pacing_rate;			/* bytes a second */
#else
	unsigned long sk_pacing_rate, sk_max_pacing_rate;	/* bytes a second */
#endif
	u8 sk_pacing_shift;
	u32 sk_gso_max_size;
	u16 sk_gso_max_segs;
	bool cwndlab_gso;
};
enum {
	TCP_ESTABLISHED = 1, TCP_SYN_SENT, TCP_SYN_RECV, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_TIME_WAIT, TCP_CLOSE, TCP_CLOSE_WAIT,
	TCP_LAST_ACK, TCP_LISTEN, TCP_CLOSING, TCP_NEW_SYN_RECV,
};
enum { SK_PACING_NONE, SK_PACING_NEEDED, SK_PACING_FQ };

#if CWNDLAB_LINUX < 40000
#define ICSK_CA_PRIV_SIZE 64
#elif CWNDLAB_LINUX < 42000
#define ICSK_CA_PRIV_SIZE 88
#else
#define ICSK_CA_PRIV_SIZE 104
#endif
#define TCP_CA_NAME_MAX 16
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
#define TCPF_CA_Open (1 << TCP_CA_Open)
#define TCPF_CA_Disorder (1 << TCP_CA_Disorder)
#define TCPF_CA_CWR (1 << TCP_CA_CWR)
#define TCPF_CA_Recovery (1 << TCP_CA_Recovery)
#define TCPF_CA_Loss (1 << TCP_CA_Loss)

struct inet_connection_sock {
	struct sock sk;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state;
	u8 icsk_retransmits;
	u32 icsk_rto;		/* jiffies */
	struct { u8 pending; u16 rcv_mss; } icsk_ack;
	u64 (*cwndlab_priv)[ICSK_CA_PRIV_SIZE / sizeof(u64)];
};
/* The module's own block is elsewhere, before memory that nobody may touch. */
#define icsk_ca_priv cwndlab_priv[0]

struct tcp_options_received {
	u32 rcv_tsval, rcv_tsecr;
	u16 saw_tstamp : 1, tstamp_ok : 1, sack_ok : 3;
};

#define tcp_sk(s) ((struct tcp_sock *)(s))
#define inet_csk(s) ((struct inet_connection_sock *)(s))
#define inet_csk_ca(s) ((void *)inet_csk(s)->icsk_ca_priv)
extern struct net cwndlab_net;
#define sock_net(s) ((void)(s), &cwndlab_net)
#define dev_net(device) (&cwndlab_net)
static inline struct dst_entry *__sk_dst_get(const struct sock *sk) { (void)sk; return NULL; }
#define sk_dst_get(s) __sk_dst_get(s)
#define dst_metric(dst, what) ((void)(dst), 0u)
#define RTAX_INITCWND 11
#define TCP_INIT_CWND 10
#define TCP_MIN_MSS 88U
#define TCP_MSS_DEFAULT 536U
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define MAX_TCP_HEADER 320
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_ECN_OK 1
#define TCP_ECN_QUEUE_CWR 2
#define TCP_ECN_DEMAND_CWR 4
#define TCP_ECN_SEEN 8

struct tcpvegas_info { u32 tcpv_enabled, tcpv_rttcnt, tcpv_rtt, tcpv_minrtt; };
enum { INET_DIAG_VEGASINFO = 3 };

static inline bool before(u32 a, u32 b) { return (s32)(a - b) < 0; }
#define after(a, b) before(b, a)
static inline bool between(u32 x, u32 low, u32 high) { return high - low >= x - low; }

#if CWNDLAB_LINUX < 40000
#include "cwndlab_linux_3_9.h"
#else
#include "cwndlab_linux_4.h"
#endif

/* What a module may ask and do in every release. */
int tcp_register_congestion_control(struct tcp_congestion_ops *ops);
void tcp_unregister_congestion_control(struct tcp_congestion_ops *ops);
extern struct tcp_congestion_ops tcp_reno;
u32 tcp_reno_ssthresh(struct sock *sk);
u32 tcp_current_ssthresh(const struct sock *sk);
static inline bool tcp_in_initial_slowstart(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}
static inline u32 tcp_left_out(const struct tcp_sock *tp) { return tp->sacked_out + tp->lost_out; }
static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tcp_left_out(tp) + tp->retrans_out;
}
static inline bool tcp_in_cwnd_reduction(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state == TCP_CA_CWR || inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery;
}

#endif
