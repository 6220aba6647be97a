# Rules that follow F-Stack's own in a copy of its lib/: the stack without DPDK, stopped at a relocatable object.
KMOD_SRCS = cc_cdg.c cc_chd.c cc_hd.c cc_vegas.c cc_dctcp.c h_ertt.c timers.c stack.c

include Makefile

CFLAGS += -fPIC -fvisibility=hidden -D__thread= -DTCP_HHOOK -I$(GLUE)/include -I$(GLUE)
# The same bytes wherever they are compiled.
CFLAGS += -fmacro-prefix-map=$(CURDIR)=.
# Which headers a file reads.
CFLAGS += -MMD -MP
-include $(wildcard *.d)
# Warnings on the tree's files are its authors' matter.
WERROR = -w
stack.o timers.o: WERROR = -Werror -DRECORDED=$(RECORDED)

VPATH += $S/netinet/khelp $(GLUE)

# What the glue stands in for, and calls by file descriptors.
WITHOUT = ff_freebsd_init.o ff_kern_intr.o ff_kern_timeout.o ff_route.o ff_syscall_wrapper.o ff_veth.o
STACK = $(filter-out $(WITHOUT),$(OBJS))

# A kernel has C's names for its own functions: all but those of stack.h stay inside.
stack.ro: $(MHEADERS) $(MSRCS) $(STACK) $(GLUE)/stack.h
	grep -o 'guest_[a-z_]*(' $(GLUE)/stack.h | tr -d '(' | sort -u > stack.symbols
	$(LD) -r -o $@ $(STACK)
	objcopy --keep-global-symbols=stack.symbols $@

# The flag is compiled into timers.o alone.
timers.o: recorded.$(RECORDED)
recorded.%:
	rm -f recorded.*
	touch $@
