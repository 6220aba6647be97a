/* The C library's, which its other headers need, and FreeBSD's words. */
#include_next <sys/cdefs.h>

#define __FBSDID(id)
#define __unused __attribute__((unused))
#define __used __attribute__((used))
#define __packed __attribute__((packed))
#define __aligned(bytes) __attribute__((aligned(bytes)))
#define __predict_true(truth) __builtin_expect((truth), 1)
#define __predict_false(truth) __builtin_expect((truth), 0)
#ifndef __DECONST
#define __DECONST(type, what) ((type)(uintptr_t)(const void *)(what))
#endif
