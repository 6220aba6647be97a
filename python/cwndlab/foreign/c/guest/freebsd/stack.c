/* The stack's side of the door: it boots, has one interface whose packets go to the door, and sockets that nobody waits on. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/lock.h>
#include <sys/malloc.h>
#include <sys/mbuf.h>
#include <sys/mutex.h>
#include <sys/pcpu.h>
#include <sys/proc.h>
#include <sys/protosw.h>
#include <sys/smp.h>
#include <sys/socket.h>
#include <sys/socketvar.h>
#include <sys/sockio.h>
#include <sys/sx.h>
#include <sys/sysctl.h>
#include <sys/uio.h>

#include <vm/vm.h>
#include <vm/vm_extern.h>
#include <vm/uma.h>
#include <vm/uma_int.h>

#include <net/if.h>
#include <net/if_var.h>
#include <net/if_types.h>
#include <net/route.h>
#include <net/route/route_ctl.h>
#include <net/vnet.h>
#include <netinet/in.h>
#include <netinet/in_pcb.h>
#include <netinet/in_systm.h>
#include <netinet/in_var.h>
#include <netinet/ip.h>
#include <netinet/ip_var.h>
#include <netinet/tcp.h>
#include <netinet/tcp_fsm.h>
#include <netinet/tcp_seq.h>
#include <netinet/tcp_timer.h>
#include <netinet/tcp_var.h>

#include "stack.h"

/* Bytes of a mbuf's buffer: what is sent lies in pages, what arrives in clusters, as with a common driver. */
#define SENT_PAGE MJUMPAGESIZE
#define PAGES_AT_ONCE 16

/* Slab of UMA's boot, and buckets of its table of pages. */
#define BOOT_PAGES 16
#define PAGE_BUCKETS 8192

/* Memory that the stack sizes its tables and limits by, bytes. */
#define MEMORY (256UL << 20)

extern cpuset_t all_cpus;

/* F-Stack's start, whose place this takes, has these. */
struct sx proctree_lock;
struct pcpu *pcpup;
struct uma_page_head *uma_page_slab_hash;
int uma_page_mask;
long physmem;

void ff_init_thread0(void);
void mi_startup(void);
void mutex_init(void);
void uma_startup1(vm_offset_t);
void uma_startup2(void);

static struct ifnet *interface;
static struct mbufq outgoing;

/* Interface */

static int
interface_output(struct ifnet *ifp __unused, struct mbuf *m, const struct sockaddr *to, struct route *route __unused)
{
	if (to->sa_family != AF_INET || mbufq_enqueue(&outgoing, m) != 0)
		m_freem(m);
	return (0);
}

static int
interface_transmit(struct ifnet *ifp __unused, struct mbuf *m)
{
	m_freem(m);
	return (0);
}

static void
interface_qflush(struct ifnet *ifp __unused)
{
}

static int
interface_ioctl(struct ifnet *ifp, u_long command, caddr_t data __unused)
{
	if (command == SIOCSIFADDR)
		ifp->if_flags |= IFF_UP;
	return (0);
}

static void
internet(struct sockaddr_in *to, unsigned address, unsigned short port)
{
	bzero(to, sizeof(*to));
	to->sin_len = sizeof(*to);
	to->sin_family = AF_INET;
	to->sin_addr.s_addr = htonl(address);
	to->sin_port = htons(port);
}

static int
give_address(const char *name, unsigned address, unsigned mask)
{
	struct in_aliasreq request;
	struct socket *so;
	int error;

	bzero(&request, sizeof(request));
	strlcpy(request.ifra_name, name, sizeof(request.ifra_name));
	internet(&request.ifra_addr, address, 0);
	internet(&request.ifra_mask, mask, 0);
	if ((error = socreate(AF_INET, &so, SOCK_DGRAM, 0, curthread->td_ucred, curthread)) != 0)
		return (error);
	error = ifioctl(so, SIOCAIFADDR, (caddr_t)&request, curthread);
	soclose(so);
	return (error);
}

