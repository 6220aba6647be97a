#if __has_include_next(<linux/errno.h>)
#include_next <linux/errno.h>
#endif
#include "cwndlab_linux.h"
