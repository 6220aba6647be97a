"""Says what results hold that nothing writes: they were altered with their SHA256SUMS, and reading failed."""

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Summary
from cwndlab.errors import InputError
from cwndlab.experiment.damage import damage
from cwndlab.results.checksums import damaged
from cwndlab.results.parts import RUNS, RunRecord, StoredPart


def fault(results: Path) -> InputError | None:
    """The first value in a directory of results that is none, by file and run."""
    for place in sorted((results / "runs").iterdir()):
        if not place.is_dir() or place.name.startswith("."):
            continue
        try:
            for record in StoredPart(place).records:
                for wrong in _wrong(record):
                    return damaged(place / RUNS, f"run {record.run_id}: {wrong}")
        except InputError as error:
            return error
    return None


def _wrong(record: RunRecord) -> Iterator[str]:
    for name in ("scenario", "summary"):
        value: Any = getattr(record, name)
        if value is None:
            continue
        try:
            _reader(name).validate_python(value, strict=True)
        except ValidationError as error:
            yield f"{name}: {damage(error)}"
        else:
            yield from (f"{name}: {place} is no number that is counted" for place in _beyond(value))
    scenario: Any = record.scenario
    summary: Any = record.summary
    names = {kind: [each["name"] for each in scenario[kind]] for kind in ("hosts", "flows", "links")}
    for flow in scenario["flows"]:
        for end in ("from", "to"):
            if flow[end] not in names["hosts"]:
                yield f"scenario: flow {flow['name']!r} is {end} {flow[end]!r}, which is no host"
    for kind in ("flow", "link") if summary is not None else ():
        for each in summary[f"{kind}s"]:
            if each[kind] not in names[f"{kind}s"]:
                yield f"summary: {kind} {each[kind]!r} is none of the scenario"


@functools.cache
def _reader(name: str) -> TypeAdapter[Any]:
    return TypeAdapter({"scenario": Scenario, "summary": Summary}[name])


def _beyond(value: Any, place: str = "") -> Iterator[str]:
    """Places of numbers that no counter holds."""
    match value:
        case dict():
            for key, each in value.items():
                yield from _beyond(each, f"{place}.{key}".lstrip("."))
        case list():
            for number, each in enumerate(value):
                yield from _beyond(each, f"{place}.{number}")
        case int() | float() if not (math.isfinite(value) and -(2**63) <= value < 2**64):
            yield place
