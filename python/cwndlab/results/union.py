"""Several results seen as one, with a key `results` that says which each run is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from cwndlab.errors import InputError, unknown
from cwndlab.results.catalogue import Header
from cwndlab.results.columns import swept_keys
from cwndlab.results.parts import RunRecord
from cwndlab.results.resultset import ResultSet

if TYPE_CHECKING:
    import polars as pl  # takes long to import, as `cwndlab.results.resultset` says

KEY = "results"
"""The key whose values are the labels."""


class Together(ResultSet):
    """The runs of several results, numbered one after the other, to be drawn and compared side by side."""

    def __init__(self, labelled: Mapping[str, ResultSet]) -> None:
        """Put results together under their labels; raises InputError unless there are two at least."""
        if len(labelled) < 2:
            raise InputError("results: give two or more to put together")
        self.path = next(iter(labelled.values())).path
        self._sets = dict(labelled)
        self._offsets: dict[str, int] = {}
        runs = 0
        for label, results in self._sets.items():
            self._offsets[label] = runs
            runs += results.runs.height

    @property
    def arguments(self) -> list[str]:
        """The directories and labels, as the command line takes them."""
        return [f"{results.path}={label}" for label, results in self._sets.items()]

    @cached_property
    def header(self) -> Header:
        """Header that holds for all runs, with every differing entry for each of them."""
        headers = {label: results.header for label, results in self._sets.items()}
        names = dict.fromkeys(name for header in headers.values() for name in header.versions)
        return Header(
            _joined([header.experiment for header in headers.values()]),
            _joined([header.testbed for header in headers.values()]),
            self.keys,
            {
                name: _told({label: header.versions.get(name) for label, header in headers.items()})
                for name in names
            },
        )

    @property
    def keys(self) -> list[str]:
        """The label, and the swept keys of all."""
        return swept_keys(self.summary)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """The rows of all; a key that one of them does not sweep is null there."""
        import polars as pl

        frames = []
        for label, results in self._sets.items():
            numbered = results.summary.with_columns(
                pl.Series("run_id", [self._named(label, run) for run in results.summary["run_id"]]),
                pl.lit(label).alias(KEY),
            )
            frames.append(numbered)
        keys = dict.fromkeys(key for results in self._sets.values() for key in swept_keys(results.summary))
        frame = pl.concat(frames, how="diagonal_relaxed")
        first = [*frame.columns[: frame.columns.index("testbed") + 1], KEY, *keys]
        return frame.select(*first, *(name for name in frame.columns if name not in first))

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per planned run, with its number here, the label and the swept keys."""
        import polars as pl

        number = pl.col("run_id").str.extract(r"^(\d+)").cast(pl.Int64).alias("run_index")
        firsts = self.summary.unique("run_id", keep="first", maintain_order=True)
        return firsts.select("run_id", number, "repeat", *self.keys, "status")

    @cached_property
    def arrow(self) -> pa.Table:
        """The summary of all as a table of Arrow."""
        return self.summary.to_arrow()

    @property
    def experiment(self) -> str:
        """The text of every experiment that differs, one after the other."""
        texts = dict.fromkeys(results.experiment for results in self._sets.values())
        return "---\n".join(texts)

    def _of_run(self, run_id: object, flow: str | None, table: str) -> pl.DataFrame:
        results, own = self._owner(run_id)
        return results.series(own, flow, table)

    def rows(self, run_id: object, table: str = "tcp") -> pa.Table:
        """Return one table of one run as it is stored."""
        results, own = self._owner(run_id)
        return results.rows(own, table)

    def record(self, run_id: object) -> RunRecord:
        """Return the record of a run, under its number here."""
        label, own = self._placed(run_id)
        return replace(self._sets[label].record(own), run_id=self._offsets[label] + own)

    def records(self) -> Iterator[RunRecord]:
        """The records of all runs that are there."""
        for label, results in self._sets.items():
            for record in results.records():
                yield replace(record, run_id=self._offsets[label] + record.run_id)

    def captures(self, run_id: object) -> list[Path]:
        """The pcap files of a run."""
        results, own = self._owner(run_id)
        return results.captures(own)

    def verify(self) -> None:
        """Read every file and every row of all again."""
        for results in self._sets.values():
            results.verify()

    def load(self, name: str) -> bytes:
        """A file of the first of the results."""
        return next(iter(self._sets.values())).load(name)

    @property
    def complete(self) -> bool:
        """Whether every planned run of all was carried out and did not fail."""
        return all(results.complete for results in self._sets.values())

    def __repr__(self) -> str:
        """The labels and how much is in them."""
        return f"Together({', '.join(self._sets)}: {self.runs.height} runs)"

    def _named(self, label: str, run_id: object) -> str:
        """The name of a run here: its number, and the hash of its Scenario."""
        index, _, rest = str(run_id).partition("-")
        return (
            f"{self._offsets[label] + int(index)}-{rest}" if rest else str(self._offsets[label] + int(index))
        )

    def _owner(self, run_id: object) -> tuple[ResultSet, int]:
        label, own = self._placed(run_id)
        return self._sets[label], own

    def _placed(self, run_id: object) -> tuple[str, int]:
        """The label of a run, and its number in its own results."""
        number = str(run_id).partition("-")[0]
        if number.isdigit():
            for label, offset in reversed(self._offsets.items()):
                if offset <= int(number) < offset + self._sets[label].runs.height:
                    return label, int(number) - offset
        raise unknown("run", run_id, self.runs["run_id"].to_list())


def labels_of(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart; raises InputError for a directory named twice."""
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        raise InputError(f"{paths[0]}: results are named twice")
    for count in range(1, max(len(path.parts) for path in whole) + 1):
        names = ["/".join(path.parts[-count:]) for path in whole]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in whole]


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _told(values: Mapping[str, str | None]) -> str:
    """A value that all share, or each with its label."""
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{value or 'none'} ({label})" for label, value in values.items())
