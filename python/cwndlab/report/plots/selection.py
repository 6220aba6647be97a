"""The options of `plot`, checked against the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError, unknown
from cwndlab.experiment.catalogue import DATAGRAMS
from cwndlab.report.plots import sizes
from cwndlab.report.plots.names import Names
from cwndlab.results import columns, inferred_models
from cwndlab.results.keys import distinguishing, filtered, whole_key, whole_rounds
from cwndlab.results.labels import WORDS, Labels
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import RAN

MAX_CELLS = 24
"""Number of combinations that a plot of time series shows unless runs are named; the plot says so when there
are more.
"""

MAX_RUNS = 36
"""Number of runs that are read: of many combinations fewer repeats each, at least one."""

LOGS = ("", "x", "y", "xy")
ZEROS = ("run", "flow")
PANELS = ("run", "flow")
UNLIKE = ("app", "stack", "cc")
"""Keys that make flows of one run unlike each other."""

Span = tuple[float | None, float | None]
"""A range of an axis in the units shown; None leaves that end to the data."""


@dataclass(frozen=True)
class Options:
    """Options of a plot for its caller. None or empty means: what suits the kind."""

    runs: Sequence[object] | None = None
    """Run IDs, in the order they are drawn; the number in front of a run ID's `-` is enough."""
    where: Mapping[str, object] = field(default_factory=dict)
    """Swept key (or `repeat`, `stack`, `app`, `cc`): the value, or a list of values, that runs must have."""
    either: Sequence[Mapping[str, object]] = ()
    """Alternatives, each as in `where`: runs must have what one of them says."""
    flows: Sequence[str] | None = None
    """Names of flows, in the order they are drawn."""
    window: Span | None = None
    """The part of each run that is shown and counted, in seconds."""
    value: str | None = None
    """Column of the summary or, as `column` or `table.column`, of a series."""
    against: str | None = None
    """Second column, for kinds that show one against another."""
    by: Sequence[str] = ()
    """Keys that make the groups: swept keys, `flow`, `app`, `stack`, `cc`, `repeat`."""
    average: float | None = None
    """Length of a throughput window in seconds; None: `rate_window_s`."""
    overlap: float = 0.0
    """Share of a throughput window that the next one repeats, from 0 to below 1."""
    hop: str | None = None
    """The hop whose queue is shown; default every one that was recorded."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of keys' values: `{value: text}`, or `{"key=value": text}` for a value that two keys have."""
    title: str | None = None
    xlim: Span | None = None
    ylim: Span | None = None
    log: str = ""
    """Axes with a logarithmic scale: `x`, `y` or `xy`."""
    zero: str = "run"
    """Origin of the time axis: the start of the `run`, or of each `flow` (its first sample), to
    overlay runs.
    """
    panels: str | None = None
    """One panel per `run` or per `flow`: `facet` by those."""
    facet: Sequence[str] = ()
    """Keys whose values get a panel each, at most two: the first downwards, the second across. Also `flow`,
    `run`, and `none` for one panel whatever varies."""
    rows: int | None = None
    """Rows of panels."""
    cols: int | None = None
    """Columns of panels."""
    points: bool = True
    """Whether box plots show each value."""
    confidence: float = 0.95
    """Confidence of the intervals in bar plots."""
    size: str = "paper"
    """`paper` (a page's width, small type), `slide` (16:9, large type), `1col` or `2col` of a journal, or
    millimetres: `88mm`, `88x60mm`."""
    style: str | Path | None = None
    """A file of matplotlib's settings (matplotlibrc, .mplstyle), which come before cwndlab's."""
    font: str | None = None
    """The family of type."""
    font_size: float | None = None
    """Size of the type, in points."""
    xlabel: str | None = None
    ylabel: str | None = None
    command: str | None = None
    """The command that makes this plot again; written into the file's metadata."""
    footnote: bool = False
    """Whether the command is also printed below the plot."""
    caveat: str = ""
    """Set by `bind`: the line below the plot that names the stacks whose models are inferred."""

    def __post_init__(self) -> None:
        """Refuse what no result could satisfy."""
        for name, value, allowed in (
            ("log", self.log, LOGS),
            ("zero", self.zero, ZEROS),
        ):
            if value not in allowed:
                raise unknown(name, value, [choice for choice in allowed if choice])
        sizes.parse(self.size)
        if self.panels is not None and self.panels not in PANELS:
            raise unknown("panels", self.panels, PANELS)
        if len(self.facet) > 2:
            raise InputError(f"facet: panels lie over two keys at most, not {len(self.facet)}")
        for name, count in (("rows", self.rows), ("cols", self.cols)):
            if count is not None and not 1 <= count <= 40:
                raise InputError(f"{name}: found {count}; expected 1 to 40")
        if self.font_size is not None and not 2 <= self.font_size <= 100:
            raise InputError(f"font size: found {self.font_size:g}; expected 2 to 100 points")
        if self.average is not None and not 0 < self.average < float("inf"):
            raise InputError(f"average: {self.average:g} s is no length of a window; it must be above 0")
        if not 0 <= self.overlap < 1:
            raise InputError(f"overlap: {self.overlap:g} is not a share; it must be at least 0 and below 1")
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence: {self.confidence:g} is not between 0 and 1, such as 0.95")
        for name, span in (("window", self.window), ("xlim", self.xlim), ("ylim", self.ylim)):
            low, high = span or (None, None)
            if low is not None and high is not None and not low < high:
                raise InputError(f"{name}: {low:g} to {high:g} is empty; the second must be larger")