/* All others are beyond the interface: checksums are nobody's work, and packets leave one by one. */
static int
attach_interface(unsigned address, unsigned mtu)
{
	struct rt_addrinfo info;
	struct rib_cmd_info done;
	struct sockaddr_in any, mask;
	struct ifaddr *ifa;
	int error;

	mbufq_init(&outgoing, INT_MAX);
	interface = if_alloc(IFT_OTHER);
	if_initname(interface, "guest", 0);
	interface->if_mtu = mtu;
	interface->if_flags = IFF_UP;
	interface->if_drv_flags = IFF_DRV_RUNNING;
	interface->if_output = interface_output;
	interface->if_transmit = interface_transmit;
	interface->if_qflush = interface_qflush;
	interface->if_ioctl = interface_ioctl;
	if_attach(interface);
	interface->if_hwassist = CSUM_IP | CSUM_TCP | CSUM_UDP;
	if ((error = give_address(interface->if_xname, address, 0xffffffff)) != 0)
		return (error);

	internet(&any, 0, 0);
	internet(&mask, 0, 0);
	bzero(&info, sizeof(info));
	info.rti_info[RTAX_DST] = (struct sockaddr *)&any;
	info.rti_info[RTAX_NETMASK] = (struct sockaddr *)&mask;
	CK_STAILQ_FOREACH(ifa, &interface->if_addrhead, ifa_link)
		if (ifa->ifa_addr->sa_family == AF_INET)
			info.rti_ifa = ifa;
	info.rti_info[RTAX_GATEWAY] = interface->if_addr->ifa_addr;
	info.rti_ifp = interface;
	info.rti_flags = RTF_STATIC;
	return (rib_action(RT_DEFAULT_FIB, RTM_ADD, &info, &done));
}

static void
keep(struct mbuf *m __unused)
{
}

/* `length` bytes of zeros, `size` of which count for the socket's buffer. */
static struct mbuf *
zeros(unsigned length, unsigned size)
{
	struct mbuf *m = m_get(M_WAITOK, MT_DATA);

	m_extadd(m, (char *)guest_zeros, size, keep, NULL, NULL, M_RDONLY, EXT_MOD_TYPE);
	m->m_len = length;
	return (m);
}

void
guest_input(const unsigned char *packet, unsigned long header, unsigned long length)
{
	struct mbuf *m = m_gethdr(M_WAITOK, MT_DATA);

	memcpy(mtod(m, void *), packet, header);
	m->m_len = header;
	m->m_pkthdr.len = length;
	m->m_pkthdr.rcvif = interface;
	m->m_pkthdr.csum_flags = CSUM_IP_CHECKED | CSUM_IP_VALID | CSUM_DATA_VALID | CSUM_PSEUDO_HDR;
	m->m_pkthdr.csum_data = 0xffff;
	if (length > header)
		m->m_next = zeros(length - header, MAX(length - header, MCLBYTES));
	ip_input(m);
	guest_run_interrupts();
}

/* The next packet's headers; the length is the packet's. */
unsigned long
guest_output(unsigned char *buffer, unsigned long capacity)
{
	struct mbuf *m = mbufq_dequeue(&outgoing);
	unsigned long length;

	if (m == NULL)
		return (0);
	length = m->m_pkthdr.len;
	m_copydata(m, 0, MIN(MIN(length, capacity), sizeof(struct ip) + 60 + 60), buffer);
	m_freem(m);
	return (length);
}

/* Boot */

/* F-Stack leaves this to the C library, whose memory `free` is not for. */
char *
strdup(const char *text, struct malloc_type *type)
{
	char *copy = malloc(strlen(text) + 1, type, M_WAITOK);

	strcpy(copy, text);
	return (copy);
}

int
guest_boot(unsigned address, unsigned mtu)
{
	int error;

	physmem = MEMORY / PAGE_SIZE;
	pcpup = malloc(sizeof(*pcpup), M_DEVBUF, M_ZERO);
	pcpu_init(pcpup, 0, sizeof(*pcpup));
	PCPU_SET(prvspace, pcpup);
	CPU_SET(0, &all_cpus);
	ff_init_thread0();
	uma_startup1((vm_offset_t)kmem_malloc(BOOT_PAGES * PAGE_SIZE, M_ZERO));
	uma_startup2();
	uma_page_slab_hash = (struct uma_page_head *)kmem_malloc(PAGE_BUCKETS * sizeof(struct uma_page), M_ZERO);
	uma_page_mask = PAGE_BUCKETS - 1;
	mutex_init();
	mi_startup();
	sx_init(&proctree_lock, "proctree");
	guest_run_interrupts();
	if ((error = give_address("lo0", INADDR_LOOPBACK, 0xff000000)) != 0)
		return (error);
	return (attach_interface(address, mtu));
}

