"""The contents of a results directory, and whether an experiment may go on in it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import yaml

from cwndlab.errors import InputError, shown
from cwndlab.execution import store
from cwndlab.results import catalogue, checksums, metrics
from cwndlab.results.catalogue import Header
from cwndlab.results.checksums import Sums
from cwndlab.results.directories import is_begun
from cwndlab.results.parts import Part, StoredPart

EXPERIMENT = "experiment.yaml"


def prepare(directory: Path, header: Header, cut: Sequence[Part], experiment: str, resume: bool) -> set[str]:
    """Make a directory ready for the parts of a plan; returns the names of parts that are there and stay.

    A part stays if every file of it is as it was written and every run in it is complete. Raises InputError
    when the directory holds another experiment, saying what differs, or what this program did not make.
    """
    runs = directory / "runs"
    if (directory / catalogue.FILE).exists():
        _same(directory, header, cut, experiment)
    elif resume and is_begun(directory):
        raise InputError(f"{directory}: not a directory of results ({catalogue.FILE} is not there)")
    if runs.is_symlink():
        raise InputError(f"{runs}: is a symlink; put the directory it points at in its place")
    runs.mkdir(exist_ok=True)
    if not (directory / catalogue.FILE).exists():
        # Whatever comes after the catalogue can be made again by resuming.
        first = catalogue.to_parquet(catalogue.build(header, cut, lambda name: None))
        checksums.replace(directory, {catalogue.FILE: first, EXPERIMENT: experiment.encode()})
    elif not (directory / EXPERIMENT).exists():
        checksums.replace(directory, {EXPERIMENT: experiment.encode()})
    for path in runs.iterdir():
        if store.ASIDE.fullmatch(path.name):
            store.discard(path)
    return {part.name for part in cut if _whole(runs / part.name, part)}


def stored(directory: Path) -> Callable[[str], StoredPart | None]:
    """Return a function that gives a part that is there, by its name."""

    def of_part(name: str) -> StoredPart | None:
        place = directory / "runs" / name
        return StoredPart(place) if place.is_dir() else None

    return of_part


def conclude(directory: Path, table: pa.Table) -> None:
    """Put a catalogue whose runs are over into a directory, and summary.csv beside it."""
    contents = {catalogue.FILE: catalogue.to_parquet(table), catalogue.SUMMARY: catalogue.to_csv(table)}
    checksums.replace(directory, contents)


def _whole(directory: Path, part: Part) -> bool:
    """Whether a part can stay; one that is damaged cannot."""
    if directory.is_symlink():
        raise InputError(f"{directory}: is a symlink; put the directory it points at in its place")
    if not directory.is_dir():
        return False
    try:
        stored = StoredPart(directory)
        records = stored.records
        stored.check()
    except InputError:
        store.check_ours(directory)  # it is done again, which may take long
        return False
    planned = [(run.index, run.scenario_hash) for run in part.runs]
    if [(record.run_id, record.scenario_hash) for record in records] != planned:
        raise InputError(f"{directory}: holds other runs than were planned; the results are damaged")
    return all(record.status == "complete" for record in records)


def _same(directory: Path, header: Header, cut: Sequence[Part], experiment: str) -> None:
    before, table = catalogue.stored(directory)
    for name in dict.fromkeys([*header.versions, *before.versions]):
        was, now = before.versions.get(name, "absent"), header.versions.get(name, "absent")
        if was != now:
            raise InputError(
                f"{directory}: was begun with {name} {was}, and this is {now}; their results are not mixed: "
                "resume with that one, or run the experiment again in another directory"
            )
    change = next(_changes(directory, before, header, experiment), None)
    stored = list(zip(*(table.column(name).to_pylist() for name in ("run_id", "part")), strict=True))
    planned = [(catalogue.run_id(run), part.name) for part in cut for run in part.runs]
    if change is None and list(dict.fromkeys(stored)) != planned:
        change = "the same file makes another plan"
    if change is not None:
        raise InputError(
            f"{directory}: holds another experiment: {change}; resume with the one it was begun with"
        )
    lacking = [name for name in metrics.NAMES if name not in table.schema.names]
    if lacking:
        more = f" and {len(lacking) - 1} more metrics" if len(lacking) > 1 else ""
        raise InputError(
            f"{directory}: was begun by an earlier version, which did not know {lacking[0]}{more}; "
            "it cannot be resumed, run it again"
        )


def _changes(directory: Path, before: Header, now: Header, experiment: str) -> Iterator[str]:
    if before.testbed != now.testbed:
        yield f"testbed was {before.testbed}, is {now.testbed}"
    if before.shard != now.shard:
        yield f"shard was {before.shard or 'none'}, is {now.shard or 'none'}"
    if (directory / EXPERIMENT).exists():
        yield from changes(Sums(directory).load(EXPERIMENT).decode(), experiment)


def changes(before: str, now: str) -> Iterator[str]:
    """Yield the differences between two texts of experiment.yaml, a line for each key."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    for key in [*old, *(key for key in new if key not in old)] if old else []:
        if old.get(key) != new.get(key):
            yield f"{key} was {_value(old.get(key))}, is {_value(new.get(key))}"


def _value(text: str | None) -> str:
    return "absent" if text is None else shown(text)


def _leaves(text: str) -> Iterator[tuple[str, str]]:
    """The dotted keys of a YAML text with their values as text."""
    try:
        # BaseLoader makes nothing but lists, mappings and text.
        yield from _below("", yaml.load(text, Loader=yaml.BaseLoader))
    except yaml.YAMLError:
        yield "", text


def _below(key: str, node: object) -> Iterator[tuple[str, str]]:
    match node:
        case dict():
            for name, value in node.items():
                yield from _below(f"{key}.{name}" if key else str(name), value)
        case list():
            for place, value in enumerate(node):
                yield from _below(f"{key}[{place}]", value)
        case _:
            yield key, str(node)
