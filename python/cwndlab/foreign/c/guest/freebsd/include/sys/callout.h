/* FreeBSD's timers sleep as long as they are asked to: F-Stack's header cuts what it is given to whole ticks. */
#ifndef GUEST_SYS_CALLOUT_H
#define GUEST_SYS_CALLOUT_H

#include_next <sys/callout.h>

#ifdef _KERNEL
#undef callout_reset_sbt_on
int callout_reset_sbt_on(struct callout *, sbintime_t, sbintime_t, callout_func_t *, void *, int, int);
#endif

#endif
