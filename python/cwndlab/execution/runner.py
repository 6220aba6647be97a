"""Runs an experiment: plans it, chooses a directory, has its parts carried out, writes the catalogue."""

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from cwndlab import foreign, testbeds
from cwndlab.errors import ExperimentError, InputError, StoppedError
from cwndlab.execution import estimate, executor, executors, faults, resumption, run_order, signals, store
from cwndlab.execution.executor import Arrivals, Nobody, Observer
from cwndlab.execution.shards import Shard
from cwndlab.execution.task import Site
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.plan import Plan
from cwndlab.experiment.scenario import planner
from cwndlab.results import (
    catalogue,
    directories,
    expectations,
    loadlatency,
    questions,
    software,
    user_metrics,
)
from cwndlab.results.catalogue import Header
from cwndlab.results.parts import Part
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.base import Testbed

MOST_REFUSED = 20
"""Number of troubles after which no more are looked for."""


def run(
    experiment: Experiment,
    *,
    testbed: str = testbeds.MODEL,
    lab: Path | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    resume: bool = False,
    shard: Shard | None = None,
    cluster: str | None = None,
    repeats: Container[int] | None = None,
    observer: Observer | None = None,
) -> ResultSet:
    """Carry out every run of an experiment and return its results.

    They go to `out`, or to a new directory `results/NAME-DATE` with `results/latest` pointing at it. With
    `resume` they complete what is in `out` (default: the newest directory of that experiment), parts that are
    whole are kept, and an experiment that differs from the one there is refused. Any number of `jobs` writes
    the same bytes, but runs.jsonl, which alone holds clock times and facts of the machine.

    Of a `shard` only its parts are carried out, into a directory of its own (default:
    `results/NAME-shard-3-of-10`); whatever is there already stays, as with `resume`. `merge.merge` puts
    shards together. With a `cluster`, a Dask scheduler's address or file, its workers carry the runs out.
    Where runs take real time only the given `repeats` are carried out, and `resume` does the others later.

    A run that fails is recorded with its reason and does not stop the others; ask `ResultSet.complete`.
    Raises InputError for a bad experiment or directory before anything is carried out, StoppedError after
    SIGINT. There each run is a part, in the order of `cwndlab.execution.run_order`, with a pause
    between; more than one job then lets runs disturb each other. With more than one job the caller's
    main module must be importable (`if __name__ == "__main__"`), as for every spawned process.
    """
    if jobs < 1:
        raise InputError(f"jobs: {jobs} is not a number of workers; it must be at least 1")
    modules = experiment.support.modules
    bed = testbeds.find(testbed, lab, modules)
    observer = observer or Nobody()
    plan = check(experiment, testbed, observer, lab)
    versions = {"cwndlab": software.version(), **bed.versions()}
    header = _header(experiment, plan, bed.name, versions, shard)
    facts = testbeds.facts(bed.name)
    cut = store.cut(plan.runs, most=_most(facts.runs_kernel, bool(modules)))
    if shard is not None:
        cut, resume = shard.of(cut), True
    sequence = run_order.arrange(experiment.spec, plan) if facts.takes_real_time else None
    directory = directories.choose(
        plan.experiment,
        None if out is None else Path(out),
        resume,
        None if shard is None else shard.directory,
    )
    with directories.locked(directory):
        site = Site(bed.name, directory / "runs", versions, sequence, lab, modules)
        try:
            with directories.removed_if_refused(directory):
                kept = resumption.prepare(directory, header, cut, experiment.as_yaml(), resume)
                foreign.keep(directory, modules)
                ahead = [part for part in cut if part.name not in kept]
                ahead = [part for part in ahead if repeats is None or part.runs[0].repeat in repeats]
                runs = [run for part in ahead for run in part.runs]
                estimate.check_room(runs, directory, here=sequence is None and cluster is None)
                arrivals = Arrivals(site, observer)
                chosen = executors.choose(arrivals, len(ahead), jobs, cluster)
            if sequence is not None:
                ahead.sort(key=lambda part: sequence.positions[part.runs[0].index])
            observer.start(len(runs), sum(sum(site.work(run.scenario)) for run in runs))
            try:
                executor.carry_out(ahead, chosen, arrivals)
            finally:
                table = catalogue.build(header, cut, resumption.stored(directory))
                resumption.conclude(directory, table)
                loadlatency.write(ResultSet(directory))
        except KeyboardInterrupt:
            with signals.uninterrupted():
                left = _left(directory, cut)
            raise StoppedError(left) from None
    return ResultSet(directory)


