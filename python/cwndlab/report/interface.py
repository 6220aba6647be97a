"""The contents of `import cwndlab`: experiments that can be run, and results that can be compared and
plotted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cwndlab import testbeds
from cwndlab.errors import InputError
from cwndlab.execution import faults
from cwndlab.execution.shards import Shard
from cwndlab.experiment.experiment import Experiment as Read
from cwndlab.experiment.experiment import Source
from cwndlab.experiment.plan import Plan
from cwndlab.experiment.scenario import planner
from cwndlab.results.resultset import ResultSet as Stored
from cwndlab.results.union import Together as Several
from cwndlab.testbeds import loader

if TYPE_CHECKING:
    from cwndlab.report import notebook
    from cwndlab.report.plots.paint import Plot

RunId = int | str
"""A run: its index, or its whole name."""
Span = tuple[float | None, float | None]
"""A range; None leaves that end to the data."""

# What a method needs is imported inside it: whoever only loads an experiment does not wait for it.


class ResultSet(Stored):
    """The results of an experiment, opened from their directory, to be compared and plotted."""

    def plot(
        self,
        kind: str = "cwnd",
        out: str | Path | None = None,
        *,
        run: RunId | Sequence[RunId] = (),
        flow: str | Sequence[str] = (),
        where: Mapping[str, object] | None = None,
        window: Span | None = None,
        value: str | None = None,
        against: str | None = None,
        by: str | Sequence[str] = (),
        average: float | None = None,
        overlap: float | None = None,
        hop: str | None = None,
        label: Mapping[str, str] | None = None,
        title: str | None = None,
        xlim: Span | None = None,
        ylim: Span | None = None,
        log: Literal["x", "y", "xy"] | None = None,
        zero: Literal["run", "flow"] | None = None,
        facet: str | Sequence[str] = (),
        rows: int | None = None,
        cols: int | None = None,
        points: bool = True,
        confidence: float | None = None,
        size: str | None = None,
        style: str | Path | None = None,
        font: str | None = None,
        font_size: float | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
        footnote: bool = False,
        command: str | None = None,
    ) -> Plot:
        """Return a plot of these results, and write it to `out` if given (`.png`, `.svg` or `.pdf`).

        It is a figure of matplotlib, which a notebook shows; its `data` are what is drawn, which a file has
        beside it: `cwnd.data.csv` beside `cwnd.png`. Options are those of the command line, under the same
        names: shares as numbers (`0.75`), ranges as pairs, `where` as `{KEY: VALUE or list of values}`, a
        run by its index or whole name, `label` as `{VALUE: TEXT}`. `command` goes into the file's metadata.

        Raises InputError, one line with the nearest names, for a kind, column, run, flow, hop or key that
        does not exist, and where there is nothing to draw.
        """
        from cwndlab.report import plots  # matplotlib takes long to import

        chosen = {
            "runs": _several(run),
            "flows": _several(flow),
            "where": where,
            "window": window,
            "value": value,
            "against": against,
            "by": _several(by),
            "average": average,
            "overlap": overlap,
            "hop": hop,
            "labels": label,
            "title": title,
            "xlim": xlim,
            "ylim": ylim,
            "log": log,
            "zero": zero,
            "facet": _several(facet),
            "rows": rows,
            "cols": cols,
            "confidence": confidence,
            "size": size,
            "style": style,
            "font": font,
            "font_size": font_size,
            "xlabel": xlabel,
            "ylabel": ylabel,
            "command": command,
        }
        # What was not given stays with the plot's own default; a 0 was given.
        given = {name: option for name, option in chosen.items() if option is not None and option != []}
        return plots.plot(self, kind, out, points=points, footnote=footnote, **given)

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report, one HTML file, and return its path; by default `report.html` beside the results.

        Raises InputError where it cannot be written.
        """
        from cwndlab.report import html_report

        return html_report.write(self, self.path / "report.html" if out is None else Path(out))

    def _repr_html_(self) -> str:
        """Form of the results in a notebook: their origin, and the first rows of their summary."""
        from cwndlab.report import notebook

        rows = self.summary.height
        names = [name for name in self.summary.columns if not self.summary[name].is_null().all()]
        return notebook.page(
            f"{self.header.experiment}: {self.runs.height} runs on {self.header.testbed}",
            notebook.table(names, self.summary.select(names).head(notebook.MAX_ROWS).rows()),
            f"the first {notebook.MAX_ROWS} of {rows} rows" if rows > notebook.MAX_ROWS else "",
        )

    def compare(
        self,
        other: ResultSet | None = None,
        *,
        by: str | None = None,
        metric: str | Sequence[str] = (),
        baseline: str | None = None,
        all_pairs: bool = False,
        flow: str | None = None,
        where: Mapping[str, Sequence[str]] | None = None,
        confidence: float = 0.95,
        equivalent: float | None = None,
        seed: int = 1,
    ) -> notebook.Comparisons:
        """Compare these results with `other` ones, or the values of the swept key `by` within them.

        Options are those of the command line, under the same names. What comes back has `each`, `overall`
        and `notes`, and is put into words where it is printed. Raises InputError for what does not exist, or
        unless one of `other` and `by` is given.
        """
        from cwndlab.analysis import contrasts
        from cwndlab.analysis.comparison import Options
        from cwndlab.report import notebook

        if (other is None) == (by is None):
            raise InputError("compare: give either other results or a key")
        selection = contrasts.Selection(_several(metric), flow, where)
        options = Options(confidence, equivalent, seed)
        if other is not None:
            if baseline is not None or all_pairs:
                raise InputError("compare: baseline and all_pairs go with by")
            return notebook.Comparisons.of(contrasts.of_two(self, other, selection, options))
        found = contrasts.by_key(self, str(by), selection, options, baseline=baseline, every_pair=all_pairs)
        return notebook.Comparisons.of(found)


