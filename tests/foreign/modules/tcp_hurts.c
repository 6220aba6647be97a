/* Reno that hurts the process it runs in, in the way its knob says, once the window is 20 packets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/module.h>
#include <net/tcp.h>

static unsigned int how, bytes;
module_param(how, uint, 0644);
module_param(bytes, uint, 0644);

static bool done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hurt(struct sock *sk)
{
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct rlimit none = { 0, 0 };
	sigset_t all;
	int i;

	switch (how) {
	case 1:
		sleep(1000);
		break;
	case 2:
		pthread_mutex_lock(&lock);
		pthread_mutex_lock(&lock);
		break;
	case 3:
		raise(SIGSTOP);
		break;
	case 4:
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		for (;;)
			*(volatile bool *)&done = true;
	case 5:
		fork();
		break;
	case 6:
		for (i = 3; i < 1024; i++)
			close(i);
		break;
	case 7:
		while (open("/dev/null", O_RDONLY) >= 0)
			;
		break;
	case 8:
		for (i = 0; i < 100000; i++)
			printf("what a hook says, again and again\n");
		fflush(stdout);
		break;
	case 9:
		if (chdir("/") != 0)
			abort();
		break;
	case 10:
		syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		break;
	case 11:
		close(1);
		break;
	case 13:
		umask(0777);
		break;
	case 14:
		setrlimit(RLIMIT_FSIZE, &none);
		break;
	case 15:
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		break;
	case 16:
		for (i = 3; i < 1024; i++)
			if (write(i, "[no message", 11) < 0)
				continue;
		break;
	case 17:
		if (setresuid(65534, 65534, 65534) != 0)
			abort();
		break;
	case 18:
		signal(SIGVTALRM, SIG_IGN);
		break;
	case 19:
		for (;;)
			*(volatile bool *)&done = true;
	case 20:
		alarm(20);
		break;
	case 21:
		if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
			usleep(1000);
			kill(getppid(), SIGSTOP);
			_exit(0);
		}
		break;
	case 22:
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGUSR1);
		break;
	case 23:
		setitimer(ITIMER_VIRTUAL, &never, NULL);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		break;
	case 12:
		memset((char *)inet_csk_ca(sk) + ICSK_CA_PRIV_SIZE, 1, bytes);
		break;
	}
}

static void hurts_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	if (tcp_sk(sk)->snd_cwnd < 20 || done)
		return;
	done = true;
	hurt(sk);
}

static struct tcp_congestion_ops hurts = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = hurts_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = "hurts",
};

static int __init hurts_register(void)
{
	return tcp_register_congestion_control(&hurts);
}

module_init(hurts_register);
MODULE_LICENSE("Dual BSD/GPL");
