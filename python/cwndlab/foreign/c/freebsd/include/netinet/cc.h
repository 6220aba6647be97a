#include "cwndlab_freebsd.h"