def _most(runs_kernel: bool, foreign: bool) -> int:
    """Runs in a part, at most."""
    return 1 if runs_kernel else store.FOREIGN_RUNS if foreign else store.MAX_RUNS


def _header(
    experiment: Experiment, plan: Plan, testbed: str, versions: dict[str, str], shard: Shard | None
) -> Header:
    own_metrics = {name: each.text for name, each in experiment.spec.metrics.items()}
    part = None if shard is None else str(shard)
    return Header(
        plan.experiment, testbed, list(plan.keys), versions, metrics=own_metrics or None, shard=part
    )


def replace(experiment: Experiment, out: Path, **options: Any) -> ResultSet:
    """Carry out every run of an experiment in place of the results in `out`, which stay until all is done.

    `options` are those of `run`, but for what completes results that are there. Raises as `run` does.
    """
    if not out.exists() or (out.is_dir() and not directories.is_begun(out)):
        return run(experiment, out=out, **options)
    with directories.replacing(out) as aside:
        try:
            run(experiment, out=aside, **options)
        except StoppedError:
            raise StoppedError(f"interrupted; the results in {out} are those of before") from None
    return ResultSet(out)


def _left(directory: Path, cut: Sequence[Part]) -> str:
    """Say what an interrupted sweep left, whenever it was stopped."""
    there = [part for part in cut if (directory / "runs" / part.name).is_dir()]
    done, planned = (sum(len(part.runs) for part in some) for some in (there, cut))
    if not (directory / catalogue.FILE).exists():
        return f"interrupted before anything was carried out; {directory} can be used again"
    return (
        f"interrupted; {done} of {planned} runs are kept in {directory}, and --resume with -o does the others"
    )


def check(
    experiment: Experiment, testbed: str, observer: Observer | None = None, lab: Path | None = None
) -> Plan:
    """The plan of an experiment that a testbed can carry out here; raises InputError if it
    cannot, of the file with every error of it."""
    bed = testbeds.find(testbed, lab, experiment.support.modules)
    bed.ready()
    observer = observer or Nobody()
    try:
        user_metrics.check(experiment)
        expectations.check(experiment)
        questions.check(experiment)
        catalogue.check_names(experiment)
        # Finding the runs takes nine tenths of the time.
        plan = planner.make(experiment, lambda planned, runs: observer.planning(planned * 9 // 10, runs))
    except ExperimentError as error:
        raise faults.everything(error, experiment.source, experiment.overrides, experiment.support) from None
    _preflight(bed, plan, observer)
    return plan


def _preflight(bed: Testbed, plan: Plan, observer: Observer) -> None:
    """Raises InputError with all that the testbed refuses, each with the first cell that asks for it."""
    told: dict[str, str] = {}
    for planned in plan.runs:
        # Repeats of a cell differ in nothing that a testbed could refuse.
        if not planned.repeat:
            cell = "".join(f", {key}={value}" for key, value in planned.cell.items())
            for trouble in bed.preflight(planned.scenario, planned.cell):
                told.setdefault(trouble, f"run {planned.index}{cell}")
            observer.planning(len(plan.runs) * 9 // 10 + planned.index // 10, len(plan.runs))
        if len(told) > MOST_REFUSED:
            break
    if told:
        cells = dict.fromkeys(told.values())
        each = (f"{cell}: {'; '.join(why for why, of in told.items() if of == cell)}" for cell in cells)
        raise InputError(f"testbed {bed.name} refuses {'; and '.join(each)}")
