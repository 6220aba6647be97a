/* A packet guest that opens nothing but trouble: HOW says which. */
#include <stdint.h>
#include <stdio.h>

#include "cwndlab_guest.h"

#define ADDRESS (volatile int *)8

static void *start(const struct cwndlab_guest_machine *settings, char *why, size_t capacity)
{
	if (settings->n_sysctls) {
		snprintf(why, capacity, "%s=%s is not for me", settings->sysctls[0].name, settings->sysctls[0].value);
		return NULL;
	}
	return HOW == 1 ? NULL : (void *)1;
}

static void stop(void *machine)
{
	(void)machine;
}

static void handle(void *machine, void *connection, const uint8_t *bytes, size_t length, uint32_t ecn, uint64_t now)
{
	(void)machine, (void)connection, (void)bytes, (void)length, (void)ecn, (void)now;
	if (HOW == 2)
		*ADDRESS = 1;
	while (HOW == 3)
		;
}

static size_t poll_transmit(void *machine, uint8_t *buffer, size_t capacity, void **connection, uint32_t *ecn, uint64_t now)
{
	(void)machine, (void)connection, (void)ecn, (void)now;
	for (size_t at = 0; at < 64; at++)
		buffer[at] = 0;
	return HOW == 4 ? 40 : HOW == 5 ? capacity + 1 : 0;
}

static uint64_t poll_timeout(void *machine)
{
	(void)machine;
	return CWNDLAB_GUEST_NEVER;
}

static void handle_timeout(void *machine, uint64_t now)
{
	(void)machine, (void)now;
}

static void *open_connection(void *machine, const struct cwndlab_guest_connection *settings, char *why, size_t capacity)
{
	(void)settings;
	snprintf(why, capacity, "no more connections");
	return HOW == 6 ? NULL : machine;
}

static void close_connection(void *machine, void *connection)
{
	(void)machine, (void)connection;
}

static int no(void *connection)
{
	(void)connection;
	return 0;
}

static uint64_t none(void *connection)
{
	(void)connection;
	return 0;
}

static uint64_t some(void *connection, uint64_t bytes, uint64_t now)
{
	(void)connection, (void)bytes, (void)now;
	return 0;
}

static void nothing(void *connection, uint64_t now)
{
	(void)connection, (void)now;
}

static const char *failure(void *connection)
{
	(void)connection;
	return NULL;
}

static void observe(void *connection, struct cwndlab_guest_state *state)
{
	(void)connection, (void)state;
}

#if HOW == 7
#define cwndlab_guest_function another_name
#else
#define cwndlab_guest_function cwndlab_guest
#endif

const struct cwndlab_guest *cwndlab_guest_function(void)
{
	static const char *const cc[] = { "own", NULL };
	static const struct cwndlab_guest guest = {
		.version = HOW == 8 ? 99 : CWNDLAB_GUEST_VERSION, .size = sizeof(guest), .kind = CWNDLAB_GUEST_PACKETS,
		.name = "fails-1", .cc = HOW == 9 ? NULL : cc, .start = HOW == 10 ? NULL : start, .stop = stop,
		.handle = handle, .poll_transmit = poll_transmit, .poll_timeout = poll_timeout,
		.handle_timeout = handle_timeout, .open = open_connection, .close = close_connection, .is_open = no,
		.write = some, .is_writable = no, .finish = nothing, .readable = none, .read = some, .is_at_end = no,
		.failure = failure, .observe = observe,
	};

	return &guest;
}
