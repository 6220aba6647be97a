"""Puts the shards of a sweep together: the results that one process would have written."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.errors import InputError
from cwndlab.execution import resumption, store
from cwndlab.execution.shards import Shard
from cwndlab.results import catalogue, checksums, directories, loadlatency
from cwndlab.results.catalogue import Header
from cwndlab.results.checksums import Sums
from cwndlab.results.parts import RUNS, StoredPart
from cwndlab.results.resultset import ResultSet


def merge(shards: Sequence[Path], out: Path | None = None) -> ResultSet:
    """Put the shards of one sweep together in a new directory, `out` or `results/NAME-DATE`.

    Its bytes are those of the sweep carried out in one go, but for what holds clock times. Raises InputError,
    one line, for a directory that is no shard, for shards of different experiments or made by different
    versions, for one that is missing or not whole, and for one that is there twice and not the same.
    """
    if not shards:
        raise InputError("merge: give the directories of all shards")
    found = [_Found(directory) for directory in shards]
    for other in found[1:]:
        _belongs(found[0], other)
    chosen = _one_of_each(found)
    for shard in chosen:
        for name in shard.parts:
            StoredPart(shard.directory / "runs" / name).check()
    table = _table(chosen)
    directory = directories.choose(chosen[0].header.experiment, out)
    with directories.locked(directory):
        (directory / "runs").mkdir(exist_ok=True)
        contents = {
            catalogue.FILE: catalogue.to_parquet(table),
            resumption.EXPERIMENT: chosen[0].experiment.encode(),
        }
        checksums.replace(directory, contents)
        for shard in chosen:
            for name in shard.parts:
                store.copy(shard.directory / "runs" / name, directory / "runs")
        resumption.conclude(directory, table)
        loadlatency.write(ResultSet(directory))
    return ResultSet(directory)


@dataclass
class _Found:
    """A directory that is to be merged."""

    directory: Path

    def __post_init__(self) -> None:
        self.header, self.table = catalogue.stored(self.directory)
        if self.header.shard is None:
            raise InputError(f"{self.directory}: holds a whole sweep, no shard of one")
        self.shard = Shard.parse(self.header.shard, f"{self.directory / catalogue.FILE}: shard")
        left = len(set(self.table.filter(pc.field("status") == catalogue.MISSING)["run_index"].to_pylist()))
        if left:
            raise InputError(
                f"{self.directory}: {left} runs of shard {self.shard} are missing; carry it out again"
            )

    @property
    def parts(self) -> list[str]:
        return [str(name) for name in self.table["part"].unique().to_pylist()]

    @cached_property
    def experiment(self) -> str:
        return Sums(self.directory).load(resumption.EXPERIMENT).decode()

    @cached_property
    def digest(self) -> str:
        """Hash of the contents, without clock times and facts of machines."""
        held = hashlib.sha256(catalogue.to_parquet(self.table))
        for name in self.parts:
            part = self.directory / "runs" / name
            listed = Sums(part)
            for file in (file for file in listed.names if file != RUNS):
                held.update(f"{name}/{file} {listed.digests(file)}\n".encode())
            for record in StoredPart(part).records:
                held.update(record.scenario_hash.encode())
        return held.hexdigest()


def _belongs(first: _Found, other: _Found) -> None:
    """Refuse two directories that are not of one sweep."""
    between = f"{other.directory}: does not belong with {first.directory}"
    ours, theirs = first.header, other.header
    for name in dict.fromkeys([*ours.versions, *theirs.versions]):
        was, now = ours.versions.get(name, "absent"), theirs.versions.get(name, "absent")
        if was != now:
            raise InputError(f"{between}, which was made by {name} {was}, and this by {now}")
    if first.shard.count != other.shard.count:
        raise InputError(f"{between}, of a sweep in {first.shard.count} shards; this is {other.shard}")
    if replace(ours, shard=None) != replace(theirs, shard=None):
        raise InputError(f"{between}: {theirs.experiment} on {theirs.testbed} is another experiment")
    change = next(resumption.changes(first.experiment, other.experiment), None)
    if change is not None:
        raise InputError(f"{between}: holds another experiment: {change}")


def _one_of_each(found: Sequence[_Found]) -> list[_Found]:
    """The shards in order, each once; refuses what is missing, and what is there twice and differs."""
    chosen: dict[int, _Found] = {}
    for shard in found:
        same = chosen.setdefault(shard.shard.number, shard)
        if same is not shard and same.digest != shard.digest:
            raise InputError(
                f"{shard.directory}: shard {shard.shard} is in {same.directory} too, with other bytes"
            )
    count = found[0].shard.count
    if missing := count - len(chosen):
        # A shard may say that there are any number of others.
        first = islice((str(number) for number in range(1, count + 1) if number not in chosen), 12)
        named = ", ".join(first) + (" …" if missing > 12 else "")
        raise InputError(f"merge: of {count} shards {missing} are missing: {named}")
    return [chosen[number] for number in sorted(chosen)]


def _table(chosen: Sequence[_Found]) -> pa.Table:
    """The catalogue of all."""
    header: Header = replace(chosen[0].header, shard=None)
    rows = pa.concat_tables([shard.table for shard in chosen])
    # The sort is stable: flows of a run stay in their order.
    rows = rows.take(pc.sort_indices(rows, [("run_index", "ascending")])).combine_chunks()
    indices = rows["run_index"].unique().to_pylist()
    if indices != list(range(len(indices))):
        raise InputError("merge: the shards do not hold each run of a plan once; they are damaged")
    return catalogue.with_header(header, rows)
