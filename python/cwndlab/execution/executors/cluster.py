"""The executor of a Dask cluster: tasks go to its workers, and the bytes of finished parts come back."""

import functools
import logging
import queue
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker, Worker, get_worker

from cwndlab import testbeds
from cwndlab.errors import CwndlabError, InputError
from cwndlab.execution import worker as permission
from cwndlab.execution.executor import Arrivals
from cwndlab.execution.executors import child_process
from cwndlab.execution.task import PartControl, Site, Task, carry_out_part, one_line
from cwndlab.foreign import Module, parcels
from cwndlab.foreign.parcels import Parcel
from cwndlab.results import software

FAILURES = 3
"""Times that a task may fail before it is given up."""

CONNECT_S = 10.0
"""Seconds that a scheduler may take to answer."""

ANSWER_S = 60.0
"""Seconds that a scheduler, and the workers behind it, may take to answer a question."""

COMPILE_S = 300.0
"""Seconds that they may take where they compile congestion controls first."""

LOOK_S = 1.0
"""Seconds between two looks at the scheduler while nothing arrives."""

AHEAD = 2
"""Tasks at the cluster for each of its threads: one at work, one that waits. Scenarios and results of more
would fill the scheduler's memory and the workers'."""


class Cluster:
    """Hands tasks to a scheduler that is there already; whoever has started it ends it."""

    def __init__(self, address: str, arrivals: Arrivals) -> None:
        """Connect; `address` is a scheduler's (`tcp://HOST:PORT`), or its scheduler file (`.json`).

        Raises CwndlabError when none answers, InputError when a worker there has another version.
        """
        # What is wrong is said in our own words, once. Dask gives its client a level of its own.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        where = {"address": address} if "://" in address else {"scheduler_file": address}
        if "address" not in where and not Path(address).is_file():
            raise InputError(f"--cluster: {address} is neither an address such as tcp://HOST:8786 nor a file")
        self._address = address
        self._arrivals = arrivals
        self._parcels = parcels.pack(arrivals.site.modules)
        self._site = replace(arrivals.site, modules=())  # a worker has its own
        try:
            self._client = self._answered(
                lambda: Client(**where, name="cwndlab", timeout=CONNECT_S, set_as_default=False),
                2 * CONNECT_S,
            )
        except CwndlabError:
            raise
        except OSError as error:
            raise CwndlabError(
                f"--cluster: no Dask scheduler answers at {address} ({one_line(error)})"
            ) from None
        except Exception:  # whatever Dask makes of an answer that is none of a scheduler
            raise CwndlabError(f"--cluster: what answers at {address} is no Dask scheduler") from None
        try:
            self._check_workers()
            self.places = self._threads()
        except BaseException:
            self._client.close(timeout=1)
            raise
        self._waiting: deque[_Sent] = deque()
        self._sent: dict[str, _Sent] = {}
        self._over: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def submit(self, task: Task) -> None:
        """Take a task; it is sent in `wait`."""
        self._waiting.append(_Sent(task))

    def wait(self) -> None:
        """Send tasks and take what comes back, until all are over; one that is lost stops no other."""
        looked = -LOOK_S
        while self._waiting or self._sent:
            if time.monotonic() - looked > LOOK_S:
                self._look()
                looked = time.monotonic()
            while self._waiting and len(self._sent) < AHEAD * self.places:
                self._send(self._waiting.popleft())
            with suppress(queue.Empty):
                self._take(self._over.get(timeout=LOOK_S))
        self._client.close()

    def cancel(self) -> None:
        """Let the workers drop what they are at; they look every few tens of milliseconds."""
        self._waiting.clear()
        with suppress(Exception):  # whatever it is, the scheduler is gone, and drops the tasks of who left
            self._client.cancel([sent.future for sent in self._sent.values()], force=True)
            self._client.close(timeout=1)

    def _check_workers(self) -> None:
        site = self._arrivals.site
        told = self._answered(
            lambda: self._client.run(versions, site.testbed, site.lab, self._parcels, on_error="return"),
            COMPILE_S if self._parcels else ANSWER_S,
        )
        for worker, found in told.items():
            if isinstance(found, InputError):
                raise InputError(f"--cluster: the worker {worker}: {found}")
            if isinstance(found, BaseException):
                raise InputError(f"--cluster: the worker {worker} cannot run cwndlab ({found})")
            _compare(site, found, worker)

    def _threads(self) -> int:
        return max(1, sum(map(int, self._answered(self._client.nthreads, ANSWER_S).values())))

    def _answered(self, ask: Callable[[], Any], limit_s: float) -> Any:
        """Return what `ask` returns, a question to the scheduler; raises CwndlabError if that has no end."""
        answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def asking() -> None:
            try:
                answers.put((ask(), None))
            except BaseException as error:  # raised where the answer is waited for
                answers.put((None, error))

        threading.Thread(target=asking, daemon=True).start()
        try:
            answer, error = answers.get(timeout=limit_s)
        except queue.Empty:
            raise CwndlabError(
                f"--cluster: {self._address} was silent for {limit_s:g} s; is a Dask scheduler there?"
            ) from None
        if error is not None:
            raise error
        return answer

    def _look(self) -> None:
        if self._client.status != "running":
            raise CwndlabError(f"the Dask scheduler at {self._address} is gone; --resume does what is left")
        with suppress(OSError):  # told by the status, the next time
            self.places = self._threads()

    def _send(self, sent: "_Sent") -> None:
        key = f"cwndlab-{uuid.uuid4().hex}"
        sent.future = self._client.submit(
            carry_out_task, sent.task, self._site, self._parcels, key=key, pure=False
        )
        self._sent[key] = sent
        sent.future.add_done_callback(self._over.put)

    def _take(self, future: Future[Any]) -> None:
        sent = self._sent.pop(str(future.key))
        try:
            made: Mapping[str, Mapping[str, bytes]] = future.result()
        except KilledWorker as error:
            self._arrivals.lost(
                f"part {sent.task.name}: its workers died, the last was {error.last_worker.address}"
            )
        except FutureCancelledError:
            raise CwndlabError(
                f"the Dask scheduler at {self._address} is gone; --resume does what is left"
            ) from None
        except InputError:
            raise  # a worker of another version
        except Exception as error:  # whatever went wrong there
            sent.failures += 1
            if sent.failures < FAILURES:
                self._waiting.appendleft(sent)
            else:
                self._arrivals.lost(f"part {sent.task.name}: failed {FAILURES} times ({one_line(error)})")
        else:
            for part in sent.task.parts:
                self._arrivals.place(part, made[part.name])
        future.release()