def rate_window_s(results: ResultSet) -> float:
    """Length in s of a window of throughput where none is asked for: a second, or less of short runs."""
    longest = max((brief.duration_ns / 1e9 for brief in results.briefs), default=LONG_S)
    return 1.0 if longest >= LONG_S else max(0.001, float(f"{longest / 40:.1g}"))


LONG_S = 20
"""Length in s of a run from which on a window of a second shows what happens."""


@dataclass(frozen=True)
class Run:
    """A run that a plot shows."""

    run_id: object
    label: str
    """Text that tells the run from the others shown; empty if the run is alone."""
    flows: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """Options bound to results: which rows, runs and flows are meant."""

    results: ResultSet
    options: Options
    rows: pl.DataFrame
    """The summary's rows of the runs and flows chosen, in order, with labels in place of swept values."""
    names: Names
    """Names of keys' values."""

    @property
    def keys(self) -> list[str]:
        """The keys that a plot can group by."""
        return [
            *self.results.keys,
            *(name for name in WORDS if name in self.rows.columns),
        ]

    def runs(self) -> tuple[list[Run], str]:
        """Return the runs for a plot of time series, and a note: what they share, if some are left out."""
        rows = self.rows
        note = ""
        if self.options.runs is None:
            rows = rows.filter(pl.col("status").is_in(RAN))
            if not rows.height:
                raise InputError("there is nothing to draw: no run was carried out")
            rows, note = self._readable(rows)
        shown = rows["run_id"].unique(maintain_order=True).to_list()
        labels = run_labels(rows, self.keys, self.results.labels)
        note = "; ".join(text for text in (note, self._common(rows, shown)) if text)
        flows = {run: rows.filter(pl.col("run_id") == run)["flow"].to_list() for run in shown}
        return [Run(run, labels[run], tuple(flows[run])) for run in shown], note

    def _readable(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
        """Return the rows of as many combinations and repeats as a plot can show, and what is left out."""
        runs = rows.unique("run_id", keep="first", maintain_order=True)
        cells = self.cells(runs)
        said = []
        if (shown := whole_rounds(cells.rows(), MAX_CELLS)) < cells.height:
            said.append(f"first {shown} of {cells.height} combinations")
            first = cells.head(shown)
            runs = runs.join(first, on=cells.columns, nulls_equal=True, maintain_order="left")
        repeats = runs["repeat"].unique(maintain_order=True).to_list()
        most = max(1, MAX_RUNS // max(1, shown))
        if runs.height > MAX_RUNS and len(repeats) > most:
            said.append(f"first {most} of {len(repeats)} repeats")
            runs = runs.filter(pl.col("repeat").is_in(repeats[:most]))
        if runs.height > MAX_RUNS:
            said.append(f"first {MAX_RUNS} of {runs.height} runs")
            runs = runs.head(MAX_RUNS)
        return rows.filter(pl.col("run_id").is_in(runs["run_id"].to_list())), ", ".join(said)

    def cells(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the combinations of swept values that rows of the summary have, in order."""
        keys = [key for key in self.keys if key not in ("repeat", "flow", "stack", "app", "cc")]
        return rows.select(keys).unique(maintain_order=True)

    def _common(self, rows: pl.DataFrame, shown: Sequence[object]) -> str:
        """Return what the runs shown have in common that other runs of the results do not."""
        telling = distinguishing(self.results.summary, [key for key in self.keys if key != "flow"])
        same = [key for key in telling if rows[key].n_unique() == 1]
        common = self.results.labels.words(rows.row(0, named=True), same, among=telling)
        return f"run {shown[0]}: {common}" if len(shown) == 1 and common else common

    def series(self, run: Run, flow: str | None, table: str, *names: str) -> pl.DataFrame:
        """Return a series of one run, checked to have the columns `names`, cut to the time window."""
        frame = self.results.series(run.run_id, flow=flow, table=table)
        for name in names:
            if name not in frame.columns:
                raise unknown("column", name, [column for column in frame.columns if column != "t_s"])
        return self.cut(frame)

    def cut(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a series that lie in the time window."""
        if self.options.window is not None:
            start, stop = self.options.window
            if start is not None:
                frame = frame.filter(pl.col("t_s") >= start)
            if stop is not None:
                frame = frame.filter(pl.col("t_s") <= stop)
        return frame

    def group_keys(self, *, most: int, default: int = 1) -> list[str]:
        """Return the keys to group by: those asked for (at most `most`), or the first `default` that vary."""
        keys = self.keys
        if len(self.options.by) > most:
            raise InputError(f"by: this kind groups by {most} key(s) at most, not {len(self.options.by)}")
        if self.options.by:
            return [whole_key("key", name, keys, self.rows) for name in self.options.by]
        return distinguishing(self.rows, [name for name in keys if name not in ("repeat", "testbed")])[
            :default
        ]

    def apart(self, keys: Sequence[str], column: str, by: Sequence[str] = UNLIKE) -> list[str]:
        """Return the keys, and behind them what flows of one run differ by (`by`) where a group would else
        hold unlike ones, which nobody asked for unless by naming the flows."""
        table = self.locate(column)[0]
        if self.options.flows is not None or table == "queue":
            return list(keys)
        rows, found = self._having(column), list(keys)
        for name in by:
            if name in found or name not in rows.columns:
                continue
            unlike = rows.group_by("run_id").agg(pl.col(name).n_unique())[name].max() or 0
            alone = rows.select(*found).n_unique() if found else 1
            if int(str(unlike)) > 1 and rows.select(*found, name).n_unique() > alone:
                found.append(name)
        return found

    def of_one_app(self, column: str) -> tuple[Selection, str]:
        """Return the selection for flows of the first application that has the column, and its name."""
        app = self._having(column)["app"][0]
        return replace(self, rows=self.rows.filter(pl.col("app").eq_missing(pl.lit(app)))), str(app)

    def _having(self, column: str) -> pl.DataFrame:
        """Return the rows of the summary whose flows can have the column."""
        table, name = self.locate(column)
        if table is None:
            return self.rows.filter(pl.col(name).is_not_null())
        connections = pl.col("app").is_in(list(DATAGRAMS)).not_().fill_null(True)
        return self.rows.filter(connections) if table in ("tcp", "tcp_info") else self.rows

    def values(self, name: str, rows: pl.DataFrame) -> Floats:
        """Return `name` over `rows` in shown units: a value per row of the summary, or all samples."""
        table, column = self.locate(name)
        factor = columns.describe(column).factor
        if table is None:
            return floats(rows[column]) * factor
        kind = column if table == "samples" and column != "value" else None
        parts: list[Floats] = []
        pairs = (
            rows.select("run_id", "flow")
            if table in ("tcp", "tcp_info")
            else rows.select("run_id").unique(maintain_order=True)
        )
        for pair in pairs.iter_rows(named=True):
            frame = self.series(
                Run(pair["run_id"], "", ()), pair.get("flow"), table, "value" if kind else column
            )
            if self.options.hop is not None and "hop" in frame.columns:
                frame = frame.filter(pl.col("hop") == self.options.hop)
            if kind is not None:
                frame = frame.filter(
                    pl.col("kind").cast(pl.String) == kind,
                    pl.col("flow").cast(pl.String).is_in(rows["flow"].to_list()),
                )
            parts.append(floats(frame["value" if kind else column]) * factor)
        return np.concatenate(parts) if parts else np.empty(0)

    def locate(self, name: str) -> tuple[str | None, str]:
        """Return (table, column) of a column name; the table is None for a column of the summary.

        `samples.KIND` is the samples of one kind, `LOG.COLUMN` what an imported log has; then the column is
        that kind.
        """
        numeric = columns.numeric_columns(self.results.summary)
        if name in numeric:
            return None, name
        table, _, column = name.rpartition(".")
        for candidate in [table] if table else list(columns.SERIES):
            if column in columns.SERIES.get(candidate, ()):
                return candidate, column
        kinds = self.sample_kinds()
        if table == "samples" and column in kinds:
            return table, column
        if name.removeprefix("samples.") in kinds:  # of a log, as it names its columns
            return "samples", name.removeprefix("samples.")
        series = [f"{table}.{column}" for table, names in columns.SERIES.items() for column in names]
        raise unknown("column", name, [*numeric, *series, *(f"samples.{kind}" for kind in kinds)])

    def sample_kinds(self) -> list[str]:
        """Return the kinds of samples that the first run chosen holds."""
        ids = self.rows.filter(pl.col("status").is_in(RAN))["run_id"].unique(maintain_order=True)
        frame = self.results.series(ids[0], table="samples") if len(ids) else None
        return [] if frame is None or not frame.height else sorted(frame["kind"].cast(pl.String).unique())


def bind(results: ResultSet, options: Options) -> Selection:
    """Return `options` bound to `results`. Raises InputError where a run, flow or key does not exist."""
    rows = results.summary
    if not rows.height:
        raise InputError("there is nothing to draw: these results hold no run")
    for key, wanted in options.where.items():
        rows = filtered(rows, key, wanted, results.labels)
    if options.either:
        rows = rows.filter(pl.col("run_id").is_in(_either(results, rows, options.either)))
    if options.runs is not None:
        rows = _pick(rows, [_find_run(rows, run) for run in options.runs])
    if options.flows is not None:
        known = rows["flow"].unique(maintain_order=True).to_list()
        for flow in options.flows:
            if flow not in known:
                raise unknown("flow", flow, known)
        rank = {flow: place for place, flow in enumerate(options.flows)}
        rows = (
            rows.filter(pl.col("flow").is_in(list(rank)))
            .with_columns(pl.col("flow").replace_strict(rank, default=None).alias("_flow"))
            .with_columns(
                pl.col("run_id").rank("dense").alias("_run")
                if options.runs is None
                else pl.lit(0).alias("_run")
            )
        )
        rows = rows.sort("_run", "_flow", maintain_order=True).drop("_run", "_flow")
    caveat = inferred_models.note(inferred_models.of_rows(rows))
    rows = results.labels.shown(rows)
    return Selection(results, replace(options, caveat=caveat), rows, Names(options.labels))


def _either(
    results: ResultSet, rows: pl.DataFrame, alternatives: Sequence[Mapping[str, object]]
) -> list[object]:
    """Return the IDs of the runs that have what one of the alternatives says."""
    found: list[object] = []
    for alternative in alternatives:
        chosen = rows
        for key, wanted in alternative.items():
            chosen = filtered(chosen, key, wanted, results.labels)
        found += chosen["run_id"].unique(maintain_order=True).to_list()
    return found


def floats(column: pl.Series) -> Floats:
    """Return a numeric column as floats, null as NaN."""
    return column.cast(pl.Float64).to_numpy()


def held(counter: pl.Series) -> pl.Series:
    """Return a counter that keeps its value where a row does not tell it, and begins with 0."""
    return counter.fill_null(strategy="forward").fill_null(0) if counter.null_count() else counter


def run_labels(rows: pl.DataFrame, keys: Sequence[str], labels: Labels) -> dict[object, str]:
    """Return of each run in `rows` what tells it from the others: as few keys as do, under short names."""
    firsts = rows.unique("run_id", keep="first", maintain_order=True)
    telling = distinguishing(firsts, [key for key in keys if key != "flow"])
    return {row["run_id"]: labels.words(row, telling) for row in firsts.iter_rows(named=True)}


def _find_run(rows: pl.DataFrame, wanted: object) -> object:
    known: list[object] = rows["run_id"].unique(maintain_order=True).to_list()
    for run in known:
        if str(wanted) in (str(run), str(run).split("-", maxsplit=1)[0]):
            return run
    raise unknown("run", wanted, known)


def _pick(rows: pl.DataFrame, wanted: Sequence[object]) -> pl.DataFrame:
    if not wanted:
        raise InputError("runs: none named")
    return pl.concat([rows.filter(pl.col("run_id") == run) for run in dict.fromkeys(wanted)])
