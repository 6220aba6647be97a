"""The schema of experiment files with the sections that testbeds bring."""

from __future__ import annotations

from typing import Any, ClassVar

from cwndlab import testbeds
from cwndlab.experiment import json_schema, schema
from cwndlab.experiment.schema import Section
from cwndlab.testbeds.netns.section import SECTION, KernelSubset, NetnsKeys


class Spec(NetnsKeys, schema.Spec):
    """An experiment file without its sweep."""

    section: ClassVar[str] = "experiment"
    of_testbeds: ClassVar[dict[str, type[Section]]] = {SECTION: KernelSubset}


def for_editors() -> dict[str, Any]:
    """The JSON Schema of experiment files."""
    return json_schema.json_schema(Spec, [testbeds.support(name) for name in testbeds.names()])
