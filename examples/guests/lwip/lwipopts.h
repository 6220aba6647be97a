/* lwIP as a guest of cwndlab: TCP over IPv4 alone, without a system. Where a value is not said here, it is lwIP's own. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define LWIP_RAW 0
#define LWIP_UDP 0
#define LWIP_ICMP 0
#define LWIP_STATS 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0

/* Memory is the C library's: no pool of fixed size limits a connection. */
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define MEM_ALIGNMENT 8

/* Nobody looks at checksums. */
#define CHECKSUM_GEN_IP 0
#define CHECKSUM_GEN_TCP 0
#define CHECKSUM_CHECK_IP 0
#define CHECKSUM_CHECK_TCP 0

/* Buffers and windows of 256 kB: lwIP's own are those of a small device. */
#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 3
#define TCP_WND (256 * 1024)
#define TCP_SND_BUF (256 * 1024)
#define TCP_SND_QUEUELEN 1000
#define TCP_SNDLOWAT (32 * 1024)
#define MEMP_NUM_TCP_SEG TCP_SND_QUEUELEN
#define LWIP_TCP_SACK_OUT 1

#include "lwip/arch.h"
unsigned lwip_draw(void);
#define LWIP_RAND() lwip_draw()
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port) lwip_draw()

#endif
