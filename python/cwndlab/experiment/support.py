"""The keys of the schema that a testbed carries out; the others are refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cwndlab.contract.scenario import Flow
from cwndlab.experiment import yaml_nodes
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.schema import AnyApp, Section, Spec
from cwndlab.experiment.subset import Subset

LiveFlow = tuple[AnyApp, Flow]
"""A flow's application as the file has it, and the flow of the Scenario."""


@dataclass(frozen=True, slots=True)
class Support:
    """Keys that a testbed carries out, for each section of the schema (`Section.section`).

    A section that is not listed is carried out with all its keys. ``only_off`` has keys, in the same form,
    that may be written only to say false. A flag may always be written as it is by default.
    """

    testbed: str
    keys: Mapping[str, frozenset[str]]
    only_off: Mapping[str, frozenset[str]]
    catalogue: Callable[[], Catalogue]
    """Catalogue of the testbed: stacks, congestion controls, sysctls, queues. Raises InputError if the
    testbed cannot say.
    """
    live: Callable[[Spec, Sequence[LiveFlow]], dict[str, Any]] | None = None
    """Function that makes the further part of a live testbed's Scenarios: tools, loggers, the path. Raises
    `Misplaced`.
    """
    runs_kernel: bool = False
    """Whether the TCP is that of a kernel: `cwndlab.testbeds.Facts`, whose table fills this in."""
    draws_by_chance: bool = False
    """Whether machines draw what the Scenario does not: `cwndlab.testbeds.Facts`, likewise."""
    subset: Callable[[Subset, Section | None, yaml_nodes.Mapping, Catalogue], Subset] | None = None
    """Function that picks the part of an experiment that the testbed takes on, by the section of the file
    that has the testbed's name; given the whole, that section if any, the file's tree and the catalogue.
    Raises `ExperimentError`.
    """

    fits_path: bool = False
    """Whether routers drop packets that are larger than a link's MTU, and tell their senders, so that TCP
    finds out what the path takes."""

    missing_cc: str = "if it is a module that is not loaded: modprobe tcp_{}"
    """Hint on the way in which a real kernel gets a congestion control that it lacks."""

    modules: tuple[Any, ...] = ()
    """Congestion controls from outside (`cwndlab.foreign.Module`), which `catalogue` has too."""

    def refused(
        self, spec: Section, path: tuple[str | int, ...] = (), only: Container[str] | None = None
    ) -> Iterator[tuple[str | int, ...]]:
        """Yield the path of every key that the file wrote and the testbed does not carry out.

        Of the keys of `spec` itself `only` those are looked at, if given.
        """
        carried = self.keys.get(spec.section)
        for key, value in spec.written():
            if only is not None and key not in only:
                continue
            off = key in self.only_off.get(spec.section, ()) and value is False
            # A flag as it is by default asks for nothing; results have them written out.
            field = type(spec).model_fields.get(key)
            usual = isinstance(value, bool) and field is not None and value is field.default
            if carried is not None and key not in carried and not off and not usual:
                yield (*path, key)
            else:
                yield from self._inside(value, (*path, key))

    def _inside(self, value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
        if isinstance(value, Section):
            yield from self.refused(value, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._inside(item, (*path, index))
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self._inside(item, (*path, key))
