/* Time of the stack: clock, ticks, callouts and soft interrupts, all from the run's clock.
 *
 * A callout in ticks is due at a tick; one in a fraction of a second when it was asked for (kern_timeout(9) of FreeBSD 13).
 * A soft interrupt runs when what raised it is done, before time goes on. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/bus.h>
#include <sys/callout.h>
#include <sys/interrupt.h>
#include <sys/kernel.h>
#include <sys/lock.h>
#include <sys/malloc.h>
#include <sys/proc.h>
#include <sys/time.h>
#include <sys/timetc.h>

#include "stack.h"

/* 1: timers of whole ticks and one more, as the recordings in groundtruth/freebsd have them and no FreeBSD. */
#ifndef RECORDED
#define RECORDED 0
#endif

#define SECOND 1000000000ULL

/* Sleeps of less than this many ticks begin now, longer ones at a tick: `kern.timecounter.alloweddeviation` is 5 %. */
#define SHORT_TICKS 16

void callout_tick(void);

static guest_time clock_now;
static guest_time last_tick;

/* A power of two, so that the stack's binary fractions of a second are exact and nothing drifts. */
#define FREQUENCY (1U << 30)

/* The counter is rounded up: at the end of a tick the clock has reached it. */
static unsigned int
timecount(struct timecounter *tc __unused)
{
	guest_time second = clock_now / SECOND, rest = clock_now % SECOND;

	return ((unsigned int)(second * FREQUENCY + (rest * FREQUENCY + SECOND - 1) / SECOND));
}

static struct timecounter run_clock = {
	.tc_get_timecount = timecount,
	.tc_counter_mask = ~0u,
	.tc_frequency = FREQUENCY,
	.tc_name = "run",
	.tc_quality = 1000,
};

static void
start_clock(void *arg __unused)
{
	tc_init(&run_clock);
}
SYSINIT(guest_clock, SI_SUB_SMP, SI_ORDER_ANY, start_clock, NULL);

void
guest_set_clock(guest_time now)
{
	guest_time tick_ns = SECOND / hz;

	while (last_tick + tick_ns <= now) {
		clock_now = last_tick += tick_ns;
		ticks++;
		tc_ticktock(1);
	}
	if (now > clock_now)
		clock_now = now;
}

/* Callouts in a heap by time, then by the order in which they were set. A callout's `c_time` is its place, as all else of
 * its memory is its owner's. */
struct entry {
	guest_time at;
	unsigned long order;
	struct callout *callout;
};

static struct entry *heap;
static int entries, room;
static unsigned long orders;

static struct callout *running;
static void (*after_running)(void *);

static bool
earlier(const struct entry *a, const struct entry *b)
{
	return (a->at != b->at ? a->at < b->at : a->order < b->order);
}

static void
place(int at, struct entry entry)
{
	heap[at] = entry;
	entry.callout->c_time = at;
}

