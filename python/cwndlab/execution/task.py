"""A task, what an executor is handed: consecutive parts, and how each of them is carried out and written."""

import functools
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cwndlab import testbeds
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError
from cwndlab.execution import store
from cwndlab.execution.cost import PACKETS_PER_S, RUN_S
from cwndlab.execution.run_order import SET_UP_NS, Order
from cwndlab.execution.store import PartWriter
from cwndlab.experiment.plan import PlannedRun
from cwndlab.foreign import Module
from cwndlab.results import software
from cwndlab.results.parts import Part, RunRecord
from cwndlab.testbeds.base import CancelledError, Control, Testbed

TASK_S = 60.0
"""About how long a task takes at most, in s: what is lost with its worker."""

SHARES = 8
"""Tasks for each place of an executor at least, if there are parts enough: all end at about the same time."""


@dataclass(frozen=True)
class Task:
    """Consecutive parts that one worker carries out, one after the other."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Name of the task: its first part, and of several the last."""
        return " to ".join(dict.fromkeys((self.parts[0].name, self.parts[-1].name)))


def cut(ahead: Sequence[Part], places: int, *, alone: bool = False) -> Iterator[Task]:
    """Gather parts into tasks for an executor of so many places; `alone`: each part is one.

    Which part is in which task changes no byte: each is written by itself.
    """
    most = min(TASK_S, sum(map(seconds, ahead)) / (places * SHARES))
    held: list[Part] = []
    cost = 0.0
    for part in ahead:
        if held and (alone or cost + seconds(part) > most):
            yield Task(tuple(held))
            held, cost = [], 0.0
        held.append(part)
        cost += seconds(part)
    if held:
        yield Task(tuple(held))


def seconds(part: Part) -> float:
    """About how long a part of the simulator's takes, in s of a processor."""
    return sum(store.expected_packets(run.scenario) / PACKETS_PER_S + RUN_S for run in part.runs)


@dataclass(frozen=True)
class Site:
    """Site where parts are carried out, and the place for their files."""

    testbed: str
    """Name of the testbed; every process makes its own."""
    runs: Path
    """The directory that gets the parts."""
    versions: dict[str, str]
    """Versions of what carries the packets, for the record."""
    sequence: Order | None = None
    """The order of runs and the pause between them, where runs take real time."""
    lab: Path | None = None
    """The file of the machines, where the testbed has such."""
    modules: tuple[Module, ...] = ()
    """Congestion controls from outside: their code runs in workers only, which may die of it."""

    def find(self) -> Testbed:
        """The testbed, made in this process."""
        return testbeds.find(self.testbed, self.lab, self.modules)

    def work(self, scenario: Scenario) -> tuple[int, int]:
        """Cost of a run before its t = 0, and from then on: packets, or us where it takes real time."""
        if self.sequence is None:
            return 0, store.expected_packets(scenario)
        return (self.sequence.pause_ns + SET_UP_NS) // 1000, scenario["duration_ns"] // 1000


def carry_out_part(part: Part, bed: Testbed, site: Site, control: "PartControl") -> None:
    """Carry out the runs of one part and commit it; raises CancelledError without a trace of the part."""
    with PartWriter(site.runs, part.name) as writer:
        for planned in part.runs:
            with control.around():
                record = _carry_out_run(planned, bed, site, writer, control)
            writer.record(record)
            control.finished(planned)
        writer.commit()


@dataclass
class PartControl:
    """Callbacks of a part to the sweep it belongs to."""

    cancelled: Callable[[], bool]
    advance: Callable[[int, int], None]
    """Told of runs finished and of work done since the last call."""
    work: Callable[[Scenario], tuple[int, int]]
    """`Site.work`."""
    waiting: Callable[[str], None] = lambda what: None
    """Told what a run waits for."""
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered for each run."""
    deaths: Mapping[int, str] = field(default_factory=dict)
    """Runs that a worker died of, and how: they are not tried again."""
    _told: int = 0

    def of_run(self, planned: PlannedRun) -> Control:
        """The control of one run: its own time becomes work."""
        before, during = self.work(planned.scenario)
        duration = max(planned.scenario["duration_ns"], 1)
        return Control(
            self.cancelled,
            lambda now_ns: self._tell(0, before + during * min(now_ns, duration) // duration),
            self.waiting,
            planned.cell,
        )

    def finished(self, planned: PlannedRun) -> None:
        """A run is over, however much of it was told."""
        self._tell(1, sum(self.work(planned.scenario)))
        self._told = 0

    def _tell(self, runs: int, work: int) -> None:
        if runs or work > self._told:
            self.advance(runs, work - self._told)
            self._told = work


def _carry_out_run(
    planned: PlannedRun, bed: Testbed, site: Site, writer: PartWriter, control: PartControl
) -> RunRecord:
    started, clock = datetime.now(UTC), time.monotonic()
    files = writer.begin(planned.index, planned.limit)
    outcome, failure = None, None
    try:
        if planned.index in control.deaths:
            raise CwndlabError(control.deaths[planned.index])
        outcome = bed.run(planned.index, planned.scenario, files, control.of_run(planned))
    except (CancelledError, OSError, MemoryError):
        raise  # a full disk is no property of the run
    except Exception as error:  # whatever goes wrong in one run must not take the others with it
        failure = one_line(error)
    return RunRecord(
        run_id=planned.index,
        repeat=planned.repeat,
        cell=planned.cell,
        scenario_hash=planned.scenario_hash,
        status="complete" if outcome else "failed",
        error=failure,
        warnings=[*planned.warnings, *(outcome.warnings if outcome else ()), *files.ended.values()],
        notes=list(planned.notes),
        testbed=bed.name,
        versions=site.versions,
        machine=_machine(),
        facts=outcome.facts if outcome else {},
        started=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - clock, 3),
        tables=files.finish(),
        captures=files.captures,
        summary=outcome.summary if outcome else None,
        scenario=planned.scenario,
        position=site.sequence.positions[planned.index] if site.sequence is not None else None,
        attachments=files.attachments,
    )


def one_line(error: Exception) -> str:
    """Say in one line what went wrong; an error that nobody thought of is called a fault of cwndlab,
    with its kind.
    """
    match error:
        case CwndlabError():
            said = str(error)
        case OSError():
            said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        case MemoryError():
            said = "there is no memory left"
        case _:
            said = f"a fault of cwndlab: {type(error).__name__}: {error}"
    return " ".join(said.split())


@functools.cache
def _machine() -> dict[str, str]:
    host = platform.uname()
    commit = software.commit()
    return {
        **({"cwndlab commit": commit} if commit else {}),
        "host": host.node,
        "system": f"{host.system} {host.release}",
        "architecture": host.machine,
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
    }
