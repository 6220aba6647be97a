/* What both families' runtimes share: guarded calls, memory, statics, knobs, randomness. */
#define _GNU_SOURCE
#undef _KERNEL
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime.h"

/* Processor time is looked at so often. A hook that was seen running at so many looks has run for at least one less. */
#define QUANTUM_US 50000
#define QUANTA 5

struct cwndlab_host cwndlab_host;

static struct cwndlab_guard *guard;
static const char *complaint;

/* Memory: a ring of blocks. Each ends where a page ends, and behind it is memory that nobody may touch. */

#define BEYOND ((size_t)256 << 10)
#define MOST_BYTES ((size_t)64 << 20)
/* Beyond so many at a time they are plain memory: a process has only so many mappings. */
#define MOST_MAPPED 4096

struct block {
	struct block *next, *previous;
	const char *what;
	char *map;		/* NULL: plain memory */
	size_t mapped, size;
};

static struct block blocks = { .next = &blocks, .previous = &blocks };
static unsigned int mapped_blocks;

/* Room for a block's head and its bytes, zeroed, before memory that nobody may touch. */
static struct block *map_block(size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t room = (sizeof(struct block) + size + page - 1) / page * page;
	char *map = mmap(NULL, room + BEYOND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct block *block;

	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(map, room, PROT_READ | PROT_WRITE) != 0) {
		munmap(map, room + BEYOND);
		return NULL;
	}
	block = (struct block *)(map + room - size) - 1;
	block->map = map;
	block->mapped = room + BEYOND;
	mapped_blocks++;
	return block;
}

static void *alloc_block(size_t size, const char *what)
{
	size_t whole = (size + 7) & ~(size_t)7;
	struct block *block = NULL;

	if (whole < size || whole > MOST_BYTES)
		return NULL;
	if (mapped_blocks < MOST_MAPPED)
		block = map_block(whole);
	if (!block)
		block = calloc(1, sizeof(*block) + whole);
	if (!block)
		return NULL;
	block->what = what;
	block->size = size;
	block->next = blocks.next;
	block->previous = &blocks;
	blocks.next->previous = block;
	blocks.next = block;
	return block + 1;
}

void *cwndlab_alloc(size_t size)
{
	return alloc_block(size, "a block of memory");
}

void *cwndlab_private_block(size_t size)
{
	return alloc_block(size, "its private block");
}

void cwndlab_free(void *memory)
{
	struct block *block = (struct block *)memory - 1;

	if (!memory)
		return;
	block->next->previous = block->previous;
	block->previous->next = block->next;
	if (!block->map) {
		free(block);
		return;
	}
	mapped_blocks--;
	munmap(block->map, block->mapped);
}

/* Says so where an address is behind one of the blocks. */
static int went_beyond(const char *address)
{
	static char text[100];
	const struct block *block;

	for (block = blocks.next; block != &blocks; block = block->next) {
		const char *end = (const char *)(block + 1) + block->size;

		if (!block->map || address < end || address >= block->map + block->mapped)
			continue;
		snprintf(text, sizeof(text), "touched byte %zu of %s, which has %zu", block->size + (size_t)(address - end),
			 block->what, block->size);
		complaint = text;
		return 1;
	}
	return 0;
}

/* Guarded calls. */

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };

static void leave(int how)
{
	sigjmp_buf *jump = guard->jump;

	guard->jump = NULL;
	siglongjmp(*jump, how);
}

static int is_inside(void)
{
	return guard->jump && guard->thread == (uint64_t)pthread_self();
}

static void on_crash(int number, siginfo_t *about, void *unused)
{
	(void)unused;
	if (is_inside()) {
		guard->address = number == SIGSEGV || number == SIGBUS ? about->si_addr : NULL;
		leave(number);
	}
	/* Not a module's: as if nobody had asked. */
	signal(number, SIG_DFL);
	raise(number);
}

static void on_time(int number)
{
	if (!guard->jump)
		return;
	if (!is_inside())
		pthread_kill((pthread_t)guard->thread, number);
	else if (++guard->quanta >= QUANTA)
		leave(CWNDLAB_TOO_LONG);
}

/* A module may overrun the stack: handlers have another. */
static void give_stack(void)
{
	uint64_t thread = (uint64_t)pthread_self();
	stack_t stack;

	if (guard->stacked == thread)
		return;
	guard->stacked = thread;
	if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
		return;
	memset(&stack, 0, sizeof(stack));
	stack.ss_size = 65536;
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
}

