/* What lies between the stack, compiled as a kernel, and the machine around it, compiled as a library of user space.
 * Neither side includes the other's headers: types here are C's own. */
#ifndef GUEST_STACK_H
#define GUEST_STACK_H

typedef unsigned long long guest_time;	/* nanoseconds of the run */

#define GUEST_NEVER (~0ULL)
#define GUEST_PAGES 65536	/* bytes of zeros that payload is taken from */

struct guest_socket;

struct guest_ends {
	unsigned local_address, remote_address;	/* host byte order */
	unsigned short local_port, remote_port;
	unsigned mss, send_buffer, receive_buffer;	/* 0: the stack's own */
	int opening;
	const char *cc;
};

/* A sender's figures; times in nanoseconds, the rest in bytes or packets. */
struct guest_figures {
	unsigned long long cwnd, ssthresh, srtt, rto, in_flight, acknowledged, written, lost, window, buffer;
	unsigned recovery, reduction, backoff;	/* in fast recovery, in recovery for an ECN echo, timeouts in a row */
};

/* timers.c */
void guest_set_clock(guest_time now);	/* ticks until `now` pass */
guest_time guest_next_timer(void);
void guest_run_timers(void);	/* those that are due */
void guest_run_interrupts(void);	/* soft interrupts that are pending */

/* stack.c; what returns int returns an errno of FreeBSD's. */
int guest_boot(unsigned address, unsigned mtu);
int guest_set_sysctl(const char *name, const char *value, char *why, unsigned long capacity);
void guest_input(const unsigned char *packet, unsigned long header, unsigned long length);
unsigned long guest_output(unsigned char *buffer, unsigned long capacity);

const char *guest_cc(const char *cc);
int guest_open(struct guest_socket **socket, const struct guest_ends *ends);
void guest_close(struct guest_socket *socket);
int guest_is_open(struct guest_socket *socket);
unsigned long long guest_space(struct guest_socket *socket);
unsigned long long guest_write(struct guest_socket *socket, unsigned long long bytes);
void guest_finish(struct guest_socket *socket);
unsigned long long guest_readable(struct guest_socket *socket);
unsigned long long guest_read(struct guest_socket *socket, unsigned long long most);
int guest_is_at_end(struct guest_socket *socket);
int guest_error(struct guest_socket *socket);
int guest_figures(struct guest_socket *socket, struct guest_figures *figures);

/* machine.c, for the kernel's side; what F-Stack's own files ask for is declared in its headers. */
unsigned long guest_random(void);
extern unsigned char guest_zeros[GUEST_PAGES];

#endif
