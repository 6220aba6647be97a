/* The machine around the stack: memory, random numbers, the loader's variables and the console. It stands in for F-Stack's
 * files of the same purpose, and asks nothing of its own machine but memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "machine.h"
#include "stack.h"

uint8_t guest_zeros[GUEST_PAGES];

/* Memory: one area, reserved whole, used from its beginning, given back at the end. A piece that is free is kept for the next
 * of its size class, which is a power of two; whole pages have no header, as the stack wants them at their boundary. */
#define AREA (8ULL << 30)
#define PAGE 4096ULL
#define CLASSES 40

struct piece {
	uint64_t class;	/* what is free holds the next one here instead */
	uint64_t unused;
};

static uint8_t *area;
static uint64_t used;
static void *free_pieces[CLASSES], *free_pages[CLASSES];

static int
class_of(uint64_t size)
{
	int class = 5;

	while ((1ULL << class) < size)
		class++;
	return class;
}

static void *
take(void **list, uint64_t size, uint64_t boundary)
{
	void *at = *list;

	if (at != NULL) {
		memcpy(list, at, sizeof(*list));
		return at;
	}
	used = (used + boundary - 1) & ~(boundary - 1);
	if (used + size > AREA)
		return NULL;
	at = area + used;
	used += size;
	return at;
}

static void
put(void **list, void *at)
{
	memcpy(at, list, sizeof(*list));
	*list = at;
}

void *
ff_malloc(uint64_t size)
{
	int class = class_of(size + sizeof(struct piece));
	struct piece *piece = take(&free_pieces[class], 1ULL << class, sizeof(struct piece));

	if (piece == NULL)
		return NULL;
	piece->class = class;
	return piece + 1;
}

void
ff_free(void *at)
{
	struct piece *piece = at;

	if (at == NULL)
		return;
	piece--;
	put(&free_pieces[piece->class], piece);
}

void *
ff_realloc(void *at, uint64_t size)
{
	uint64_t had = at == NULL ? 0 : (1ULL << ((struct piece *)at - 1)->class) - sizeof(struct piece);
	void *new;

	if (at != NULL && size <= had)
		return at;
	if ((new = ff_malloc(size)) == NULL)
		return NULL;
	if (at != NULL)
		memcpy(new, at, had);
	ff_free(at);
	return new;
}

void *
ff_mmap(void *at, uint64_t length, int protection, int flags, int file, uint64_t offset)
{
	int class = class_of(length < PAGE ? PAGE : length);
	void *pages = take(&free_pages[class], 1ULL << class, PAGE);

	(void)at, (void)protection, (void)flags, (void)file, (void)offset;
	if (pages == NULL)
		abort();
	return memset(pages, 0, length);
}

int
ff_munmap(void *at, uint64_t length)
{
	put(&free_pages[class_of(length < PAGE ? PAGE : length)], at);
	return 0;
}

/* Random numbers, all from the machine's seed: SplitMix64 for the stack's strong ones, and the C library's random() for its weak
 * ones. */
static uint64_t strong;
static struct random_data weak;
static char weak_state[128];

static uint64_t
draw(void)
{
	uint64_t z = strong += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

void
ff_arc4rand(void *to, unsigned length, int reseed)
{
	uint8_t *byte = to;

	(void)reseed;
	while (length-- > 0)
		*byte++ = draw() >> 56;
}

uint32_t
ff_arc4random(void)
{
	return draw() >> 32;
}

unsigned long
guest_random(void)
{
	int32_t value;

	random_r(&weak, &value);
	return value;
}

/* The loader's variables. */
#define TUNABLES 128

static struct tunable {
	char name[96], value[160];
} tunables[TUNABLES];
static int n_tunables;

char *
ff_getenv(const char *name)
{
	for (int i = 0; i < n_tunables; i++)
		if (strcmp(tunables[i].name, name) == 0)
			return tunables[i].value;
	return NULL;
}

int
ff_setenv(const char *name, const char *value)
{
	struct tunable *t;

	if (n_tunables == TUNABLES || strlen(name) >= sizeof(t->name) || strlen(value) >= sizeof(t->value))
		return 1;
	t = &tunables[n_tunables++];
	strcpy(t->name, name);
	strcpy(t->value, value);
	return 0;
}

void
machine_tunable(const char *name, const char *value)
{
	ff_setenv(name, value);
}

int
machine_begin(const uint8_t seed[32])
{
	uint32_t seed_of_weak;

	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -1;
	memcpy(&strong, seed + 16, sizeof(strong));
	memcpy(&seed_of_weak, seed + 8, sizeof(seed_of_weak));
	initstate_r(seed_of_weak, weak_state, sizeof(weak_state), &weak);
	return 0;
}

void
machine_end(void)
{
	munmap(area, AREA);
	area = NULL;
}

/* The console: nobody reads it, but for the last words of a panic. */
void
ff_log(uint32_t level, uint32_t type, const char *format, ...)
{
	(void)level, (void)type, (void)format;
}

__attribute__((noreturn)) void
panic(const char *format, ...)
{
	va_list list;

	fputs("FreeBSD: panic: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	abort();
}

/* F-Stack's choice of ports by the receiving queue: ports are always given here. */
int
ff_in_pcbladdr(uint16_t family, void *remote, uint16_t port, void *local)
{
	(void)family, (void)remote, (void)port, (void)local;
	return 1;
}

int
ff_rss_check(void *interface, uint32_t source, uint32_t target, uint16_t source_port, uint16_t target_port)
{
	(void)interface, (void)source, (void)target, (void)source_port, (void)target_port;
	return 1;
}

int
ff_rss_tbl_set_portrange(uint16_t first, uint16_t last)
{
	(void)first, (void)last;
	return 0;
}

int
ff_rss_tbl_get_portrange(uint32_t source, uint32_t target, uint16_t port, uint16_t *first, uint16_t *last, uint16_t **ports)
{
	(void)source, (void)target, (void)port, (void)first, (void)last, (void)ports;
	return -1;
}