static void install(void)
{
	struct itimerval timer = { { 0, QUANTUM_US }, { 0, QUANTUM_US } };
	struct sigaction action;
	size_t i;

	memset(&action, 0, sizeof(action));
	action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART | SA_SIGINFO;
	action.sa_sigaction = on_crash;
	for (i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
	action.sa_flags &= ~SA_SIGINFO;
	action.sa_handler = on_time;
	sigaction(SIGVTALRM, &action, NULL);
	setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

int cwndlab_guarded(void (*code)(void *), void *argument)
{
	sigjmp_buf jump;
	int how;

	complaint = NULL;
	give_stack();
	guard->thread = (uint64_t)pthread_self();
	guard->quanta = 0;
	guard->address = NULL;
	how = sigsetjmp(jump, 0);
	if (how == 0) {
		guard->jump = &jump;
		code(argument);
		guard->jump = NULL;
	} else if (guard->address && went_beyond(guard->address)) {
		how = CWNDLAB_BUG;
	}
	return how;
}

void cwndlab_bug(const char *what)
{
	complaint = what;
	leave(CWNDLAB_BUG);
	abort();
}

const char *cwndlab_complaint(void)
{
	return complaint;
}

/* Statics: what was compiled is kept aside and put back. */

static struct {
	char *where[4];
	char *copy[4];
	size_t size[4];
	int count;
} *pristine;

static int find_statics(struct dl_phdr_info *object, size_t size, void *unused)
{
	ElfW(Addr) here = (ElfW(Addr))&cwndlab_host, relro = 0, relro_end = 0;
	int i, ours = 0;

	(void)size;
	(void)unused;
	for (i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		ElfW(Addr) start = object->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && here >= start && here < start + part->p_memsz)
			ours = 1;
		if (part->p_type == PT_GNU_RELRO) {
			/* Whole pages of it are read-only by now. */
			relro = start;
			relro_end = (start + part->p_memsz) & ~(ElfW(Addr))4095;
		}
	}
	for (i = 0; ours && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		ElfW(Addr) start = object->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_W) || pristine->count == 4)
			continue;
		if (start >= relro && start < relro_end)
			start = relro_end;
		if (start >= end)
			continue;
		pristine->where[pristine->count] = (char *)start;
		pristine->size[pristine->count] = end - start;
		pristine->copy[pristine->count] = malloc(end - start);
		pristine->count++;
	}
	return ours;
}

void cwndlab_attach(struct cwndlab_guard *shared)
{
	int i;

	guard = shared;
	if (!guard->installed) {
		guard->installed = 1;
		install();
	}
	pristine = calloc(1, sizeof(*pristine));
	dl_iterate_phdr(find_statics, NULL);
	for (i = 0; i < pristine->count; i++)
		memcpy(pristine->copy[i], pristine->where[i], pristine->size[i]);
}

void cwndlab_reset(void)
{
	int i;

	/* A hook may have taken the handlers away, or stopped the clock: later runs have them again. */
	install();
	while (blocks.next != &blocks)
		cwndlab_free(blocks.next + 1);
	for (i = 0; i < pristine->count; i++)
		memcpy(pristine->where[i], pristine->copy[i], pristine->size[i]);
}

/* Knobs. */

extern struct cwndlab_variable *__start_cwndlab_knobs[] __attribute__((weak, visibility("hidden")));
extern struct cwndlab_variable *__stop_cwndlab_knobs[] __attribute__((weak, visibility("hidden")));

static int64_t read_variable(const struct cwndlab_variable *v)
{
	switch (v->size) {
	case 1:
		return v->kind == 'i' ? *(int8_t *)v->where : *(uint8_t *)v->where;
	case 2:
		return v->kind == 'i' ? *(int16_t *)v->where : *(uint16_t *)v->where;
	case 4:
		return v->kind == 'i' ? *(int32_t *)v->where : *(uint32_t *)v->where;
	default:
		return *(int64_t *)v->where;
	}
}

/* The bounds of the type, where the module sets none. */
static void bounds(const struct cwndlab_variable *v, int64_t *min, int64_t *max)
{
	int bits = v->size * 8;

	*min = v->min;
	*max = v->max;
	if (v->min || v->max)
		return;
	if (v->kind == 'b')
		*max = 1;
	else if (v->kind == 'i')
		*max = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
	else
		*max = bits == 64 ? INT64_MAX : ((int64_t)1 << bits) - 1;
	if (v->kind == 'i')
		*min = -*max - 1;
}

int cwndlab_knob(uint32_t at, struct cwndlab_knob *knob)
{
	struct cwndlab_variable *v;

	if (at >= (size_t)(__stop_cwndlab_knobs - __start_cwndlab_knobs))
		return 0;
	v = __start_cwndlab_knobs[at];
	knob->name = v->name;
	knob->value = read_variable(v);
	bounds(v, &knob->min, &knob->max);
	knob->writable = v->writable;
	return 1;
}

struct setting {
	struct cwndlab_variable *variable;
	int64_t value;
	int refused;
};

static void set_variable(void *argument)
{
	struct setting *setting = argument;
	struct cwndlab_variable *v = setting->variable;

	if (v->set)
		setting->refused = v->set(v, setting->value);
	else
		memcpy(v->where, &setting->value, v->size); /* little-endian */
}

int cwndlab_set_knob(uint32_t at, int64_t value)
{
	struct setting setting = { __start_cwndlab_knobs[at], value, 0 };
	int how = cwndlab_guarded(set_variable, &setting);

	return how ? how : setting.refused ? CWNDLAB_REFUSED : CWNDLAB_DONE;
}

/* Sebastiano Vigna's SplitMix64, the engine's generator for what congestion controls draw. */
uint64_t cwndlab_random(void)
{
	uint64_t z = (cwndlab_host.random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}
