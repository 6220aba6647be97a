"""cwndlab: the congestion-window laboratory. Importing it is light; what a call needs is loaded by the call.

experiment = cwndlab.load("x.yaml")
results = experiment.run(jobs=2)            # a ResultSet; or cwndlab.open(DIR)
results.summary                             # data frame: a row per flow of each run
results.series(0, flow="f1", table="tcp")   # data frame: t_s, cwnd_bytes, srtt_ms, ...
results.plot("cwnd", "cwnd.png")
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cwndlab.interface import Experiment, ResultSet

__all__ = ["load", "open"]


def load(
    path_or_text: str | Path,
    overrides: Sequence[str] = (),
    testbed: str | None = None,
    *,
    cc: Sequence[str] = (),
    cc_private: bool = False,
) -> "Experiment":
    """Read and check an experiment: a file, the suite of that name, or a text of several lines.

    `overrides` are `KEY=VALUE`, as `--set`; `testbed` is the simulator unless named. `cc` are congestion
    controls of your own, as `--cc`: they are compiled, and run with the experiment; `cc_private` keeps their
    text out of the results. Raises ExperimentError, one line with file, line and key.
    """
    from cwndlab import interface, testbeds

    return interface.load(path_or_text, overrides, testbed or testbeds.MODEL, cc=cc, cc_private=cc_private)


def open(path: str | Path) -> "ResultSet":
    """Open a results directory.

    Raises InputError, whose text is one line, when it holds no results or damaged ones.
    """
    from cwndlab.interface import ResultSet

    return ResultSet(path)
