"""The executor of local processes: spawned workers, each with one task at a time."""

import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing import popen_spawn_posix, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cwndlab import _native
from cwndlab.execution import store
from cwndlab.execution.executor import Arrivals
from cwndlab.execution.executors import watchdog
from cwndlab.execution.executors.watchdog import Log, Watch
from cwndlab.execution.signals import STOPPING, uninterrupted
from cwndlab.execution.task import PartControl, Site, Task, carry_out_part, one_line
from cwndlab.results.parts import Part
from cwndlab.testbeds.base import CancelledError

MESSAGE_BYTES = 1 << 20
"""Longest message of a worker."""

END_S = 5.0
"""Seconds that a worker has to end once it has nothing to do."""

STOP_S = 10.0
"""Seconds that workers have to drop their parts; they look every few tens of milliseconds."""


class Processes:
    """Spawned processes; one that dies takes only the part it was at with it, and ends the sweep. One that
    may have died of a congestion control from outside only fails the run it was at."""

    def __init__(self, places: int, arrivals: Arrivals) -> None:
        """Have so many workers at most, which write their parts in place themselves."""
        self.places = places
        self._arrivals = arrivals
        self._context = multiprocessing.get_context("spawn")
        # Started with the first worker, it would let signals through that are held back meanwhile.
        resource_tracker.ensure_running()
        self._waiting: deque[Task] = deque()
        self._working: list[_Worker] = []
        self._deaths: dict[int, str] = {}
        """Runs that a worker died of, and how."""
        self._log = Log(arrivals.site.runs.parent / "modules" / "output.log")
        self._told: dict[str, tuple[int, int]] = {}
        """Runs and work of a part that were told of, should it be done again."""

    def submit(self, task: Task) -> None:
        """Take a task; it begins in `wait`."""
        self._waiting.append(task)

    def wait(self) -> None:
        """Have everything carried out that was handed in, or what was begun when one worker fails."""
        while self._working or self._next():
            while len(self._working) < self.places and self._next():
                with uninterrupted():
                    self._start(self._waiting.popleft())
            self._listen()

    def cancel(self) -> None:
        """Let every worker drop its part, and wait for them; a further Ctrl-C ends those at once."""
        try:
            self._drop()
            deadline = time.monotonic() + STOP_S
            while self._working and (left := deadline - time.monotonic()) > 0:
                for worker in self._ready(left):
                    try:
                        list(worker.messages())  # a full pipe would hold it up
                    except (EOFError, OSError, ValueError, RecursionError):
                        self._ended(worker, None)
        finally:
            with uninterrupted():
                for worker in self._working:
                    worker.process.kill()
                    worker.process.join()
                    worker.forget()
                self._working.clear()

    def _next(self) -> Task | None:
        return self._waiting[0] if self._waiting and not self._arrivals.troubles else None

    def _start(self, task: Task) -> None:
        site = self._arrivals.site
        ours, theirs = self._context.Pipe()
        output, printed = self._context.Pipe(duplex=False)
        process = _Process(
            target=_work, args=(theirs, printed, site), name=f"cwndlab part {task.name}", daemon=True
        )
        process.start()
        theirs.close()
        printed.close()
        os.set_blocking(output.fileno(), False)
        ours.send((task, self._deaths))
        watch = Watch(_witness(site, process.pid), process.pid)
        self._working.append(_Worker(process, ours, output, watch, task, task.parts[0].name))

    def _ready(self, timeout: float | None = None) -> "Iterator[_Worker]":
        """Workers that have said something; then takes what workers have printed."""
        ready = wait([end for worker in self._working for end in worker.ends()], timeout)
        yield from [worker for worker in self._working if worker.pipe in ready]
        # A worker says that a run is over once all that was printed in it is taken.
        for worker in self._working:
            if worker.output in ready and not self._log.take(worker.output, self._at(worker)):
                worker.silent = True

    def _listen(self) -> None:
        for worker in self._ready(watchdog.LOOK_S if self._arrivals.site.modules else None):
            try:
                for message in worker.messages():
                    self._heard(worker, message)
            except (EOFError, OSError):
                self._died(worker)
            except (ValueError, RecursionError):
                worker.garbled = True
                worker.process.kill()
                self._died(worker)
        for worker in self._working:
            if self._arrivals.site.modules and worker.watch.look():
                worker.process.kill()

    def _heard(self, worker: "_Worker", message: object) -> None:
        match message:
            case _ if worker not in self._working:
                pass  # it was over with the message before
            case ["advance", int(runs), int(work)]:
                worker.runs += runs
                worker.work += work
                self._advance(worker)
            case ["begin", str(part)] if part in [one.name for one in worker.task.parts]:
                worker.part, worker.runs, worker.work = part, 0, 0
            case ["done"] if self._next():
                worker.task = self._waiting.popleft()
                worker.pipe.send((worker.task, self._deaths))
            case ["done"]:
                with suppress(OSError):  # it may have been told already
                    worker.pipe.send(None)
                self._ended(worker, None)
            case ["cancelled"]:
                self._ended(worker, None)
            case ["trouble", str(text)]:
                self._ended(worker, text)
            case _:
                raise ValueError(message)

    def _advance(self, worker: "_Worker") -> None:
        """Tell of what the worker has done, but for what was told before its part was done again."""
        runs, work = self._told.get(worker.part, (0, 0))
        more = max(worker.runs - runs, 0), max(worker.work - work, 0)
        self._told[worker.part] = runs + more[0], work + more[1]
        self._arrivals.advance(*more)

    def _at(self, worker: "_Worker") -> int | None:
        """The run that a worker is at."""
        runs = next(part.runs for part in worker.task.parts if part.name == worker.part)
        return runs[worker.runs].index if worker.runs < len(runs) else None

    def _died(self, worker: "_Worker") -> None:
        """Count the run of a congestion control from outside as failed, and go on with the part
        without it.
        """
        cause, site = worker.cause(), self._arrivals.site
        names = [part.name for part in worker.task.parts]
        left = worker.task.parts[names.index(worker.part) :]
        at = self._at(worker)
        if not site.modules or at is None or at in self._deaths or self._arrivals.troubles:
            self._ended(worker, f"part {worker.part}: {cause}")
            return
        hook = worker.watch.last()
        self._ended(worker, None)
        shutil.rmtree(store.unfinished(site.runs, worker.part, worker.process.pid or 0), ignore_errors=True)
        outside = ", ".join(dict.fromkeys(module.name for module in site.modules))
        self._deaths[at] = f"{cause}{hook or f' with congestion controls from outside: {outside}'}"
        self._waiting.appendleft(Task(left))

    def _ended(self, worker: "_Worker", trouble: str | None) -> None:
        self._working.remove(worker)
        worker.end()
        while not worker.silent and self._log.take(worker.output, self._at(worker)):
            pass
        worker.forget()
        if trouble:
            self._arrivals.lost(trouble)
            self._drop()

    def _drop(self) -> None:
        """Let every worker drop its part. Whatever comes over the pipe meanwhile means that."""
        for worker in self._working:
            with suppress(OSError):
                worker.pipe.send(None)


