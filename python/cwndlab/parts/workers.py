"""Carries parts of a plan out, in this process or in spawned workers, each with one part at a time."""

import functools
import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from cwndlab import testbeds
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError
from cwndlab.parts import store
from cwndlab.parts.order import SET_UP_NS, Order
from cwndlab.parts.store import Part, PartWriter, RunRecord
from cwndlab.plan import PlannedRun
from cwndlab.testbeds.base import CancelledError, Control, Testbed


class Observer(Protocol):
    """Is told how far a sweep is."""

    def planning(self, planned: int, runs: int) -> None:
        """So many runs of the plan are known and checked; before `start`."""

    def start(self, runs: int, work: int) -> None:
        """So many runs and so much work are ahead; work is in arbitrary units."""

    def advance(self, runs: int, work: int) -> None:
        """So many more runs and so much more work are done."""


STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a sweep as Ctrl-C does: asked to by another program, or the terminal is gone."""

STOP_S = 10.0
"""Seconds that workers have to drop their parts; they look every few tens of milliseconds."""


@dataclass(frozen=True)
class Site:
    """Where parts are carried out, and where they go."""

    testbed: str
    """Name of the testbed; every process makes its own."""
    runs: Path
    """The directory that gets the parts."""
    versions: dict[str, str]
    """What carries the packets, for the record."""
    sequence: Order | None = None
    """The order of runs and the pause between them, where runs take real time."""
    lab: Path | None = None
    """The file of the machines, where the testbed has such."""

    def find(self) -> Testbed:
        """The testbed, made in this process."""
        return testbeds.find(self.testbed, self.lab)

    def work(self, scenario: Scenario) -> tuple[int, int]:
        """What a run costs before its t = 0, and from then on: packets, or us where it takes real time."""
        if self.sequence is None:
            return 0, store.expected_packets(scenario)
        return (self.sequence.pause_ns + SET_UP_NS) // 1000, scenario["duration_ns"] // 1000


def processors() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carry_out(ahead: Sequence[Part], site: Site, jobs: int, observer: Observer) -> None:
    """Carry out parts on up to `jobs` processes; one job needs no other process.

    Raises KeyboardInterrupt after SIGINT, when what is not whole has been dropped, and CwndlabError when the
    disk fails or a worker dies; parts already committed stay.
    """
    if min(jobs, len(ahead)) > 1:
        _Workers(site, observer).carry_out(ahead, jobs)
        return
    bed = site.find()
    try:
        for place, part in enumerate(ahead):
            if place and site.sequence is not None:
                time.sleep(site.sequence.pause_ns / 1e9)
            carry_out_part(part, bed, site, PartControl(lambda: False, observer.advance, site.work))
    except OSError as error:
        raise CwndlabError(f"{error.filename or site.runs}: {error.strerror or error}") from None


def carry_out_part(part: Part, bed: Testbed, site: Site, control: "PartControl") -> None:
    """Carry out the runs of one part and commit it; raises CancelledError without a trace of the part."""
    with PartWriter(site.runs, part.name) as writer:
        for planned in part.runs:
            writer.record(_carry_out_run(planned, bed, site, writer, control))
            control.finished(planned)
        writer.commit()


@dataclass
class PartControl:
    """How a part talks with the sweep it belongs to."""

    cancelled: Callable[[], bool]
    advance: Callable[[int, int], None]
    """Told of runs finished and of work done since the last call."""
    work: Callable[[Scenario], tuple[int, int]]
    """`Site.work`."""
    _told: int = 0

    def of_run(self, planned: PlannedRun) -> Control:
        """The control of one run: its own time becomes work."""
        before, during = self.work(planned.scenario)
        duration = max(planned.scenario["duration_ns"], 1)
        return Control(
            self.cancelled, lambda now_ns: self._tell(0, before + during * min(now_ns, duration) // duration)
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
    files = writer.begin(planned.index)
    outcome, failure = None, None
    try:
        outcome = bed.run(planned.index, planned.scenario, files, control.of_run(planned))
    except (CancelledError, OSError, MemoryError):
        raise  # a full disk is no property of the run
    except Exception as error:  # whatever goes wrong in one run must not take the others with it
        failure = _one_line(error)
    return RunRecord(
        run_id=planned.index,
        repeat=planned.repeat,
        cell=planned.cell,
        scenario_hash=planned.scenario_hash,
        status="complete" if outcome else "failed",
        error=failure,
        warnings=[*planned.warnings, *(outcome.warnings if outcome else ())],
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


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    part: Part


class _Workers:
    """Spawned processes, each with one part at a time; a process that dies takes only its part with it."""

    def __init__(self, site: Site, observer: Observer) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._site = site
        self._observer = observer
        self._working: list[_Worker] = []
        self._troubles: list[str] = []

    def carry_out(self, ahead: Sequence[Part], jobs: int) -> None:
        waiting = list(reversed(ahead))
        try:
            while self._working or (waiting and not self._troubles):
                while waiting and len(self._working) < jobs and not self._troubles:
                    with uninterrupted():
                        self._start(waiting.pop())
                self._listen(waiting)
        except BaseException:
            self._stop()
            raise
        if self._troubles:
            raise CwndlabError("; ".join(self._troubles))

    def _start(self, part: Part) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work,
            args=(theirs, self._site),
            name=f"cwndlab part {part.name}",
            daemon=True,
        )
        process.start()
        theirs.close()
        ours.send(part)
        self._working.append(_Worker(process, ours, part))

    def _listen(self, waiting: list[Part]) -> None:
        for ready in wait([worker.pipe for worker in self._working]):
            worker = next(worker for worker in self._working if worker.pipe is ready)
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                self._ended(worker, f"the worker of part {worker.part.name} died ({_cause(worker.process)})")
                continue
            match message:
                case ("advance", int(runs), int(work)):
                    self._observer.advance(runs, work)
                case ("done",) if waiting and not self._troubles:
                    worker.part = waiting.pop()
                    worker.pipe.send(worker.part)
                case ("done",):
                    with suppress(OSError):  # it may have been told already
                        worker.pipe.send(None)
                    self._ended(worker, None)
                case ("cancelled",):
                    self._ended(worker, None)
                case ("trouble", str(text)):
                    self._ended(worker, text)

    def _ended(self, worker: _Worker, trouble: str | None) -> None:
        self._working.remove(worker)
        worker.process.join()
        worker.pipe.close()
        if trouble:
            self._troubles.append(trouble)
            self._cancel()

    def _cancel(self) -> None:
        """Let every worker drop its part. Whatever comes over the pipe meanwhile means that."""
        for worker in self._working:
            with suppress(OSError):
                worker.pipe.send(None)

    def _stop(self) -> None:
        """Let every worker drop its part, and wait for them; a further Ctrl-C ends those at once."""
        try:
            self._cancel()
            deadline = time.monotonic() + STOP_S
            while self._working and (left := deadline - time.monotonic()) > 0:
                for ready in wait([worker.pipe for worker in self._working], timeout=left):
                    worker = next(worker for worker in self._working if worker.pipe is ready)
                    try:
                        worker.pipe.recv()  # what it still says must be taken: a full pipe would hold it up
                    except (EOFError, OSError):
                        self._ended(worker, None)
        finally:
            with uninterrupted():
                for worker in self._working:
                    worker.process.kill()
                    worker.process.join()
                    worker.pipe.close()
                self._working.clear()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end; a process started meanwhile does not see it before it unblocks it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *STOPPING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cause(process: BaseProcess) -> str:
    process.join(timeout=5)
    code = process.exitcode or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _work(pipe: "Connection[Any, Any]", site: Site) -> None:
    """What a worker process does: carry out part after part until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    for number in STOPPING:
        signal.signal(number, _left_to_the_parent)
    # Programs that a testbed starts take them all.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *STOPPING})
    threading.Thread(target=_die_with_parent, daemon=True).start()
    bed = site.find()
    part: Part | None = None

    def advance(runs: int, work: int) -> None:
        pipe.send(("advance", runs, work))

    try:
        while (part := pipe.recv()) is not None:
            # Nothing comes over the pipe before the part is done, unless it is to be dropped.
            carry_out_part(part, bed, site, PartControl(pipe.poll, advance, site.work))
            pipe.send(("done",))
    except CancelledError:
        pipe.send(("cancelled",))
    except (EOFError, BrokenPipeError):
        return  # the parent is gone
    except OSError as error:
        pipe.send(("trouble", f"{error.filename or site.runs}: {error.strerror or error}"))
    except Exception as error:
        pipe.send(("trouble", f"part {part.name}: {_one_line(error)}" if part else _one_line(error)))


def _left_to_the_parent(number: int, frame: object) -> None:
    """Nothing: not SIG_IGN, which programs that a testbed starts would inherit."""


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # half a part is worth nothing, and whoever resumes must find nobody at work


@functools.cache
def _machine() -> dict[str, str]:
    host = platform.uname()
    return {
        "host": host.node,
        "system": f"{host.system} {host.release}",
        "architecture": host.machine,
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
    }
