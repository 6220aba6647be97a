/* A shared library that is compiled in as bytes, and opened as a copy for each host. Included once, by a runtime. */
#ifndef CWNDLAB_LIBRARY_H
#define CWNDLAB_LIBRARY_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The library's bytes. */
__asm__(".section .rodata\n"
	".balign 16\n"
	"cwndlab_library: .incbin \"" CWNDLAB_LIBRARY "\"\n"
	"cwndlab_library_end: .byte 0\n"
	".previous\n");
extern const char cwndlab_library[] __attribute__((visibility("hidden")));
extern const char cwndlab_library_end[] __attribute__((visibility("hidden")));

static int write_library(const char *name)
{
	int to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const char *from = cwndlab_library;
	ssize_t put = 1;

	for (; to >= 0 && from < cwndlab_library_end && put > 0; from += put)
		put = write(to, from, cwndlab_library_end - from);
	return to >= 0 && close(to) == 0 && put > 0;
}

/* Opens a copy of its own, in a folder of its own: what is loaded already would not be loaded again. */
static void *open_copy(void)
{
	const char *base = getenv("TMPDIR");
	char folder[4096], name[4128];
	void *handle = NULL;

	snprintf(folder, sizeof(folder), "%s/cwndlab-cc-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(folder))
		return NULL;
	snprintf(name, sizeof(name), "%s/library.so", folder);
	if (write_library(name))
		handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	unlink(name);
	rmdir(folder);
	return handle;
}

static void *handle;

/* What the library exports by that name. Ends the call where there is no such library, or no such name. */
static void *exported(const char *name)
{
	static char text[96];
	const char *why;
	void *export;

	handle = open_copy();
	if (!handle) {
		why = dlerror();
		cwndlab_bug(why ? why : "cannot be read");
	}
	export = dlsym(handle, name);
	if (!export) {
		snprintf(text, sizeof(text), "exports no %s", name);
		cwndlab_bug(text);
	}
	return export;
}

/* Ends where a library is for another version of its header. */
static void check_version(uint32_t found, uint32_t known, const char *header)
{
	static char text[128];

	if (found == known)
		return;
	snprintf(text, sizeof(text), "is for version %u of %s, and this cwndlab has version %u", (unsigned)found, header,
		 (unsigned)known);
	cwndlab_bug(text);
}

/* Opens the library and looks at what it exports; defined by the runtime. */
static void open_library(void *unused);

/* Calls of the engine that are the same for every library. */

static uint32_t hooks(void *connection)
{
	(void)connection;
	return 0;
}

static int start(const struct cwndlab_host *host)
{
	cwndlab_host = *host;
	return cwndlab_guarded(open_library, NULL);
}

static int stop(void)
{
	return CWNDLAB_DONE;
}

#endif
