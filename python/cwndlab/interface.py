"""What `import cwndlab` gives: experiments that can be run, and results that can be compared and plotted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwndlab import faults, testbeds
from cwndlab.errors import ExperimentError, InputError
from cwndlab.experiment import experiment, yaml_nodes
from cwndlab.experiment.experiment import Experiment as Read
from cwndlab.foreign import sources
from cwndlab.plan import Plan
from cwndlab.results.resultset import ResultSet as Stored
from cwndlab.results.together import Together as Several
from cwndlab.scenario import planning
from cwndlab.testbeds import loading

if TYPE_CHECKING:
    from cwndlab import notebook
    from cwndlab.plots.paint import Plot

# What a method needs is imported inside it: whoever only loads an experiment does not wait for it.


class ResultSet(Stored):
    """The results of an experiment, opened from their directory, to be compared and plotted."""

    def plot(self, kind: str, out: str | Path | None = None, **options: Any) -> Plot:
        """Draw a plot; see `cwndlab.plots.plot`."""
        from cwndlab import plots  # matplotlib takes long to import

        return plots.plot(self, kind, out, **options)

    def _repr_html_(self) -> str:
        """What a notebook shows: what it is of, and the first rows of its summary."""
        from cwndlab import notebook

        rows = self.summary.height
        names = [name for name in self.summary.columns if not self.summary[name].is_null().all()]
        return notebook.page(
            f"{self.header.experiment}: {self.runs.height} runs on {self.header.testbed}",
            notebook.table(names, self.summary.select(names).head(notebook.MAX_ROWS).rows()),
            f"the first {notebook.MAX_ROWS} of {rows} rows" if rows > notebook.MAX_ROWS else "",
        )

    def compare(
        self, other: Stored | None = None, by: str | None = None, **chosen: Any
    ) -> notebook.Comparisons:
        """Compare these results with `other` ones, or the values of the swept key `by` within them.

        `chosen`: `metrics`, `flow` and `where` of `cwndlab.analysis.contrasts.Selection`, `confidence`,
        `equivalent` and `seed` of `cwndlab.analysis.comparison.Options`, and for `by` also `baseline` and
        `every_pair`. What comes back has `each`, `overall` and `notes`; `cwndlab.analysis.verdict.text` puts
        it into words. Raises InputError for what does not exist, or unless one of `other` and `by` is given.
        """
        from cwndlab import notebook
        from cwndlab.analysis import contrasts
        from cwndlab.analysis.comparison import Options

        if (other is None) == (by is None):
            raise InputError("compare: give either other results or a key")
        if "figures" in chosen:  # what metrics were called before
            chosen["metrics"] = chosen.pop("figures")
        selection = contrasts.Selection(
            **{name: chosen.pop(name) for name in ("metrics", "flow", "where") if name in chosen}
        )
        options = Options(
            **{name: chosen.pop(name) for name in ("confidence", "equivalent", "seed") if name in chosen}
        )
        if other is not None:
            return notebook.Comparisons.of(contrasts.of_two(self, other, selection, options, **chosen))
        return notebook.Comparisons.of(contrasts.by_key(self, str(by), selection, options, **chosen))


class Together(Several, ResultSet):
    """Several results under labels, to be compared and plotted side by side."""


def together(labelled: Mapping[str, Stored]) -> Together:
    """Put results side by side: `together({"before": a, "after": b}).plot("difference")`."""
    return Together(labelled)


@dataclass(frozen=True, slots=True)
class Experiment(Read):
    """An experiment as it stands in its file, overrides applied, to be planned and run."""

    def __repr__(self) -> str:
        """Its name, its file, and over how many things it sweeps."""
        swept = f", {len(self.axes)} swept" if self.axes else ""
        return f"<Experiment {self.name} of {self.file}{swept}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: its name and its file, defaults written out."""
        from cwndlab import notebook

        return notebook.text(self.name, self.as_yaml())

    def plan(self, told: Callable[[int, int], None] | None = None) -> Plan:
        """Return all runs, every cell of them checked and resolved; raises `ExperimentError`.

        ``told`` is told now and then how many runs of how many are planned.
        """
        return planning.make(self, told)

    def run(
        self,
        testbed: str = testbeds.MODEL,
        out: Path | str | None = None,
        jobs: int = 1,
        *,
        resume: bool = False,
        lab: Path | None = None,
    ) -> ResultSet:
        """Carry out every run and return the results; as `cwndlab.runner.run`, which says what is raised."""
        from cwndlab import runner

        carried = replace(self, support=loading.support(testbed, lab, self.support.modules))
        done = runner.run(carried, testbed=testbed, lab=lab, out=out, jobs=jobs, resume=resume)
        return ResultSet(done.path)


def load(
    path_or_text: Path | str,
    overrides: Sequence[str] = (),
    testbed: str = testbeds.MODEL,
    lab: Path | None = None,
    *,
    cc: Sequence[str] = (),
    cc_private: bool = False,
) -> Experiment:
    """The experiment of a file, of the suite of that name, or of a text of several lines, for a testbed.

    `lab` is the file of the machines that testbed `ssh` drives.
    `cc` names congestion controls of your own, each as `--cc` does, such as `new=tcp_new.c,abi=linux-6.12`:
    they are compiled, and their code runs with the experiment; `mine=my_cc.py:MyClass` is a class of Python,
    `mine=libmine.so` a shared library. `cc_private` keeps their text out of the
    results. Raises `ExperimentError` for everything that is wrong without the sweep; its `all` has every
    error of the file.
    """
    modules = sources.build_all(cc, private=cc_private) if cc else ()
    known = loading.support(testbed, lab, modules)
    file, source = experiment.text_of(path_or_text)
    try:
        loaded = loading.read(yaml_nodes.parse(source, file), source, overrides, known)
    except ExperimentError as error:
        raise faults.everything(error, source, overrides, known) from None
    return Experiment(**{part.name: getattr(loaded, part.name) for part in fields(loaded)})
