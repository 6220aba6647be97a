#include "cwndlab_linux.h"
