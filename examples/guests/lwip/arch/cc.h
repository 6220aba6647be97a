/* What lwIP wants of the compiler and the machine: nothing that it does not find by itself. */
#ifndef CC_H
#define CC_H

#endif