@dataclass
class _Sent:
    """A task, where it is, and how often it failed."""

    task: Task
    future: Any = None
    failures: int = 0


def versions(testbed: str, lab: Path | None, sent: tuple[Parcel, ...], dask_worker: Worker) -> dict[str, str]:
    """Versions with which a worker would carry runs out. Raises InputError where the worker may not or
    cannot.

    Dask knows the last parameter by its name.
    """
    modules = _modules(sent, dask_worker)
    return {"cwndlab": software.version(), **testbeds.find(testbed, lab, modules).versions()}


def carry_out_task(task: Task, site: Site, sent: tuple[Parcel, ...]) -> dict[str, dict[str, bytes]]:
    """Carry a task out at a worker, in a directory of the worker's own, and return the files of the parts."""
    worker = get_worker()
    _compare(site, versions(site.testbed, site.lab, sent, worker), worker.address)
    with tempfile.TemporaryDirectory(prefix="cwndlab-", dir=worker.local_directory) as own:
        here = replace(site, runs=Path(own), modules=_modules(sent, worker))
        if here.modules:
            child_process.carry_out(task.parts, here, _dropped())
        else:
            control = PartControl(_dropped(), lambda runs, work: None, site.work)
            for part in task.parts:
                carry_out_part(part, here.find(), here, control)
        return {
            part.name: {file.name: file.read_bytes() for file in sorted((Path(own) / part.name).iterdir())}
            for part in task.parts
        }


def _modules(sent: tuple[Parcel, ...], worker: Worker) -> tuple[Module, ...]:
    """The congestion controls from outside that came along, if this worker may run any."""
    if not sent:
        return ()
    permission.check(worker)
    return _made(sent)


@functools.cache
def _made(sent: tuple[Parcel, ...]) -> tuple[Module, ...]:
    # What was made is kept elsewhere, under its hash; a class of Python has its text.
    with tempfile.TemporaryDirectory(prefix="cwndlab-cc-") as folder:
        return parcels.open_in(sent, Path(folder))


def _dropped() -> Callable[[], bool]:
    """Whether nobody wants the task at work any more: it was cancelled, or whoever wanted it left."""
    worker = get_worker()
    key = worker.get_current_task()

    def look() -> bool:
        known = worker.state.tasks.get(key)
        return known is None or known.state == "cancelled" or worker.status.name not in ("running", "paused")

    return look


def _compare(site: Site, found: Mapping[str, str], worker: str) -> None:
    for name, ours in site.versions.items():
        theirs = found.get(name, "absent")
        if theirs != ours:
            raise InputError(
                f"--cluster: the worker {worker} has {name} {theirs}, and this is {ours}; "
                "their results are not mixed"
            )
