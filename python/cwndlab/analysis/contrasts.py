"""The contrasts to compare: two results, one by a key, or two sets of other tools' files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from cwndlab.analysis import comparison, runs
from cwndlab.analysis.comparison import Comparison, Contrast, OneSided, Options, RunSet
from cwndlab.analysis.runs import Run
from cwndlab.errors import InputError, unknown
from cwndlab.results.keys import distinguishing, whole_key
from cwndlab.results.labels import Labels
from cwndlab.results.metrics import BESIDE_MARKS, FIRST_CHOICE
from cwndlab.results.texttable import short_names

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


@dataclass(frozen=True)
class Comparisons:
    """The answers to one question."""

    each: Sequence[Comparison]
    """Every metric of every combination and pair of values."""
    overall: Sequence[Comparison]
    """Comparisons averaged over the combinations, where there are several; corrected among themselves."""
    notes: Sequence[str]
    """Notes on the runs as a whole, a sentence each."""
    alone: Sequence[OneSided] = ()
    """The metrics of combinations that only one side has."""


class NothingLeftError(InputError):
    """Runs that leave nothing to compare: all values of the key but one failed, or no metric is there."""


@dataclass(frozen=True)
class Selection:
    """Choice of runs and metrics of results."""

    metrics: Sequence[str] = ()
    """Columns of the summary, or others of `metrics.COMPARED`; default the first of `FIRST_CHOICE` that both
    sides have, and `BESIDE_MARKS` where packets of any run were marked.
    """
    flow: str | None = None
    """Flow to compare. None where all flows of each run are."""
    where: Mapping[str, Sequence[str]] | None = None
    """Values that keys may have."""


def by_key(
    results: "ResultSet",
    key: str,
    selection: Selection | None = None,
    options: Options | None = None,
    *,
    baseline: str | None = None,
    every_pair: bool = False,
    among: runs.Chosen | None = None,
) -> Comparisons:
    """Compare the values of a swept key within each combination of the other keys.

    Each value is compared with `baseline`, or every pair of them. The default baseline is the first in the
    sweep; in combinations of a value that never stands beside that one, the first of those combinations.
    `key` may be the end of a swept key that no other shares. Raises InputError for what does not exist, and
    NothingLeftError where nothing is left to compare.
    """
    chosen = selection or Selection()
    keys, labels = results.keys, results.labels
    key = whole_key("--by: the swept key", key, keys, results.summary)
    found, notes = (among or runs.Chosen(results)).of(chosen.flow, chosen.where)
    values = list(dict.fromkeys(run.cell[key] for run in found))
    names = {value: str(labels.value(key, value)) for value in values}
    baseline = None if baseline is None else labels.written(key, baseline)
    if baseline is not None and baseline not in values:
        raise unknown(key, baseline, names.values())
    if len(values) < 2:
        raise NothingLeftError(f"--by {key}: the runs have one value of it, {', '.join(values) or 'none'}")
    others = [name for name in keys if name != key and not _follows(found, key, name)]
    if every_pair:
        pairs = [(one, other) for place, one in enumerate(values) for other in values[place + 1 :]]
    elif baseline is not None:
        pairs = [(baseline, other) for other in values if other != baseline]
    else:
        pairs = _pairs(found, key, others, values)
    sides = {value: [run for run in found if run.cell[key] == value] for value in values}
    return _compared(
        [(RunSet(names[one], sides[one]), RunSet(names[other], sides[other])) for one, other in pairs],
        others,
        chosen.metrics,
        options or Options(),
        notes,
        labels=labels,
        by=[key],
    )


def of_two(
    a: "ResultSet", b: "ResultSet", selection: Selection | None = None, options: Options | None = None
) -> Comparisons:
    """Compare two results in each combination of the keys that both sweep.

    Raises InputError for what does not exist, for a key that only one sweeps, and where no combination is in
    both.
    """
    chosen = selection or Selection()
    sides = [runs.of_results(results, chosen.flow, chosen.where) for results in (a, b)]
    common = [key for key in a.keys if key in b.keys]
    for results, (found, _) in zip((a, b), sides, strict=True):
        for key in results.keys:
            values = list(dict.fromkeys(run.cell[key] for run in found))
            if key not in common and len(values) > 1:
                raise InputError(
                    f"{results.path}: sweeps {key}, and the other does not; "
                    f"choose one with --where {key}={values[0]}"
                )
    names = _labels(a.path, b.path)
    pair = RunSet(names[0], sides[0][0]), RunSet(names[1], sides[1][0])
    notes = list(dict.fromkeys([*_makers(names, a, b), *sides[0][1], *sides[1][1]]))
    labels = Labels({key: [*a.values_of(key), *b.values_of(key)] for key in common})
    return _compared([pair], common, chosen.metrics, options or Options(), notes, labels=labels)


def _makers(names: Sequence[str], a: "ResultSet", b: "ResultSet") -> list[str]:
    """Name the versions that made each of two results, where they differ."""
    known = dict.fromkeys([*a.header.versions, *b.header.versions])
    differ = [name for name in known if a.header.versions.get(name) != b.header.versions.get(name)]
    return [
        f"{label} was made by "
        + ", ".join(f"{name} {results.header.versions.get(name, 'none')}" for name in differ)
        for label, results in zip(names, (a, b), strict=True)
        if differ
    ]


def of_files(
    a: Sequence[Path], b: Sequence[Path], metrics: Sequence[str] = (), options: Options | None = None
) -> Comparisons:
    """Compare the runs in two sets of other tools' files (`cwndlab.formats`).

    Raises InputError for a file that cannot be read, or that is in both sets.
    """
    both = {path.resolve() for path in a} & {path.resolve() for path in b}
    if both:
        raise InputError(f"{min(both)}: would be compared with itself")
    (of_a, notes_a), (of_b, notes_b) = runs.of_files(a), runs.of_files(b)
    places = [{path.resolve().parent for path in paths} for paths in (a, b)]
    names = ("A", "B")
    if len(places[0]) == len(places[1]) == 1 and places[0] != places[1]:
        names = _labels(min(places[0]), min(places[1]))
    elif len(of_a) == len(of_b) == 1:
        names = of_a[0].label, of_b[0].label
    pair = RunSet(names[0], of_a), RunSet(names[1], of_b)
    return _compared([pair], [], metrics, options or Options(), [*notes_a, *notes_b], labels=Labels({}))


def _compared(
    pairs: Sequence[tuple[RunSet, RunSet]],
    keys: Sequence[str],
    metrics: Sequence[str],
    options: Options,
    notes: Sequence[str],
    *,
    labels: Labels,
    by: Sequence[str] = (),
) -> Comparisons:
    names = _metrics(pairs, metrics)
    contrasts: list[list[Contrast]] = []
    left_out = 0
    for a, b in pairs:
        cells_a, cells_b = _cells(a, keys), _cells(b, keys)
        both = [cell for cell in cells_a if cell in cells_b]
        left_out += len(cells_a) + len(cells_b) - 2 * len(both)
        contrasts.append(
            [
                Contrast(RunSet(a.label, cells_a[cell]), RunSet(b.label, cells_b[cell]), dict(cell))
                for cell in both
            ]
        )
    every = [contrast for of_pair in contrasts for contrast in of_pair]
    if not every:
        raise NothingLeftError(
            "there is nothing to compare: no combination of the swept keys is on both sides"
        )
    said = list(notes)
    if left_out:
        said.append(f"{left_out} combinations are on one side only, and do not count")
    averages = [comparison.average(of_pair, name) for name in names for of_pair in contrasts]
    overall = [contrast for contrast in averages if contrast is not None]
    every = told(every, labels, by)
    return Comparisons(
        comparison.compare(every, names, options),
        comparison.compare(overall, names, options),
        said,
        comparison.one_sided(every, names),
    )


def _pairs(
    found: Sequence[Run], key: str, others: Sequence[str], values: Sequence[str]
) -> list[tuple[str, str]]:
    """The first value against each other; a value that shares no combination with it against its neighbours.

    Of such a combination the first value is compared with the others there.
    """
    cells: dict[tuple[str, ...], dict[str, None]] = {}
    for run in found:
        cells.setdefault(tuple(run.cell[name] for name in others), {})[run.cell[key]] = None
    beside = {value for there in cells.values() if values[0] in there for value in there}
    pairs = dict.fromkeys((values[0], value) for value in values[1:] if value in beside)
    for there in cells.values():
        if not beside.issuperset(there):
            first, *rest = there
            pairs |= dict.fromkeys((first, value) for value in rest)
    return list(pairs) or [(values[0], value) for value in values[1:]]


def told(contrasts: Sequence[Contrast], labels: Labels, by: Sequence[str] = ()) -> list[Contrast]:
    """Return the contrasts, each said to be where it is by what tells it from the others, in short names.

    The names are told from those of the keys `by` which is compared, as well.
    """
    keys = list(contrasts[0].where)
    telling = distinguishing(
        pl.DataFrame({key: [contrast.where[key] for contrast in contrasts] for key in keys}), keys
    )
    short = short_names([*by, *telling])
    return [
        Contrast(
            contrast.a,
            contrast.b,
            {short[key]: str(labels.value(key, contrast.where[key])) for key in telling},
            labels.words(contrast.where, telling, among=by),
        )
        for contrast in contrasts
    ]


def _cells(side: RunSet, keys: Sequence[str]) -> dict[tuple[tuple[str, str], ...], list[Run]]:
    cells: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in side.runs:
        cells.setdefault(tuple((key, run.cell[key]) for key in keys), []).append(run)
    return cells


def _metrics(pairs: Sequence[tuple[RunSet, RunSet]], wanted: Sequence[str]) -> list[str]:
    """The metrics to compare: those wanted, or the first that some pair has on both sides; of runs of which
    any was marked, those beside it.
    """
    sides = [
        ({name for run in a.runs for name in run.metrics}, {name for run in b.runs for name in run.metrics})
        for a, b in pairs
    ]
    known = sorted({name for of_a, of_b in sides for name in of_a & of_b})
    if not known:
        raise NothingLeftError("there is nothing to compare: no metric is on both sides")
    anywhere = sorted({name for of_a, of_b in sides for name in of_a | of_b})
    mixed = {
        name: apps for pair in pairs for side in pair for run in side.runs for name, apps in run.mixed.items()
    }
    for name in wanted:
        if name in mixed:
            apps = mixed[name]
            if not apps:
                raise InputError(
                    f"--metric: {name} is of a bottleneck, and the flows here pass different ones;"
                    " choose with --flow NAME"
                )
            raise InputError(
                f"--metric: {name} is a metric of flows, and those here are of different applications"
                f" ({', '.join(apps)}); choose with --where app={apps[0]} or --flow NAME"
            )
        if name not in anywhere and name == "completion_s":
            raise InputError(
                f"--metric: {name} has no value, as no run here ended all its transfers; choose with"
                " --flow NAME"
            )
        if name not in anywhere:
            raise unknown("--metric", name, known)
    if wanted:
        return list(dict.fromkeys(wanted))
    marked = any(run.metrics.get("ce_marks") for pair in pairs for side in pair for run in side.runs)
    beside = [name for name in BESIDE_MARKS if name in known] if marked else []
    return list(dict.fromkeys([next((name for name in FIRST_CHOICE if name in known), known[0]), *beside]))


def _follows(found: Sequence[Run], key: str, other: str) -> bool:
    """Whether the value of `key` determines that of the other: they are swept together."""
    seen: dict[str, str] = {}
    return all(seen.setdefault(run.cell[key], run.cell[other]) == run.cell[other] for run in found)


def _labels(a: Path, b: Path) -> tuple[str, str]:
    """Names for two directories: their own, or as much of their paths as tells them apart."""
    one, other = a.resolve(), b.resolve()
    if one == other:
        raise InputError(f"{a}: would be compared with itself")
    for count in range(1, max(len(one.parts), len(other.parts)) + 1):
        names = "/".join(one.parts[-count:]), "/".join(other.parts[-count:])
        if names[0] != names[1]:
            return names
    return str(one), str(other)
