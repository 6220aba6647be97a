"""Two builds of a stack on a lab's machines, with the same experiment, in turns: A B B A."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cwndlab import testbeds
from cwndlab.errors import InputError, StoppedError
from cwndlab.execution import runner
from cwndlab.execution.executor import Observer
from cwndlab.experiment.experiment import Experiment
from cwndlab.results import catalogue, directories
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import labs

Read = Callable[[Path], Experiment]
"""The experiment as the lab with one of its builds can carry it out."""


@dataclass(frozen=True)
class Turn:
    """Repeats that run with a build before the other build has its turn."""

    build: str
    repeats: tuple[int, ...]
    """Numbers of the repeats of every cell, from 0."""


def turns(base: str, new: str, repeats: int) -> list[Turn]:
    """A B B A A B B A ...: what drifts with time meets both builds alike."""
    each = [
        (build, repeat)
        for repeat in range(repeats)
        for build in ((base, new) if repeat % 2 == 0 else (new, base))
    ]
    return [
        Turn(build, tuple(repeat for _, repeat in group))
        for build, group in groupby(each, lambda each: each[0])
    ]


def directory_of(experiment: str, out: Path | None, *, resume: bool) -> Path:
    """Directory for the results of both builds, with one of its own for each, by name."""
    return directories.choose(experiment, out, resume, "ab")


@dataclass
class Bench:
    """A lab whose machines have two builds."""

    lab: Path
    base: str
    new: str
    told: Callable[[str], None]
    """Is told what is waited for."""
    _now: str | None = None

    def __post_init__(self) -> None:
        """Raises InputError for builds that are not there."""
        if self.base == self.new:
            raise InputError(f"--base and --new: both are {self.base}; give two different builds")
        self.labs = {build: labs.of_build(self.lab, build) for build in (self.base, self.new)}

    def ready(self) -> None:
        """Raises InputError with every machine that cannot be reached, or that somebody else has."""
        for lab in self.labs.values():
            testbeds.find(testbeds.DISTANT, lab).ready()

    def switch(self, build: str) -> Path:
        """Let a build have its turn; returns the lab with it."""
        if self._now != build:
            if self._now is not None:
                labs.leave(self.labs[self._now])
            self._now = build
            labs.switch(self.labs[build], self.told)
        return self.labs[build]

    def end(self) -> None:
        """Switch back to the base, and leave the machines."""
        if self._now == self.new and labs.has_switch(self.labs[self.base]):
            self.switch(self.base)
        for lab in self.labs.values():
            labs.leave(lab)


def run(
    bench: Bench, read: Read, directory: Path, observer: Observer | None = None
) -> tuple[ResultSet, ResultSet]:
    """Carry out what is missing of both builds' results; raises as `runner.run`."""
    with ExitStack() as held:
        held.callback(bench.end)
        lab = bench.switch(bench.base)
        plan = runner.check(read(lab), testbeds.DISTANT, observer, lab)
        ahead = list(_ahead(turns(bench.base, bench.new, plan.repeat), directory))
        runs = len(plan.runs) // plan.repeat * sum(len(turn.repeats) for turn in ahead)
        whole = None if observer is None else _Whole(observer, runs)
        try:
            for turn in ahead:
                lab = bench.switch(turn.build)
                runner.run(
                    read(lab),
                    testbed=testbeds.DISTANT,
                    lab=lab,
                    out=directory / turn.build,
                    resume=True,
                    repeats=turn.repeats,
                    observer=whole,
                )
        except (StoppedError, KeyboardInterrupt):
            raise StoppedError(
                f"interrupted; what is whole is kept in {directory}, and --resume with -o does the others"
            ) from None
    return ResultSet(directory / bench.base), ResultSet(directory / bench.new)


def _ahead(planned: list[Turn], directory: Path) -> Iterator[Turn]:
    """The turns without the repeats that are whole."""
    whole = {build: _whole(directory / build) for build in {turn.build for turn in planned}}
    for turn in planned:
        left = tuple(repeat for repeat in turn.repeats if repeat not in whole[turn.build])
        if left:
            yield Turn(turn.build, left)


def _whole(directory: Path) -> set[int]:
    """The repeats of which every run is complete."""
    if not (directory / catalogue.FILE).exists():
        return set()
    runs = ResultSet(directory).runs
    bad = set(runs.filter(runs["status"] != "complete")["repeat"])
    return set(runs["repeat"]) - bad


class _Whole:
    """The observer of all turns as of one sweep; the first turn says what a run is worth."""

    def __init__(self, inner: Observer, runs: int) -> None:
        self._inner, self._runs, self._begun = inner, runs, False

    def planning(self, planned: int, runs: int) -> None:
        if not self._begun:
            self._inner.planning(planned, runs)

    def start(self, runs: int, work: int) -> None:
        if not self._begun and runs:
            self._begun = True
            self._inner.start(self._runs, work * self._runs // runs)

    def advance(self, runs: int, work: int) -> None:
        self._inner.advance(runs, work)

    def waiting(self, what: str) -> None:
        self._inner.waiting(what)