class _Popen(popen_spawn_posix.Popen):
    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Exit code of the process, if it has ended. One that has itself traced tells of stops too."""
        while True:
            with suppress(ValueError):
                return super().poll(flag)


class _Process(SpawnProcess):
    _Popen = staticmethod(_Popen)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    output: "Connection[Any, Any]"
    """Pipe of the worker's output, where congestion controls from outside may print."""
    watch: Watch
    task: Task
    part: str
    """The name of the part it is at."""
    runs: int = 0
    """Number of finished runs of the part."""
    work: int = 0
    """Done of it."""
    silent: bool = False
    """Worker prints nothing any more."""
    garbled: bool = False
    """Something has come over the pipe that no worker says."""
    held: bytes = b""
    """Beginning of a message whose end has not come."""

    def messages(self) -> Iterator[object]:
        """Messages that have come whole; never waits for more. Raises ValueError for what no worker says.

        Code from outside may write there, so that nothing is unpickled here, and no length is believed.
        """
        data = os.read(self.pipe.fileno(), 1 << 16)
        if not data:
            raise EOFError
        *whole, self.held = (self.held + data).split(b"\n")
        for line in whole:
            yield json.loads(line)
        if len(self.held) > MESSAGE_BYTES:
            raise ValueError(len(self.held))

    def ends(self) -> "list[Connection[Any, Any]]":
        """Pipes of the worker that may have something to read."""
        return [self.pipe] if self.silent else [self.pipe, self.output]

    def cause(self) -> str:
        """Reason why the worker does not answer any more; ends the worker."""
        code = self.end()
        if code is None:  # it has closed its side
            return watchdog.CAUSES[watchdog.CLOSED]
        if self.garbled:
            return watchdog.WRITTEN
        if self.watch.overdue:
            return self.watch.overdue
        died = f"signal {-code}" if code < 0 else f"exit code {code}"
        return watchdog.CAUSES.get(code, f"the worker died ({died})")

    def end(self) -> int | None:
        """Exit code of the process; None: it had to be killed, as threads of code from outside may go on."""
        self.process.join(timeout=END_S)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        return code

    def forget(self) -> None:
        """Close what was to it, and remove what it wrote of itself."""
        self.watch.forget()
        self.pipe.close()
        self.output.close()


def _witness(site: Site, pid: int | None) -> Path:
    """File in which a worker says which hook of a congestion control from outside runs."""
    return site.runs / f".hook-{pid}"


def _work(pipe: "Connection[Any, Any]", printed: "Connection[Any, Any]", site: Site) -> None:
    """Carry out part after part, as the body of a worker process, until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    for number in STOPPING:
        signal.signal(number, _left_to_the_parent)
    # Programs that a testbed starts take them all.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *STOPPING})
    threading.Thread(target=_die_with_parent, daemon=True).start()
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    if site.modules:
        # Hooks may print, change the folder, and open and close files.
        watchdog.own_output(printed)
        site = replace(site, runs=site.runs.absolute())
        _native.watch_modules(_witness(site, os.getpid()))
        around = watchdog.belongings
    printed.close()
    bed = site.find()
    part: Part | None = None

    def say(*message: str | int) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(pipe.fileno(), data) :]

    def advance(runs: int, work: int) -> None:
        say("advance", runs, work)

    try:
        while (order := pipe.recv()) is not None:
            task, deaths = order
            for part in task.parts:
                say("begin", part.name)
                # Nothing comes over the pipe before the task is done, unless it is to be dropped.
                control = PartControl(pipe.poll, advance, site.work, around=around, deaths=deaths)
                carry_out_part(part, bed, site, control)
            say("done")
    except CancelledError:
        say("cancelled")
    except (EOFError, BrokenPipeError):
        return  # the parent is gone
    except OSError as error:
        say("trouble", f"{error.filename or site.runs}: {error.strerror or error}")
    except Exception as error:
        say("trouble", f"part {part.name}: {one_line(error)}" if part else one_line(error))


def _left_to_the_parent(number: int, frame: object) -> None:
    """Do nothing: programs that a testbed starts would inherit SIG_IGN."""


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # half a part is worth nothing, and whoever resumes must find nobody at work