static void
sift(int at, struct entry entry)
{
	int child;

	for (; at > 0 && earlier(&entry, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		place(at, heap[(at - 1) / 2]);
	for (; (child = 2 * at + 1) < entries; at = child) {
		if (child + 1 < entries && earlier(&heap[child + 1], &heap[child]))
			child++;
		if (!earlier(&heap[child], &entry))
			break;
		place(at, heap[child]);
	}
	place(at, entry);
}

static void
insert(struct callout *c, guest_time at)
{
	struct entry *wider;

	if (entries == room) {
		room = room ? 2 * room : 64;
		wider = malloc(room * sizeof(*wider), M_DEVBUF, M_WAITOK);
		if (entries > 0) {
			memcpy(wider, heap, entries * sizeof(*wider));
			free(heap, M_DEVBUF);
		}
		heap = wider;
	}
	sift(entries++, (struct entry){ at, orders++, c });
	c->c_iflags |= CALLOUT_PENDING;
}

static void
withdraw(struct callout *c)
{
	int at = c->c_time;

	c->c_iflags &= ~CALLOUT_PENDING;
	if (at != --entries)
		sift(at, heap[entries]);
}

static int
set(struct callout *c, guest_time at, callout_func_t *function, void *arg)
{
	int cancelled = callout_pending(c) != 0;

	if (cancelled)
		withdraw(c);
	c->c_func = function;
	c->c_arg = arg;
	c->c_flags |= CALLOUT_ACTIVE;
	insert(c, at);
	return (cancelled);
}

/* Nanoseconds, rounded up: never earlier than asked. */
static guest_time
nanoseconds(sbintime_t sbt)
{
	return ((guest_time)(sbt >> 32) * SECOND + (((guest_time)(uint32_t)sbt * SECOND + 0xffffffffULL) >> 32));
}

int
callout_reset_tick_on(struct callout *c, int to_ticks, callout_func_t *function, void *arg, int cpu __unused, int flags __unused)
{
	return (set(c, last_tick + (MAX(to_ticks, 1) + RECORDED) * (SECOND / hz), function, arg));
}

int
callout_reset_sbt_on(struct callout *c, sbintime_t sbt, sbintime_t precision __unused, callout_func_t *function, void *arg,
    int cpu, int flags)
{
	guest_time at;

	if ((flags & C_ABSOLUTE) == 0 && ((flags & C_HARDCLOCK) != 0 || RECORDED))
		return (callout_reset_tick_on(c, sbt / tick_sbt, function, arg, cpu, flags));
	if (flags & C_ABSOLUTE)
		at = clock_now + nanoseconds(MAX(sbt - sbinuptime(), 0));
	else if (sbt >= SHORT_TICKS * tick_sbt)
		at = last_tick + SECOND / hz + nanoseconds(sbt);
	else
		at = clock_now + nanoseconds(MAX(sbt, 0));
	return (set(c, at, function, arg));
}

int
callout_schedule(struct callout *c, int to_ticks)
{
	return (callout_reset_tick_on(c, to_ticks, c->c_func, c->c_arg, 0, 0));
}

/* 1: it was pending; 0: it runs; -1: neither. `drain` is called once it has run. */
int
_callout_stop_safe(struct callout *c, int flags __unused, void (*drain)(void *))
{
	int stopped;

	c->c_flags &= ~CALLOUT_ACTIVE;
	stopped = c == running ? 0 : callout_pending(c) ? 1 : -1;
	if (callout_pending(c))
		withdraw(c);
	if (c == running && drain != NULL)
		after_running = drain;
	return (stopped);
}

void
callout_init(struct callout *c, int mpsafe)
{
	_callout_init_lock(c, NULL, mpsafe ? CALLOUT_RETURNUNLOCKED : 0);
}

/* One thread runs all: there is no lock to take. */
void
_callout_init_lock(struct callout *c, struct lock_object *lock, int flags)
{
	bzero(c, sizeof(*c));
	c->c_lock = lock;
	c->c_iflags = flags & (CALLOUT_RETURNUNLOCKED | CALLOUT_SHAREDLOCK);
}

guest_time
guest_next_timer(void)
{
	return (entries > 0 ? heap[0].at : GUEST_NEVER);
}

void
guest_run_timers(void)
{
	struct callout *c;
	void *arg;

	while (entries > 0 && heap[0].at <= clock_now) {
		c = heap[0].callout;
		arg = c->c_arg;
		withdraw(c);
		running = c;
		after_running = NULL;
		c->c_func(arg);
		running = NULL;
		if (after_running != NULL)
			after_running(arg);
		guest_run_interrupts();
	}
}

/* Soft interrupts. */
struct handler {
	driver_intr_t *function;
	void *arg;
	struct handler *next_pending;
	bool pending;
};

static struct handler *first_pending, **end_pending = &first_pending;

int
swi_add(struct intr_event **event __unused, const char *name __unused, driver_intr_t handler, void *arg, int priority __unused,
    enum intr_type flags __unused, void **cookie)
{
	struct handler *new = malloc(sizeof(*new), M_DEVBUF, M_WAITOK | M_ZERO);

	new->function = handler;
	new->arg = arg;
	if (cookie != NULL)
		*cookie = new;
	return (0);
}

void
swi_sched(void *cookie, int flags __unused)
{
	struct handler *handler = cookie;

	if (handler == NULL || handler->pending)
		return;
	handler->pending = true;
	handler->next_pending = NULL;
	*end_pending = handler;
	end_pending = &handler->next_pending;
}

void
guest_run_interrupts(void)
{
	struct handler *handler;

	while ((handler = first_pending) != NULL) {
		if ((first_pending = handler->next_pending) == NULL)
			end_pending = &first_pending;
		handler->pending = false;
		handler->function(handler->arg);
	}
}

int
swi_remove(void *cookie __unused)
{
	return (0);
}

int
intr_event_bind(struct intr_event *event __unused, int cpu __unused)
{
	return (EOPNOTSUPP);
}

u_long
random(void)
{
	return (guest_random());
}
