"""What `import cwndlab` gives: experiments that can be run, and results that can be compared and plotted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwndlab import testbeds
from cwndlab.errors import InputError
from cwndlab.experiment.experiment import Experiment as Read
from cwndlab.foreign import building
from cwndlab.plan import Plan
from cwndlab.results.resultset import ResultSet as Stored
from cwndlab.scenario import planning
from cwndlab.testbeds import loading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cwndlab.analysis.contrasts import Comparisons

# What a method needs is imported inside it: whoever only loads an experiment does not wait for it.


class ResultSet(Stored):
    """The results of an experiment, opened from their directory, to be compared and plotted."""

    def plot(self, kind: str, out: str | Path | None = None, **options: Any) -> Figure:
        """Draw a plot; see `cwndlab.plots.plot`."""
        from cwndlab import plots  # matplotlib takes long to import

        return plots.plot(self, kind, out, **options)

    def compare(self, other: Stored | None = None, by: str | None = None, **chosen: Any) -> Comparisons:
        """Compare these results with `other` ones, or the values of the swept key `by` within them.

        `chosen`: `metrics`, `flow` and `where` of `cwndlab.analysis.contrasts.Selection`, `confidence`,
        `equivalent` and `seed` of `cwndlab.analysis.comparison.Options`, and for `by` also `baseline` and
        `every_pair`. What comes back has `each`, `overall` and `notes`; `cwndlab.analysis.verdict.text` puts
        it into words. Raises InputError for what does not exist, or unless one of `other` and `by` is given.
        """
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
            return contrasts.of_two(self, other, selection, options, **chosen)
        return contrasts.by_key(self, str(by), selection, options, **chosen)


@dataclass(frozen=True, slots=True)
class Experiment(Read):
    """An experiment as it stands in its file, overrides applied, to be planned and run."""

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
    they are compiled, and their code runs with the experiment. `cc_private` keeps their text out of the
    results. Raises `ExperimentError` for everything that is wrong without the sweep.
    """
    modules = building.build_all(cc, private=cc_private) if cc else ()
    loaded = loading.load(path_or_text, overrides, testbed, lab, modules)
    return Experiment(**{part.name: getattr(loaded, part.name) for part in fields(loaded)})
