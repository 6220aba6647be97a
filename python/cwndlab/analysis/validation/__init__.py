"""The model against the live kernel: one experiment on both testbeds, and how far apart they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cwndlab import testbeds
from cwndlab.analysis.validation.compare import Row, compare
from cwndlab.errors import InputError
from cwndlab.execution import faults, runner
from cwndlab.execution.executor import Observer
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.scenario import planner
from cwndlab.results import directories
from cwndlab.results.resultset import ResultSet

__all__ = ["KERNEL", "MODEL", "Row", "compare", "run"]

MODEL, KERNEL = "model", "kernel"
"""Directories below that of a validation: results of the models' testbed, and of the kernel's."""


def run(
    experiment: str | Path,
    overrides: Sequence[str] = (),
    out: Path | None = None,
    *,
    testbed: str = testbeds.KERNEL,
    lab: Path | None = None,
    jobs: int = 1,
    resume: bool = False,
    observer: Observer | None = None,
) -> tuple[Path, ResultSet, ResultSet]:
    """Carry an experiment out on the model, with so many workers, and then on a kernel: this machine's, or in
    virtual time that of the folder `lab`.

    The model's hosts tick as often as that kernel (CONFIG_HZ).

    Returns their directory and both results. Raises InputError before anything is carried out where either
    testbed refuses it, or where the two would not do the same.
    """
    live = faults.load(experiment, overrides, testbed, lab=lab)
    modelled = faults.load(experiment, [*overrides, *_ticks(live)], testbeds.MODEL)
    _same(modelled, live)
    runner.check(live, testbed, lab=lab)
    directory = directories.choose(f"{modelled.name}-validate", out, resume)

    def carry_out(loaded: Experiment, name: str, **where: Any) -> ResultSet:
        place = directory / name
        going_on = resume and (place / "catalogue.parquet").exists()
        return runner.run(loaded, out=place, resume=going_on, observer=observer, **where)

    model = carry_out(modelled, MODEL, testbed=testbeds.MODEL, jobs=jobs)
    workers = 1 if testbeds.facts(testbed).shares_machine else jobs
    return directory, model, carry_out(live, KERNEL, testbed=testbed, lab=lab, jobs=workers)


def _ticks(live: Experiment) -> list[str]:
    """Overrides that make the model's hosts tick as this kernel does: its testbed takes no `hosts.NAME.hz`,
    so none says otherwise.

    Delayed ACKs, tail loss probes, the reordering timer and CUBIC's time all count ticks (tcp_jiffies32), and
    distributions build their kernels with 100, 250 or 1000 of them a second.
    """
    catalogue = live.support.catalogue()
    ticks = catalogue.stacks[catalogue.newest["linux"]].hz
    return [f"hosts.{name}.hz={ticks}" for name in live.spec.hosts]


def _same(modelled: Experiment, live: Experiment) -> None:
    """Refuse what would compare different things: series at ACKs, and other systems than the kernel's."""
    if testbeds.KERNEL in live.tree.items:
        section = f"this file has a section {testbeds.KERNEL}"
        raise InputError(f"{live.name}: models are compared with a kernel: Linux with Linux; {section}")
    for ours in planner.make(modelled).runs:
        if ours.scenario["record"]["tcp"]["kind"] != "interval":
            raise InputError("record.tcp: series are compared at an interval; give one such as 10ms")
