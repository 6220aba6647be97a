"""The stacks of a lab's machines, as an experiment file names them."""

from collections.abc import Iterable
from dataclasses import replace

from cwndlab.experiment.catalogue import Catalogue


def known(catalogues: Iterable[Catalogue]) -> Catalogue:
    """The catalogue of an experiment on machines with these.

    A family's name, such as `linux`, is the stack that all machines of it have; where they differ it is each
    one's own, with the sysctls of the first.
    """
    each = list(catalogues)
    stacks = {name: stack for found in reversed(each) for name, stack in found.stacks.items()}
    newest: dict[str, str] = {}
    for family in dict.fromkeys(family for found in each for family in found.newest):
        names = list(dict.fromkeys(found.newest[family] for found in each if family in found.newest))
        if len(names) == 1:
            newest[family] = names[0]
        else:
            stacks[family] = replace(stacks[names[0]], name=family)
    return replace(each[0], stacks=stacks, newest=newest)
