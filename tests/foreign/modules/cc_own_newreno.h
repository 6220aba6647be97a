/* What cc_own_newreno.c finds as <netinet/cc/cc_own_newreno.h>, as modules in a kernel's tree do. */
#define OWN_NAME "own_newreno"
