#if __has_include_next(<linux/limits.h>)
#include_next <linux/limits.h>
#endif
#include "cwndlab_linux.h"
