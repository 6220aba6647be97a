"""The stacks of a lab's machines, as an experiment file names them."""

from collections.abc import Mapping
from dataclasses import replace

from cwndlab.experiment.catalogue import Catalogue
from cwndlab.testbeds.live.linux import kernel
from cwndlab.testbeds.live.linux.kernel import Kernel

HZ = 250
"""Ticks per second of Debian's kernels; how many a machine has nobody asks, as it is not set."""


def known(kernels: Mapping[str, Kernel]) -> Catalogue:
    """The catalogue of an experiment on these machines: `linux` is the kernel of the first."""
    each = [kernel.known(own, HZ) for own in kernels.values()]
    stacks = {name: stack for found in reversed(each) for name, stack in found.stacks.items()}
    return replace(each[0], stacks=stacks)
