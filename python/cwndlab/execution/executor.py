"""The door to whoever carries parts out: an executor takes tasks, and finished parts arrive in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cwndlab.errors import CwndlabError
from cwndlab.execution import store, task
from cwndlab.execution.task import Site, Task
from cwndlab.results.parts import Part


class Observer(Protocol):
    """Is told how far a sweep is."""

    def planning(self, planned: int, runs: int) -> None:
        """Take note of how many runs of the plan are known and checked; called before `start`."""

    def start(self, runs: int, work: int) -> None:
        """Take note of the number of runs ahead and of their work, in arbitrary units."""

    def advance(self, runs: int, work: int) -> None:
        """Take note of the number of runs and the work done since the last call."""

    def waiting(self, what: str) -> None:
        """A run waits for that, such as a host; empty: for nothing any more."""


class Nobody:
    """An observer that looks away."""

    def planning(self, planned: int, runs: int) -> None:
        """Do nothing."""

    def start(self, runs: int, work: int) -> None:
        """Do nothing."""

    def advance(self, runs: int, work: int) -> None:
        """Do nothing."""

    def waiting(self, what: str) -> None:
        """Do nothing."""


@dataclass
class Arrivals:
    """The place where finished parts arrive, and where an executor says how it goes."""

    site: Site
    """Site that carries runs out; a worker on this machine writes its parts into `site.runs` itself."""
    observer: Observer
    troubles: list[str] = field(default_factory=list)
    """Failures of tasks, a line each; the sweep ends with them."""

    def advance(self, runs: int, work: int) -> None:
        """Pass on the number of runs and the work done since the last call."""
        self.observer.advance(runs, work)

    def place(self, part: Part, contents: Mapping[str, bytes]) -> None:
        """A part has come from elsewhere, as the bytes of its files; it is put in place and counted.

        Raises InputError unless they are as they were written, CwndlabError when the disk fails.
        """
        try:
            store.place(self.site.runs, part.name, contents)
        except OSError as error:
            raise CwndlabError(f"{error.filename or self.site.runs}: {error.strerror or error}") from None
        self.advance(len(part.runs), sum(sum(self.site.work(run.scenario)) for run in part.runs))

    def lost(self, reason: str) -> None:
        """A task is given up, or the rest of one; the line says why."""
        self.troubles.append(reason)


class Executor(Protocol):
    """Carries tasks out. Whichever it is, the same bytes arrive, as the plan has cut the parts.

    It is made with the `Arrivals` that it reports to.
    """

    @property
    def places(self) -> int:
        """Number of tasks that are carried out at a time."""

    def submit(self, task: Task) -> None:
        """Take a task; it begins when a place is free, perhaps only in `wait`."""

    def wait(self) -> None:
        """Come back when every task is over: its parts have arrived, or it is told to be lost.

        Raises CwndlabError, one line, when it cannot go on at all.
        """

    def cancel(self) -> None:
        """Drop what waits and what is at work, and come back when nothing is at work any more.

        Parts that have arrived stay, and no half part does. A further KeyboardInterrupt ends workers at once.
        """


def carry_out(ahead: Sequence[Part], executor: Executor, arrivals: Arrivals) -> None:
    """Have parts carried out.

    Raises KeyboardInterrupt after SIGINT, when what is not whole has been dropped, and CwndlabError when the
    disk fails or a task is lost; parts that have arrived stay.
    """
    try:
        # On live hosts each run has its own place in the order.
        for each in task.cut(ahead, executor.places, alone=arrivals.site.sequence is not None):
            executor.submit(each)
        executor.wait()
    except BaseException:
        executor.cancel()
        raise
    if arrivals.troubles:
        raise CwndlabError("; ".join(arrivals.troubles))
