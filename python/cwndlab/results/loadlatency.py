"""Results of loadlatency scenarios as the tool writes them: its classic lines, and its JSON documents."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cwndlab.contract.summary import PingerLoad
from cwndlab.errors import InputError
from cwndlab.experiment.damage import of_engine
from cwndlab.experiment.scenario.queries import app_of
from cwndlab.results import checksums, texttable
from cwndlab.results.checksums import damaged
from cwndlab.results.parts import RunRecord
from cwndlab.results.resultset import ResultSet

CLASSIC, DOCUMENTS = "loadlatency.txt", "loadlatency.json"
"""Files in a directory of results: the classic lines, and a document for each series of scenarios (of a run
of the tool, its one document)."""

TOOL = "loadlatency"
"""Testbed of the results of a run of the tool itself."""

_SCENARIO = re.compile(r"flows\.[^.]+\.app(\.scenario)?")
"""Swept keys that say which scenario a run is of."""


@dataclass
class Series:
    """Scenarios that ran under the same conditions, one run each: what the tool would do in one go."""

    flow: str
    """The flow of the experiment file."""
    cell: dict[str, str]
    """The swept keys that do not say which scenario it is."""
    repeat: int
    scenarios: list[Mapping[str, Any]] = field(default_factory=list)
    """Scenarios as observed, in the order of the plan (docs/loadlatency.md)."""
    missing: int = 0
    """Runs that failed."""

    def document(self, facts: Mapping[str, str]) -> dict[str, Any]:
        """The tool's JSON document; `facts` are further conditions of all runs."""
        from cwndlab import _native

        observed = {
            "idle_pings": [ping for scenario in self.scenarios for ping in scenario["idle_pings"]],
            "scenarios": self.scenarios,
        }
        conditions = {
            "status": "failed" if self.missing else "complete",
            "message": f"{self.missing} scenarios are missing" if self.missing else None,
            "started_unix_s": None,
            "facts": {**facts, **self.cell, "flow": self.flow, "repeat": str(self.repeat)},
        }
        try:
            return dict(
                json.loads(_native.loadlatency_document(json.dumps(observed), json.dumps(conditions)))
            )
        except ValueError as error:
            raise InputError(f"flow {self.flow}: {of_engine(error)}; the results are damaged") from None


def is_scenario(key: str) -> bool:
    """Whether a swept key says which scenario a flow carries out: different loads, not values to compare."""
    return _SCENARIO.fullmatch(key) is not None


def series(results: ResultSet) -> list[Series]:
    """All series of an experiment, in the order of its plan; none where nothing is loadlatency.

    Runs of a sweep over `scenario` that agree in all else are one series: the metrics of all scenarios
    together are made of them, as of the scenarios of one session of the tool.
    """
    found: dict[tuple[str, ...], Series] = {}
    if results.arrow["load_scenario"].null_count == results.arrow.num_rows:
        return []
    records = {record.run_id: record for record in results.records()}
    kept = [key for key in results.keys if not is_scenario(key)]
    for run in results.runs.iter_rows(named=True):
        record = records.get(run["run_index"])
        if record is None:
            continue
        cell = {key: str(run[key]) for key in kept}
        for flow in _pingers(record):
            one = found.setdefault(
                (*cell.values(), str(run["repeat"]), flow), Series(flow, cell, run["repeat"])
            )
            observed = _observed(record, flow)
            if observed is None:
                one.missing += 1
            else:
                one.scenarios.append(observed)
    return list(found.values())


def classic(results: ResultSet) -> str:
    """The classic output of every series, headed by what tells it from the others; empty without any.

    Of a run of the tool itself, the one of its document. Raises InputError if that is damaged.
    """
    if results.header.testbed == TOOL:
        return _kept(results)
    everything = series(results)
    rows = [{**one.cell, "flow": one.flow, "repeat": str(one.repeat)} for one in everything]
    names = texttable.telling(list(rows[0]), rows) if rows else []
    short = texttable.short_names(names)
    blocks = []
    for one, row in zip(everything, rows, strict=True):
        head = ", ".join(f"{short[name]} {row[name]}" for name in names)
        lines = str(one.document({})["classic"])
        blocks.append(f"{head}\n{lines}" if head else lines)
    return "\n".join(blocks)


def write(results: ResultSet) -> None:
    """Put both files into the directory of results that have loadlatency scenarios."""
    everything = series(results)
    if not everything:
        return
    header = results.header
    facts = {"experiment": header.experiment, "testbed": header.testbed, **header.versions}
    documents = [one.document(facts) for one in everything]
    text = json.dumps(documents, separators=(",", ":")) + "\n"
    checksums.replace(results.path, {CLASSIC: classic(results).encode(), DOCUMENTS: text.encode()})


def _kept(results: ResultSet) -> str:
    from cwndlab import _native

    try:
        return str(json.loads(_native.loadlatency_read(results.load(DOCUMENTS).decode()))["classic"])
    except ValueError as error:
        raise damaged(results.path / DOCUMENTS, of_engine(error)) from None


def _pingers(record: RunRecord) -> list[str]:
    flows = record.scenario["flows"]
    return [str(flow["name"]) for flow in flows if app_of(flow).get("part") == "pinger"]


def _observed(record: RunRecord, flow: str) -> Mapping[str, Any] | None:
    if record.summary is None:
        return None
    for counted in record.summary["flows"]:
        load = counted.get("load")
        if counted["flow"] == flow and load is not None:
            return dict(cast(PingerLoad, load)["observed"])
    return None
