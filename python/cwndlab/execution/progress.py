"""The progress of a sweep, on stderr: a live bar on a terminal, a plain line now and then elsewhere."""

import json
import sys
import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_S = 2.0
"""A sweep that is over sooner shows nothing."""

LINE_S = 10.0
"""Seconds between two lines where there is no terminal."""


class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """The `Observer` of the command line; used as a context, which takes the bar away at the end."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._terminal = sys.stderr.isatty()
        self._begun = self._last_line = time.monotonic()
        self._runs = self._all_runs = 0
        self._work = self._all_work = 0
        self._waits = ""
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """The display itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def planning(self, planned: int, runs: int) -> None:
        """Show how many runs of the plan are known and checked."""
        self._show(planned, runs, f"planned {planned} of {runs} runs")

    def reading(self, done: int, of: int) -> None:
        """Show how many bytes of a file have been read."""
        self._show(done, of, "unpacking")

    def start(self, runs: int, work: int) -> None:
        """Show how many runs and how much work are ahead. A second call begins anew."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None
        self._runs = self._work = 0
        self._all_runs, self._all_work = runs, work
        self._begun = self._last_line = time.monotonic()

    def advance(self, runs: int, work: int) -> None:
        """Show how many more runs and how much more work are done."""
        self._runs += runs
        self._work += work
        self._show_runs()

    def waiting(self, what: str) -> None:
        """A run waits for that."""
        self._waits = f", waiting for {what}" if what else ""
        if what:
            self._show_runs()

    def _show_runs(self) -> None:
        self._show(self._work, self._all_work, f"{self._runs} of {self._all_runs} runs{self._waits}")

    def _show(self, done: int, of: int, text: str) -> None:
        now = time.monotonic()
        if self._terminal and now - self._begun > QUIET_S:
            self._draw(done, of, text)
        elif not self._terminal and now - self._last_line > LINE_S:
            self._last_line = now
            share = done / max(of, 1)
            left = (now - self._begun) * (1 - share) / share if share else None
            more = "" if left is None else f", {share:.0%}, about {clock(left)} left"
            print(f"{text}{more}", file=sys.stderr, flush=True)

    def _draw(self, done: int, of: int, text: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("", total=of)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, description=text)


class ProgressLines:
    """The `Observer` of programs: lines of JSON on stderr, at most one a second, and the last of each kind.

    `{"event": "planning"|"running", "done": runs, "of": runs, "seconds_left": number or null}`, and
    `{"event": "waiting", "for": text}`, with an empty text when that is over.
    """

    def __init__(self) -> None:
        """Print nothing yet."""
        self._begun = time.monotonic()
        self._last: float | None = None
        self._runs = self._all_runs = 0
        self._work = self._all_work = 0

    def planning(self, planned: int, runs: int) -> None:
        """Show how many runs of the plan are known and checked."""
        self._count("planning", planned, runs, planned / max(runs, 1))

    def reading(self, done: int, of: int) -> None:
        """Show how many bytes of a file have been read."""
        self._count("reading", done, of, done / max(of, 1))

    def start(self, runs: int, work: int) -> None:
        """Show how many runs and how much work are ahead. A second call begins anew."""
        self._runs = self._work = 0
        self._all_runs, self._all_work = runs, work
        self._begun, self._last = time.monotonic(), None
        self.advance(0, 0)

    def advance(self, runs: int, work: int) -> None:
        """Show how many more runs and how much more work are done."""
        self._runs += runs
        self._work += work
        self._count("running", self._runs, self._all_runs, self._work / max(self._all_work, 1))

    def waiting(self, what: str) -> None:
        """A run waits for that."""
        self._print({"event": "waiting", "for": what})

    def _count(self, event: str, done: int, of: int, share: float) -> None:
        now = time.monotonic()
        if self._last is not None and now - self._last < 1 and done < of:
            return
        self._last = now
        left = 0.0 if done >= of else (now - self._begun) * (1 - share) / share if share else None
        seconds = None if left is None else round(left, 1)
        self._print({"event": event, "done": done, "of": of, "seconds_left": seconds})

    def _print(self, line: dict[str, object]) -> None:
        with suppress(OSError):  # whoever closed stderr wants to hear nothing
            print(json.dumps(line), file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """A length of time for people: `0.8 s`, `42 s`, `3 min`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".removesuffix(" 0 s")
    return f"{whole // 3600} h {whole % 3600 // 60} min".removesuffix(" 0 min")
