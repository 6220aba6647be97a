/* Asks for a function of the kernel that no headers have. */
#include <sys/param.h>
#include <sys/module.h>

#include <netinet/tcp_var.h>
#include <netinet/cc/cc.h>
#include <netinet/cc/cc_module.h>

static int
lacking_mod_init(void)
{
	return (tcp_of_another_release());
}

static struct cc_algo lacking_cc_algo = {
	.name = "lacking",
	.mod_init = lacking_mod_init,
};

DECLARE_CC_MODULE(lacking, &lacking_cc_algo);
