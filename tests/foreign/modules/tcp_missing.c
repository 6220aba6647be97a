/* Asks for a function of the kernel that no headers have. */
#include <linux/module.h>
#include <net/tcp.h>

static int __init missing_register(void)
{
	return tcp_of_another_kernel();
}

module_init(missing_register);
