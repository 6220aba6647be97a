"""Experiment files, read as a testbed is to carry them out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cwndlab import foreign, testbeds
from cwndlab.experiment import experiment, yaml_nodes
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.scenario import planner
from cwndlab.experiment.support import Support
from cwndlab.experiment.yaml_nodes import Mapping
from cwndlab.foreign import Module
from cwndlab.testbeds import MODEL
from cwndlab.testbeds.schema import Spec


def load(
    path_or_text: Path | str,
    overrides: Sequence[str] = (),
    testbed: str = MODEL,
    lab: Path | None = None,
    modules: Sequence[Module] = (),
) -> Experiment:
    """The experiment of a file, of a suite's name, or of a text, as `experiment.read` says, with
    congestion controls from outside.

    Raises `ExperimentError` for everything that is wrong without the sweep, InputError for a testbed that
    does not exist.
    """
    file, source = experiment.text_of(path_or_text)
    return read(yaml_nodes.parse(source, file), source, overrides, support(testbed, lab, modules))


def read(tree: Mapping, source: str, overrides: Sequence[str], known: Support) -> Experiment:
    """The experiment of a tree, which is changed, and of its text; raises as `load` does."""
    loaded = experiment.read(tree, source, overrides, Spec, known)
    planner.check(loaded)
    return loaded


def support(testbed: str, lab: Path | None = None, modules: Sequence[Module] = ()) -> Support:
    """Support of a testbed, on the machines of a lab file, with congestion controls from outside. Raises
    InputError for a testbed that does not exist.
    """
    plain = testbeds.support(testbed, lab)
    if not modules:
        return plain
    known = foreign.extended(plain.catalogue(), modules)
    return replace(plain, catalogue=lambda: known, modules=tuple(modules))
