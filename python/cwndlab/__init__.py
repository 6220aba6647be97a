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


def load(path: str | Path, overrides: Sequence[str] = (), testbed: str = "sim") -> "Experiment":
    """Read and check an experiment file, or the suite of that name; `overrides` are `KEY=VALUE`, as `--set`.

    Raises ExperimentError, whose text is one line with file, line and key.
    """
    from cwndlab import suites
    from cwndlab.experiment import load as load_file

    # A suite's name is a bare word; what looks like a file, or is one, is a file.
    if Path(path).suffix or Path(path).name != str(path) or Path(path).exists():
        return load_file(Path(path), overrides, testbed)
    return suites.suite(str(path)).load(overrides, testbed)


def open(path: str | Path) -> "ResultSet":
    """Open a results directory.

    Raises InputError, whose text is one line, when it holds no results or damaged ones.
    """
    from cwndlab.results.resultset import ResultSet

    return ResultSet(path)
