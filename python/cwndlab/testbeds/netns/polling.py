"""A host's `nic.coalesce`: how long its kernel polls an interface on, and so how much it aggregates."""

import subprocess
from collections.abc import Mapping
from typing import Any

from cwndlab.testbeds.netns.namespaces import NAMESPACES

_WRITE = """\
mount -t sysfs sysfs /sys && cd "/sys/class/net/$1" &&
printf %s "$2" > gro_flush_timeout && printf %s "$3" > napi_defer_hard_irqs
"""
"""In a mount namespace of its own, as sysfs shows the interfaces of the namespace in which it was mounted
(Documentation/networking/napi.rst: the interface's settings)."""


def apply(namespace: str, interface: str, nic: Mapping[str, Any]) -> None:
    """Set how an interface is polled, where a file says so; raises OSError with the kernel's reason."""
    coalesce = nic["coalesce"]
    if coalesce is None or not (coalesce["gro_flush_timeout_ns"] or coalesce["napi_defer_hard_irqs"]):
        return
    values = (str(coalesce["gro_flush_timeout_ns"]), str(coalesce["napi_defer_hard_irqs"]))
    enter = ["nsenter", f"--net={NAMESPACES / namespace}", "unshare", "--mount"]
    command = [*enter, "sh", "-c", _WRITE, "sh", interface, *values]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"polling of {interface}: {' '.join(done.stderr.split())}")