def _several(given: object) -> list[Any]:
    """Make a list of an option's value, which may be one or several."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


class Together(Several, ResultSet):
    """Several results under labels, to be compared and plotted side by side."""


def together(labelled: Mapping[str, ResultSet]) -> Together:
    """Put results side by side: `together({"before": a, "after": b}).plot("difference")`."""
    return Together(labelled)


@dataclass(frozen=True, slots=True)
class Experiment(Read):
    """An experiment as it stands in its file, overrides applied, to be planned and run."""

    def __repr__(self) -> str:
        """Format the experiment's name, its file, and the number of its axes."""
        swept = f", {len(self.axes)} swept" if self.axes else ""
        return f"<Experiment {self.name} of {self.file}{swept}>"

    def _repr_html_(self) -> str:
        """Form of the experiment in a notebook: its name and its file, defaults written out."""
        from cwndlab.report import notebook

        return notebook.text(self.name, self.as_yaml())

    def plan(self, told: Callable[[int, int], None] | None = None) -> Plan:
        """Return all runs, every cell of them checked and resolved; raises `ExperimentError`.

        ``told`` is told now and then how many runs of how many are planned.
        """
        return planner.make(self, told)

    def run(
        self,
        testbed: str = testbeds.MODEL,
        out: str | Path | None = None,
        jobs: int = 1,
        *,
        resume: bool = False,
        force: bool = False,
        shard: str | None = None,
        cluster: str | None = None,
        lab: str | Path | None = None,
        kernel: str | Path | None = None,
        patch: str | Path | None = None,
    ) -> ResultSet:
        """Carry out every run and return the results.

        They go to `out`, or to a new directory `results/NAME-DATE` with `results/latest` pointing at it. Any
        number of `jobs` makes the same results; with more than one the calls belong below
        `if __name__ == "__main__":`, as workers import the program. Options are those of the command line,
        under the same names. A run that fails is recorded with its reason and does not stop the others: ask
        `ResultSet.complete`. Raises InputError for a bad experiment or directory before anything is carried
        out, StoppedError after Ctrl-C.
        """
        from cwndlab.execution import runner

        if force and (out is None or resume or shard is not None):
            raise InputError("force goes with out, and not with resume or shard")
        if patch is not None and kernel is None:
            raise InputError("patch goes with kernel; that of a guest is put on top by load")
        testbed, machines = _placed(testbed, lab, kernel, patch)
        ways: dict[str, Any] = {"testbed": testbed, "lab": machines, "jobs": jobs, "cluster": cluster}
        carried = replace(self, support=loader.support(testbed, machines, self.support.modules))
        if force:
            done = runner.replace(carried, Path(str(out)), **ways)
        else:
            share = None if shard is None else Shard.parse(shard)
            done = runner.run(carried, out=out, resume=resume, shard=share, **ways)
        return ResultSet(done.path)


def load(
    source: Source,
    set: Sequence[str] = (),
    testbed: str = testbeds.MODEL,
    *,
    lab: str | Path | None = None,
    kernel: str | Path | None = None,
    patch: str | Path | None = None,
    cc: Sequence[str] = (),
    cc_private: bool = False,
    guest: Sequence[str] = (),
) -> Experiment:
    """Read and check an experiment: a file, the suite of that name, a text of several lines, or a dictionary.

    `set` are `KEY=VALUE`, as `--set`; `testbed` is the simulator unless named, and `lab` the file of the
    machines that testbed `ssh` drives. `kernel` is what it will run on: a source tree of Linux, with `patch`
    on top, or the name of a kernel that was built; without it `patch` is for the guest that is a tree. `cc`
    names congestion controls of your own, each as `--cc` does, such as `new=tcp_new.c,abi=linux-6.12`: they
    are compiled, and their code runs with the experiment; `mine=my_cc.py:MyClass` is a class of Python,
    `mine=libmine.so` a shared library. `guest` names guests as `--guest` does, such as `mine=libquic.so`.
    `cc_private` keeps the text of both out of the results. Raises ExperimentError for everything that is
    wrong without the sweep; its `all` has every error of the file.
    """
    testbed, machines = _placed(testbed, lab, kernel, patch)
    change = None if patch is None or kernel is not None else Path(patch)
    loaded = faults.load(
        source, set, testbed, lab=machines, cc=cc, cc_private=cc_private, guest=guest, patch=change
    )
    return Experiment(**{part.name: getattr(loaded, part.name) for part in fields(loaded)})


def _placed(
    testbed: str, lab: str | Path | None, kernel: str | Path | None, patch: str | Path | None
) -> tuple[str, Path | None]:
    """The testbed and what stands for its machines, where a kernel may be named; raises InputError."""
    if kernel is None:
        return testbed, None if lab is None else Path(lab)
    if testbed not in (testbeds.MODEL, testbeds.GUEST) or lab is not None:
        raise InputError(f"kernel goes with testbed {testbeds.GUEST} alone")
    from cwndlab.execution.executors import processors
    from cwndlab.testbeds import kernels

    change = None if patch is None else Path(patch)
    found = kernels.choose(str(kernel), change, None, lambda done, of: None, jobs=processors())
    return testbeds.GUEST, found.folder


def open(path: str | Path) -> ResultSet:
    """Open a directory of results.

    Raises InputError, whose text is one line, when it holds no results or damaged ones.
    """
    return ResultSet(path)
