"""Carries a plan out: parts go to spawned workers, results to a directory that is never overwritten."""

import fcntl
import multiprocessing
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import IO, Protocol

from cwndlab import testbeds
from cwndlab.errors import CwndlabError, InputError
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.plan import PlannedRun
from cwndlab.results import catalogue, parts, resuming
from cwndlab.results.catalogue import Header
from cwndlab.results.parts import Part, PartWriter, RunRecord
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.base import Cancelled, Control, Testbed


class Observer(Protocol):
    """Is told how far a sweep is."""

    def start(self, runs: int, work: int) -> None:
        """So many runs and so much work are ahead; work is in arbitrary units."""

    def advance(self, runs: int, work: int) -> None:
        """So many more runs and so much more work are done."""


class Interrupted(CwndlabError):
    """The sweep was stopped on request; what is whole is kept."""

    exit_code = 130


def run(
    experiment: Experiment,
    *,
    testbed: str = "sim",
    out: str | Path | None = None,
    jobs: int = 1,
    resume: bool = False,
    observer: Observer | None = None,
) -> ResultSet:
    """Carry out every run of an experiment and return its results.

    They go to `out`, or to a new directory `results/NAME-DATE` with `results/latest` pointing at it. With `resume`
    they complete what is in `out` (default: the newest directory of that experiment), parts that are whole are kept,
    and an experiment that differs from the one there is refused. Any number of `jobs` writes the same bytes, but
    runs.jsonl, which alone holds clock times and facts of the machine.

    A run that fails is recorded with its reason and does not stop the others; ask `ResultSet.complete`. Raises
    InputError for a bad experiment or directory before anything is carried out, Interrupted after SIGINT. With more
    than one job the caller's main module must be importable (`if __name__ == "__main__"`), as for every spawned
    process.
    """
    if jobs < 1:
        raise InputError(f"jobs: {jobs} is not a number of workers; it must be at least 1")
    plan = experiment.plan()
    bed = testbeds.find(testbed)
    for planned in plan.runs:
        _preflight(bed, planned)
    header = Header(plan.experiment, bed.name, list(plan.keys), {"cwndlab": version("cwndlab"), **bed.versions()})
    cut = parts.cut(plan.runs)
    directory = _directory(plan.experiment, None if out is None else Path(out), resume)
    with _locked(directory):
        kept = resuming.prepare(directory, header, cut, experiment.as_yaml(), resume)
        observer = observer or _Nobody()
        ahead = [part for part in cut if part.name not in kept]
        runs = [planned for part in ahead for planned in part.runs]
        observer.start(len(runs), sum(parts.expected_packets(planned.scenario) for planned in runs))
        try:
            _carry_out(ahead, bed.name, directory / "runs", header.versions, min(jobs, len(ahead)), observer)
        finally:
            done = resuming.collect(directory, cut)
            table = catalogue.build(header, cut, done)
            catalogue.write(directory, table)
            catalogue.write_summary(directory, table)
    return ResultSet(directory)


def carry_out_part(
    part: Part, testbed: Testbed, runs: Path, versions: dict[str, str], control: "PartControl"
) -> None:
    """Carry out the runs of one part and commit it; raises Cancelled without a trace of the part."""
    with PartWriter(runs, part.name) as writer:
        for planned in part.runs:
            writer.record(_carry_out_run(planned, testbed, writer, versions, control))
            control.finished(planned)
        writer.commit()


