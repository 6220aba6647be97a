"""cwndlab: the congestion-window laboratory. Importing it is light; what a call needs is loaded by the call.

experiment = cwndlab.load("x.yaml")
results = experiment.run(testbed="sim")     # a ResultSet; or cwndlab.open(DIR)
results.summary                             # data frame: a row per flow of each run
results.series(0, flow="f1", table="tcp")   # data frame: t_s, cwnd_bytes, srtt_ms, ...
results.plot("cwnd", "cwnd.png")
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cwndlab.experiment import Experiment
    from cwndlab.results.resultset import ResultSet

__all__ = ["load", "open"]


def load(path_or_text: str | Path, overrides: Sequence[str] = (), testbed: str = "sim") -> "Experiment":
    """Read and check an experiment: a file, the suite of that name, or a text of several lines.

    `overrides` are `KEY=VALUE`, as `--set`. Raises ExperimentError, one line with file, line and key.
    """
    from cwndlab.experiment import load as load_experiment

    return load_experiment(path_or_text, overrides, testbed)


def open(path: str | Path) -> "ResultSet":
    """Open a results directory.

    Raises InputError, whose text is one line, when it holds no results or damaged ones.
    """
    from cwndlab.results.resultset import ResultSet

    return ResultSet(path)