/* Sysctls */

static int
same_value(int *oid, size_t length, unsigned kind, const void *value, size_t bytes)
{
	char now[256];
	size_t size = sizeof(now), got;

	if (kernel_sysctl(curthread, oid, length, now, &size, NULL, 0, &got, 0) != 0)
		return (0);
	if ((kind & CTLTYPE) == CTLTYPE_STRING)
		return (strcmp(now, value) == 0);
	return (got == bytes && memcmp(now, value, bytes) == 0);
}

/* A number in C's notation, nothing after it; 0: it is none. */
static int
number(const char *text, long long *value)
{
	char *end;

	*value = strtoq(text, &end, 0);
	return (end != text && *end == '\0');
}

int
guest_set_sysctl(const char *name, const char *value, char *why, unsigned long capacity)
{
	int find[2] = { 0, 3 }, format[CTL_MAXNAME + 2] = { 0, 4 }, oid[CTL_MAXNAME];
	struct { unsigned kind; char text[64]; } is;
	size_t length = sizeof(oid), size = sizeof(is), got, bytes;
	union { int as_int; long as_long; int64_t as_64; uint8_t as_8; uint16_t as_16; char text[256]; } new;
	long long figure = 0;
	int error;

	error = kernel_sysctl(curthread, find, 2, oid, &length, __DECONST(char *, name), strlen(name), &got, 0);
	if (error != 0) {
		snprintf(why, capacity, "sysctl %s: this stack has none of that name", name);
		return (error);
	}
	length = got / sizeof(int);
	memcpy(format + 2, oid, length * sizeof(int));
	if ((error = kernel_sysctl(curthread, format, length + 2, &is, &size, NULL, 0, &got, 0)) != 0)
		return (error);
	if ((is.kind & CTLTYPE) != CTLTYPE_STRING && !number(value, &figure)) {
		snprintf(why, capacity, "sysctl %s: %s is not a whole number", name, value);
		return (EINVAL);
	}
	switch (is.kind & CTLTYPE) {
	case CTLTYPE_INT: case CTLTYPE_UINT: case CTLTYPE_S32: case CTLTYPE_U32:
		new.as_int = figure; bytes = 4; break;
	case CTLTYPE_LONG: case CTLTYPE_ULONG: case CTLTYPE_S64: case CTLTYPE_U64:
		new.as_64 = figure; bytes = 8; break;
	case CTLTYPE_S8: case CTLTYPE_U8:
		new.as_8 = figure; bytes = 1; break;
	case CTLTYPE_S16: case CTLTYPE_U16:
		new.as_16 = figure; bytes = 2; break;
	case CTLTYPE_STRING:
		bytes = strlcpy(new.text, value, sizeof(new.text)) + 1; break;
	default:
		snprintf(why, capacity, "sysctl %s: it is neither a number nor a text", name);
		return (EINVAL);
	}
	error = kernel_sysctl(curthread, oid, length, NULL, NULL, &new, bytes, &got, 0);
	/* What only a loader can set was set before the boot. */
	if (error != 0 && !same_value(oid, length, is.kind, &new, bytes)) {
		snprintf(why, capacity, "sysctl %s: %s is refused (FreeBSD's error %d)", name, value, error);
		return (error);
	}
	return (0);
}

/* Sockets */

struct guest_socket {
	struct socket *so;	/* NULL: nobody has connected yet */
	struct socket *listener;
	char cc[TCP_CA_NAME_MAX];
	unsigned long long written;
	int error;
	bool opened, finished;
};

static struct tcpcb *
control_block(struct guest_socket *s)
{
	struct inpcb *inp;

	if (s->so == NULL || (inp = sotoinpcb(s->so)) == NULL || (inp->inp_flags & (INP_TIMEWAIT | INP_DROPPED)) != 0)
		return (NULL);
	return (intotcpcb(inp));
}

static int
set_option(struct socket *so, int level, int name, int value)
{
	return (so_setsockopt(so, level, name, &value, sizeof(value)));
}

/* The congestion control that a name asks for. */
const char *
guest_cc(const char *cc)
{
	const char *slash = strchr(cc, '/');

	return (slash != NULL ? slash + 1 : strcmp(cc, "bbr") == 0 ? "newreno" : cc);
}

