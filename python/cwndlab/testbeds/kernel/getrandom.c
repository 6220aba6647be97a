/* getrandom(2) of a guest's kernel, which seeds its random numbers with it: a stream that follows from a seed (SplitMix64),
 * instead of the machine's. Preloaded into the process that the kernel is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	static uint64_t state;
	static int begun;
	unsigned char *out = buffer;

	(void)flags;
	if (!begun) {
		const char *seed = getenv("CWNDLAB_GUEST_SEED");

		state = seed ? strtoull(seed, NULL, 10) : 0;
		begun = 1;
	}
	for (size_t i = 0; i < length; i++) {
		uint64_t z = (state += 0x9e3779b97f4a7c15ULL);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		out[i] = (z ^ (z >> 31)) >> 24;
	}
	return (ssize_t)length;
}
