/* CoDel's arithmetic of time (include/net/codel.h): units of 1,024 ns, and 1/sqrt(number of drops) as a fraction of 16 bits. */
#ifndef CWNDLAB_NET_CODEL_H
#define CWNDLAB_NET_CODEL_H

#include "cwndlab_linux.h"

typedef u32 codel_time_t;
typedef s32 codel_tdiff_t;
#define CODEL_SHIFT 10
#define MS2TIME(ms) ((codel_time_t)((u64)(ms) * NSEC_PER_MSEC >> CODEL_SHIFT))
#define REC_INV_SQRT_BITS 16
#define REC_INV_SQRT_SHIFT (32 - REC_INV_SQRT_BITS)

static inline codel_time_t codel_get_time(void) { return cwndlab_host.now_ns >> CODEL_SHIFT; }
static inline u32 codel_time_to_us(codel_time_t time) { return ((u64)time << CODEL_SHIFT) / NSEC_PER_USEC; }
#define codel_time_after(a, b) ((codel_tdiff_t)((b) - (a)) < 0)
#define codel_time_after_eq(a, b) ((codel_tdiff_t)((a) - (b)) >= 0)
#define codel_time_before(a, b) codel_time_after(b, a)
#define codel_time_before_eq(a, b) codel_time_after_eq(b, a)

#endif