static int
set_cc(struct socket *so, const char *cc)
{
	return (so_setsockopt(so, IPPROTO_TCP, TCP_CONGESTION, __DECONST(char *, cc), strlen(cc)));
}

/* `cubic` on the machine's default stack of TCP; `rack/cubic` on RACK; `bbr` is a stack itself. */
static int
set_stack(struct socket *so, const char *cc)
{
	struct tcp_function_set set = { .function_set_name = "bbr" };
	const char *slash = strchr(cc, '/');

	if (slash == NULL && strcmp(cc, "bbr") != 0)
		return (0);
	if (slash != NULL)
		strlcpy(set.function_set_name, cc, MIN(sizeof(set.function_set_name), slash - cc + 1));
	return (so_setsockopt(so, IPPROTO_TCP, TCP_FUNCTION_BLK, &set, sizeof(set)));
}

static int
prepare(struct socket *so, const struct guest_ends *ends)
{
	int error = 0;

	so->so_state |= SS_NBIO;
	if (ends->send_buffer != 0)
		error = set_option(so, SOL_SOCKET, SO_SNDBUF, ends->send_buffer);
	if (error == 0 && ends->receive_buffer != 0)
		error = set_option(so, SOL_SOCKET, SO_RCVBUF, ends->receive_buffer);
	if (error == 0 && ends->mss != 0)
		error = set_option(so, IPPROTO_TCP, TCP_MAXSEG, ends->mss);
	if (error == 0)
		error = set_stack(so, ends->cc);
	if (error == 0)
		error = set_cc(so, guest_cc(ends->cc));
	return (error);
}

int
guest_open(struct guest_socket **socket, const struct guest_ends *ends)
{
	struct guest_socket *s;
	struct sockaddr_in local, remote;
	struct socket *so;
	int error;

	if ((error = socreate(AF_INET, &so, SOCK_STREAM, IPPROTO_TCP, curthread->td_ucred, curthread)) != 0)
		return (error);
	s = malloc(sizeof(*s), M_DEVBUF, M_WAITOK | M_ZERO);
	strlcpy(s->cc, guest_cc(ends->cc), sizeof(s->cc));
	internet(&local, ends->local_address, ends->local_port);
	internet(&remote, ends->remote_address, ends->remote_port);
	error = prepare(so, ends);
	if (error == 0)
		error = sobind(so, (struct sockaddr *)&local, curthread);
	if (error == 0 && ends->opening) {
		s->so = so;
		if ((error = soconnect(so, (struct sockaddr *)&remote, curthread)) == EINPROGRESS)
			error = 0;
	} else if (error == 0) {
		s->listener = so;
		error = solisten(so, 1, curthread);
	}
	if (error != 0) {
		soclose(so);
		free(s, M_DEVBUF);
		return (error);
	}
	guest_run_interrupts();
	*socket = s;
	return (0);
}

/* Takes the connection that the listener has, if it has one. */
static void
accept_one(struct guest_socket *s)
{
	struct sockaddr *peer = NULL;
	struct socket *so;

	if (s->so != NULL || s->listener == NULL || TAILQ_EMPTY(&s->listener->sol_comp))
		return;
	SOLISTEN_LOCK(s->listener);
	if (solisten_dequeue(s->listener, &so, ACCEPT4_INHERIT) != 0)
		return;
	if (soaccept(so, &peer) == 0)
		s->so = so;
	else
		soclose(so);
	if (peer != NULL)
		free(peer, M_SONAME);
	if (s->so == NULL)
		return;
	set_cc(so, s->cc);
	soclose(s->listener);
	s->listener = NULL;
}

static void
look(struct guest_socket *s)
{
	accept_one(s);
	if (s->so == NULL)
		return;
	if ((s->so->so_state & SS_ISCONNECTED) != 0)
		s->opened = true;
	if (s->so->so_error != 0 && s->error == 0)
		s->error = s->so->so_error;
	if (s->opened && s->finished && (s->so->so_snd.sb_state & SBS_CANTSENDMORE) == 0)
		soshutdown(s->so, SHUT_WR);
}

void
guest_close(struct guest_socket *s)
{
	look(s);
	if (s->so != NULL)
		soclose(s->so);
	if (s->listener != NULL)
		soclose(s->listener);
	free(s, M_DEVBUF);
	guest_run_interrupts();
}