@dataclass
class PartControl:
    """How a part talks with the sweep it belongs to."""

    cancelled: Callable[[], bool]
    advance: Callable[[int, int], None]
    """Told of runs finished and of work done since the last call."""
    _told: int = 0

    def of_run(self, planned: PlannedRun) -> Control:
        """The control of one run: its own time becomes work."""
        work, duration = parts.expected_packets(planned.scenario), max(planned.scenario["duration_ns"], 1)
        return Control(self.cancelled, lambda now_ns: self._tell(0, work * min(now_ns, duration) // duration))

    def finished(self, planned: PlannedRun) -> None:
        """A run is over, however much of it was told."""
        self._tell(1, parts.expected_packets(planned.scenario))
        self._told = 0

    def _tell(self, runs: int, work: int) -> None:
        if runs or work > self._told:
            self.advance(runs, work - self._told)
            self._told = work


def _carry_out_run(
    planned: PlannedRun, testbed: Testbed, writer: PartWriter, versions: dict[str, str], control: PartControl
) -> RunRecord:
    started, clock = datetime.now(UTC), time.monotonic()
    files = writer.begin(planned.index)
    outcome, failure = None, None
    try:
        outcome = testbed.run(planned.index, planned.scenario, files, control.of_run(planned))
    except (Cancelled, OSError, MemoryError):
        raise  # a full disk is no property of the run
    except Exception as error:  # whatever goes wrong in one run must not take the others with it
        failure = " ".join(f"{type(error).__name__}: {error}".split())
    return RunRecord(
        run_id=planned.index,
        repeat=planned.repeat,
        cell=planned.cell,
        scenario_hash=planned.scenario_hash,
        status="complete" if outcome else "failed",
        error=failure,
        warnings=outcome.warnings if outcome else [],
        notes=list(planned.notes),
        testbed=testbed.name,
        versions=versions,
        machine=_machine(),
        facts=outcome.facts if outcome else {},
        started=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - clock, 3),
        tables=files.finish(),
        captures=files.captures,
        summary=outcome.summary if outcome else None,
        scenario=planned.scenario,
    )


def _preflight(bed: Testbed, planned: PlannedRun) -> None:
    try:
        bed.preflight(planned.scenario)
    except ValueError as error:
        cell = ", ".join(f"{key}={value}" for key, value in planned.cell.items())
        raise InputError(f"testbed {bed.name} refuses run {planned.index}{f' ({cell})' if cell else ''}: {error}") from None


def _machine() -> dict[str, str]:
    host = platform.uname()
    return {
        "host": host.node,
        "system": f"{host.system} {host.release}",
        "architecture": host.machine,
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
    }


class _Nobody:
    """An observer that looks away."""

    def start(self, runs: int, work: int) -> None:
        """Nothing to do."""

    def advance(self, runs: int, work: int) -> None:
        """Nothing to do."""


# Workers ------------------------------------------------------------------------------------------------------------


def _carry_out(
    ahead: Sequence[Part], testbed: str, runs: Path, versions: dict[str, str], jobs: int, observer: Observer
) -> None:
    if jobs <= 1:
        bed = testbeds.find(testbed)
        try:
            for part in ahead:
                carry_out_part(part, bed, runs, versions, PartControl(lambda: False, observer.advance))
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        return
    _Workers(testbed, runs, versions, observer).carry_out(ahead, jobs)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[object, object]"
    part: Part


class _Workers:
    """Spawned processes, each with one part at a time; a process that dies takes only its part with it."""

    def __init__(self, testbed: str, runs: Path, versions: dict[str, str], observer: Observer) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._cancel = self._context.Event()
        self._arguments = (testbed, runs, versions)
        self._observer = observer
        self._working: list[_Worker] = []
        self._troubles: list[str] = []

    def carry_out(self, ahead: Sequence[Part], jobs: int) -> None:
        waiting = list(reversed(ahead))
        try:
            while self._working or (waiting and not self._troubles):
                while waiting and len(self._working) < jobs and not self._troubles:
                    self._start(waiting.pop())
                self._listen(waiting)
        except KeyboardInterrupt:
            self._stop()
            raise Interrupted("interrupted") from None
        except BaseException:
            self._stop()
            raise
        if self._troubles:
            raise CwndlabError("; ".join(self._troubles))

    def _start(self, part: Part) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(theirs, self._cancel, *self._arguments), name=f"cwndlab part {part.name}", daemon=True
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
                case ("done",) if waiting:
                    worker.part = waiting.pop()
                    worker.pipe.send(worker.part)
                case ("done",):
                    worker.pipe.send(None)
                    self._ended(worker, None)
                case ("trouble", str(text)):
                    self._ended(worker, text)

    def _ended(self, worker: _Worker, trouble: str | None) -> None:
        self._working.remove(worker)
        worker.process.join()
        worker.pipe.close()
        if trouble:
            self._troubles.append(trouble)
            self._cancel.set()

    def _stop(self) -> None:
        """Let every worker drop its part, and wait for them; those that do not listen are ended."""
        self._cancel.set()
        for worker in self._working:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()
        self._working.clear()


def _cause(process: BaseProcess) -> str:
    process.join(timeout=5)
    code = process.exitcode or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _work(
    pipe: "Connection[object, object]", cancel: Event, testbed: str, runs: Path, versions: dict[str, str]
) -> None:
    """What a worker process does: carry out part after part until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    bed = testbeds.find(testbed)
    try:
        while (part := pipe.recv()) is not None:
            if not isinstance(part, Part):
                raise TypeError("workers are sent parts")
            control = PartControl(cancel.is_set, lambda count, work: pipe.send(("advance", count, work)))
            carry_out_part(part, bed, runs, versions, control)
            pipe.send(("done",))
    except Cancelled:
        return
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(("trouble", " ".join(f"{type(error).__name__}: {error}".split())))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # half a part is worth nothing, and whoever resumes must find nobody at work


# Directories --------------------------------------------------------------------------------------------------------


def _directory(experiment: str, out: Path | None, resume: bool) -> Path:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).lstrip(".-") or "experiment"
    try:
        if out is None:
            return _newest(Path("results"), name) if resume else _dated(Path("results"), name)
        out.mkdir(parents=True, exist_ok=True)
        if not resume and any(out.iterdir()):
            raise InputError(f"{out}: not empty; give another directory, or --resume to complete these results")
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from None
    return out


def _dated(base: Path, name: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    for again in ["", *(f".{count}" for count in range(1, 1000))]:
        directory = base / f"{name}-{stamp}{again}"
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        _link(base / "latest", directory.name)
        return directory
    raise InputError(f"{base}: a thousand results of {name} in one second")


def _link(link: Path, target: str) -> None:
    aside = link.with_name(f".{link.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    if link.is_dir() and not link.is_symlink():
        aside.unlink()
        raise InputError(f"{link}: is a directory of its own, so it cannot point at the newest results")
    aside.replace(link)


def _newest(base: Path, name: str) -> Path:
    dated = re.compile(re.escape(name) + r"-\d{4}-\d\d-\d\d-\d{6}(\.\d+)?")
    found = [path for path in base.glob("*") if dated.fullmatch(path.name)]
    if not found:
        raise InputError(f"{base}: no results of {name} to resume; give their directory with -o")
    return max(found)


@contextmanager
def _locked(directory: Path) -> Iterator[IO[str]]:
    """Hold a results directory, so that two runs never write into one; released whenever the process ends."""
    with (directory / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{directory}: another cwndlab is writing there") from None
        yield lock
