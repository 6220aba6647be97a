"""cwndlab: the congestion-window laboratory. Importing it is light; what a call needs is loaded by the call.

experiment = cwndlab.load("x.yaml")         # or a dictionary, or a text
results = experiment.run(jobs=2)            # a ResultSet; or cwndlab.open(DIR)
results.summary                             # data frame: a row per flow of each run
results.series(0, flow="f1", table="tcp")   # data frame: t_s, cwnd_bytes, srtt_ms, ...
results.series("tcp")                       # the same of all runs, lazily
results.plot("cwnd", "cwnd.png")
results.report()
"""

from typing import TYPE_CHECKING, Any

from cwndlab.errors import CwndlabError, ExperimentError, InputError, StoppedError

if TYPE_CHECKING:
    from cwndlab.report.interface import Experiment, ResultSet, load, open, together

    __version__: str

__all__ = [
    "CwndlabError",
    "Experiment",
    "ExperimentError",
    "InputError",
    "ResultSet",
    "StoppedError",
    "load",
    "open",
    "together",
]

if not TYPE_CHECKING:  # to which a name that does not exist is an error

    def __getattr__(name: str) -> Any:
        """Load the package's face when it is first asked for something."""
        if name == "__version__":
            from importlib.metadata import version

            found: Any = version("cwndlab")
        elif name in __all__:
            from cwndlab.report import interface

            found = getattr(interface, name)
        else:
            raise AttributeError(f"module 'cwndlab' has no attribute {name!r}")
        globals()[name] = found
        return found