int
guest_is_open(struct guest_socket *s)
{
	look(s);
	return (s->opened && s->error == 0);
}

/* What a blocking writer would be let write now: as long as the low-water mark is free. */
unsigned long long
guest_space(struct guest_socket *s)
{
	long space;

	if (!guest_is_open(s) || s->finished || (s->so->so_snd.sb_state & SBS_CANTSENDMORE) != 0)
		return (0);
	space = sbspace(&s->so->so_snd);
	return (space < s->so->so_snd.sb_lowat ? 0 : space);
}

unsigned long long
guest_write(struct guest_socket *s, unsigned long long bytes)
{
	struct mbuf *top, **tail;
	unsigned long long taken = 0, space;
	unsigned piece, page;

	while (taken < bytes && (space = guest_space(s)) > 0) {
		piece = MIN(MIN(bytes - taken, space), PAGES_AT_ONCE * SENT_PAGE);
		top = NULL;
		for (tail = &top, page = 0; page < piece; tail = &(*tail)->m_next, page += SENT_PAGE)
			*tail = zeros(MIN(piece - page, SENT_PAGE), SENT_PAGE);
		if (sosend(s->so, NULL, NULL, top, NULL, MSG_DONTWAIT, curthread) != 0)
			break;
		taken += piece;
	}
	s->written += taken;
	guest_run_interrupts();
	return (taken);
}

void
guest_finish(struct guest_socket *s)
{
	s->finished = true;
	look(s);
	guest_run_interrupts();
}

unsigned long long
guest_readable(struct guest_socket *s)
{
	look(s);
	return (s->so == NULL ? 0 : sbavail(&s->so->so_rcv));
}

unsigned long long
guest_read(struct guest_socket *s, unsigned long long most)
{
	struct uio uio;
	struct mbuf *read = NULL;
	int flags = MSG_DONTWAIT;
	unsigned long long wanted = MIN(most, guest_readable(s));

	if (wanted == 0)
		return (0);
	bzero(&uio, sizeof(uio));
	uio.uio_resid = wanted;
	uio.uio_td = curthread;
	if (soreceive(s->so, NULL, &uio, &read, NULL, &flags) != 0)
		return (0);
	m_freem(read);
	guest_run_interrupts();
	return (wanted - uio.uio_resid);
}

int
guest_is_at_end(struct guest_socket *s)
{
	return (guest_readable(s) == 0 && s->so != NULL && s->error == 0 &&
	    (s->so->so_rcv.sb_state & SBS_CANTRCVMORE) != 0);
}

int
guest_error(struct guest_socket *s)
{
	look(s);
	return (s->error);
}

/* 0: there is no sender yet, or no more. */
int
guest_figures(struct guest_socket *s, struct guest_figures *f)
{
	struct tcpcb *tp;
	struct tcp_info info;
	struct sockopt option;

	look(s);
	if ((tp = control_block(s)) == NULL)
		return (0);
	bzero(&info, sizeof(info));
	bzero(&option, sizeof(option));
	option.sopt_dir = SOPT_GET;
	option.sopt_level = IPPROTO_TCP;
	option.sopt_name = TCP_INFO;
	option.sopt_val = &info;
	option.sopt_valsize = sizeof(info);
	if (sogetopt(s->so, &option) != 0)
		return (0);
	bzero(f, sizeof(*f));
	f->cwnd = tp->snd_cwnd;
	f->ssthresh = tp->snd_ssthresh >= (TCP_MAXWIN << TCP_MAX_WINSHIFT) ? GUEST_NEVER : tp->snd_ssthresh;
	f->srtt = info.tcpi_rtt * 1000ULL;
	f->rto = info.tcpi_rto * 1000ULL;
	f->in_flight = tp->snd_max - tp->snd_una;
	f->written = s->written;
	f->acknowledged = s->written - MIN(s->written, sbavail(&s->so->so_snd));
	f->lost = info.tcpi_snd_rexmitpack;
	f->window = tp->snd_wnd;
	f->buffer = s->so->so_snd.sb_hiwat;
	f->recovery = IN_FASTRECOVERY(tp->t_flags) != 0;
	f->reduction = IN_CONGRECOVERY(tp->t_flags) != 0;
	f->backoff = tp->t_rxtshift;
	return (1);
}
