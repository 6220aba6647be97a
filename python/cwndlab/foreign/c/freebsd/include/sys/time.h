/* What is compiled along with modules means the C library's. */
#ifdef _KERNEL
#include "cwndlab_freebsd.h"
#else
#include_next <sys/time.h>
#endif
