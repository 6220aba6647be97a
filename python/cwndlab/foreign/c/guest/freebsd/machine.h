/* What the door asks of the machine. */
#ifndef GUEST_MACHINE_H
#define GUEST_MACHINE_H

#include <stdint.h>

int machine_begin(const uint8_t seed[32]);	/* -1: there is not so much memory */
void machine_end(void);
void machine_tunable(const char *name, const char *value);

#endif
