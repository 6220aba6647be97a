"""Kernels of the user's own: how they are built, kept and found, for those that do not run them."""

from cwndlab.testbeds.kernel.build import CONFIG, HZ, HZ_CHOICES, Progress, build, missing
from cwndlab.testbeds.kernel.choice import kernel as choose
from cwndlab.testbeds.kernel.guest import ready
from cwndlab.testbeds.kernel.machine import memory, tracing
from cwndlab.testbeds.kernel.store import find, kernels

__all__ = [
    "CONFIG",
    "HZ",
    "HZ_CHOICES",
    "Progress",
    "build",
    "choose",
    "find",
    "kernels",
    "memory",
    "missing",
    "ready",
    "tracing",
]
