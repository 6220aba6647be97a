"""Experiment files, read as a testbed is to carry them out."""

from collections.abc import Sequence
from pathlib import Path

from cwndlab.errors import InputError, nearest, one_of, shown
from cwndlab.experiment import experiment
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.support import Support
from cwndlab.scenario import planning
from cwndlab.testbeds import MODEL
from cwndlab.testbeds.schema import SUPPORTS, Spec, of_lab


def load(
    path_or_text: Path | str,
    overrides: Sequence[str] = (),
    testbed: str = MODEL,
    lab: Path | None = None,
) -> Experiment:
    """The experiment of a file, of a suite's name, or of a text, as `experiment.read` says.

    Raises `ExperimentError` for everything that is wrong without the sweep, InputError for a testbed that
    does not exist.
    """
    loaded = experiment.read(path_or_text, overrides, Spec, support(testbed, lab))
    planning.check(loaded)
    return loaded


def support(testbed: str, lab: Path | None = None) -> Support:
    """What a testbed supports, on the machines of a lab file; raises InputError where there is none."""
    if testbed not in SUPPORTS:
        hint = nearest(testbed, SUPPORTS)
        message = f"testbed {shown(testbed)} is not {one_of(SUPPORTS)}"
        raise InputError(message + (f" (hint: {hint})" if hint else ""))
    return of_lab(testbed, lab)
