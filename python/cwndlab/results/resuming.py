"""What a results directory already holds, and whether an experiment may go on in it."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from cwndlab.analysis import summary
from cwndlab.errors import InputError, shown
from cwndlab.results import catalogue, parts
from cwndlab.results.catalogue import Header
from cwndlab.results.directories import LOCK
from cwndlab.results.parts import Part, RunRecord

EXPERIMENT = "experiment.yaml"


def prepare(directory: Path, header: Header, cut: Sequence[Part], experiment: str, resume: bool) -> set[str]:
    """Make a directory ready for the parts of a plan; returns the names of parts that are there and stay.

    Raises InputError when the directory holds another experiment, saying what differs.
    """
    if (directory / catalogue.FILE).exists():
        _same(directory, header, cut, experiment)
    elif resume and any(path.name != LOCK for path in directory.iterdir()):
        raise InputError(f"{directory}: not a directory of results ({catalogue.FILE} is not there)")
    else:
        catalogue.write(directory, catalogue.build(header, cut, {}))
    parts.replace(directory / EXPERIMENT, experiment.encode())
    runs = directory / "runs"
    runs.mkdir(exist_ok=True)
    for aside in runs.glob(".*"):
        shutil.rmtree(aside)
    return {part.name for part in cut if _whole(runs / part.name, part)}


def collect(directory: Path, cut: Sequence[Part]) -> dict[int, RunRecord]:
    """The records of all runs that are there, by index."""
    found = [directory / "runs" / part.name for part in cut]
    return {record.run_id: record for part in found if part.is_dir() for record in parts.read_records(part)}


def _whole(directory: Path, part: Part) -> bool:
    if not directory.is_dir():
        return False
    records = parts.read_records(directory)
    planned = [(run.index, run.scenario_hash) for run in part.runs]
    if [(record.run_id, record.scenario_hash) for record in records] != planned:
        raise InputError(f"{directory}: holds other runs than were planned; the results are damaged")
    return all(record.status == "complete" for record in records)


def _same(directory: Path, header: Header, cut: Sequence[Part], experiment: str) -> None:
    before, table = catalogue.stored(directory)
    change = next(_changes(directory, before, header, experiment), None)
    stored = list(zip(*(table.column(name).to_pylist() for name in ("run_id", "part")), strict=True))
    planned = [(catalogue.run_id(run), part.name) for part in cut for run in part.runs]
    if change is None and list(dict.fromkeys(stored)) != planned:
        change = "the same file makes another plan"
    if change is not None:
        raise InputError(
            f"{directory}: holds another experiment: {change}; resume with the one it was begun with"
        )
    lacking = [name for name in summary.FIGURES if name not in table.schema.names]
    if lacking:
        more = f" and {len(lacking) - 1} more figures" if len(lacking) > 1 else ""
        raise InputError(
            f"{directory}: was begun by an earlier version, which did not know {lacking[0]}{more}; "
            "it cannot be resumed, run it again"
        )


def _changes(directory: Path, before: Header, now: Header, experiment: str) -> Iterator[str]:
    if before.testbed != now.testbed:
        yield f"testbed was {before.testbed}, is {now.testbed}"
    file = directory / EXPERIMENT
    old = dict(_leaves(file.read_text(encoding="utf-8"))) if file.exists() else {}
    new = dict(_leaves(experiment))
    for key in [*old, *(key for key in new if key not in old)] if old else []:
        if old.get(key) != new.get(key):
            yield f"{key} was {_value(old.get(key))}, is {_value(new.get(key))}"
    for name, version in now.versions.items():
        if before.versions.get(name) != version:
            yield f"{name} was {before.versions.get(name, 'absent')}, is {version}"


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
