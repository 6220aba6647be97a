"""The sections of a report that say how its runs were set up: testbed, parameters, provenance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.report.html_report.facts import MAX_ROWS, Facts, some
from cwndlab.report.html_report.html import Table
from cwndlab.results import columns, epochs, inferred_models
from cwndlab.results.briefs import Brief, never_settled
from cwndlab.results.resultset import ResultSet

MAX_FACTS = 20
"""Runs of which is shown what a testbed found on its hosts."""


def testbed(facts: Facts) -> dict[str, object]:
    """Section about the make-up of the testbed."""
    objects = []
    if (scenario := facts.scenario) is not None:
        same = "of the first run, swept keys aside the same in all"
        objects = [
            ("Hosts", _objects(scenario["hosts"], f"Hosts {same}")),
            ("Links", _objects(scenario["links"], f"One direction of a cable each, {same}")),
            ("Changes of links", _objects(_changes(scenario), f"Changes {same}")),
            ("Flows", _objects(_flows(scenario), f"Who sends to whom, and how; flows {same}")),
        ]
        objects = [(name, table) for name, table in objects if table.rows]
    return {"parameters": _parameters(facts), "objects": objects, "experiment": facts.results.experiment}


def _changes(scenario: Scenario) -> list[Mapping[str, Any]]:
    """The scheduled changes of links, the link first."""
    return [{"link": change["link"], **change} for change in scenario["schedule"]]


def _flows(scenario: Scenario) -> list[Mapping[str, Any]]:
    """The flows of a Scenario; datagrams have no congestion control, though a Scenario names one."""
    return [{**flow, "cc": None} if is_datagrams(flow) else flow for flow in scenario["flows"]]


def _parameters(facts: Facts) -> Table:
    rows: list[list[object]] = []
    for key in facts.keys:
        values = columns.ordered(facts.results.values_of(key))
        how = "swept" if key in facts.telling else "follows from the others"
        if len(values) == 1:
            how = "the same in all"
        rows.append(
            [key, ", ".join("–" if value is None else inferred_models.marked(value) for value in values), how]
        )
    if (scenario := facts.scenario) is not None:
        repeats = facts.summary["repeat"].n_unique()
        measure = scenario["measure"]
        rows += [
            ["repeat", str(repeats), "of each combination"],
            ["seed", str(scenario["seed"]), "of every random stream"],
            ["duration", _quantity("duration_ns", scenario["duration_ns"]), ""],
            [
                "measure",
                f"{_quantity('from_ns', measure['from_ns'])} to {_quantity('to_ns', measure['to_ns'])}",
                "the part of a run that tables cover",
            ],
            [
                "start jitter",
                _quantity("_ns", scenario["start_jitter_ns"]),
                "flows start at random within it",
            ],
        ]
        if spreads := scenario.get("phase_jitter_ns"):
            what = "the delay of each host's packets, drawn once a run from 0 to this"
            rows.append(["phase jitter", _quantity("_ns", max(spreads.values())), what])
    return Table(["parameter", "values", ""], rows, "What was varied and what was not.", row_heads=1)


def _objects(objects: Sequence[Mapping[str, Any]], caption: str) -> Table:
    """A table of like objects of a Scenario: a column per field that any of them sets, nested ones too."""
    flat = [dict(_flat(item)) for item in objects[:200]]
    names = list(dict.fromkeys(name for item in flat for name, value in item.items() if value is not None))
    if len(objects) > 200:
        caption += f" (the first 200 of {len(objects)})"
    rows = [[_quantity(name, item.get(name)) for name in names] for item in flat]
    return Table([_field_name(name) for name in names], rows, f"{caption}.", row_heads=1)


def _flat(item: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in item.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < 2:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in ({}, []):
            yield f"{prefix}{name}", value


_FIELD_UNITS = ("_ns", "_bps", "_bytes", "_ppb")


def _field_name(name: str) -> str:
    if name.startswith("sysctl."):
        return name.removeprefix("sysctl.")
    for suffix in _FIELD_UNITS:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _quantity(name: str, value: object) -> str:
    """A field of a Scenario as people write it: 20 ms, 10 Mbit/s."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        for suffix, units in _SCALES.items():
            if name.endswith(suffix):
                return _scaled(value, units)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


_BYTES = ((1, "B"),)

_SCALES: Mapping[str, Sequence[tuple[int, str]]] = {
    "_ns": ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns")),
    "_bps": ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s"), (1, "bit/s")),
    "_ppb": ((10**7, "%"),),
    "_bytes": _BYTES,
    "sndbuf": _BYTES,
    "rcvbuf": _BYTES,
}
"""Units of a Scenario's integers by the end of their names, the largest first."""


def _scaled(value: int, units: Sequence[tuple[int, str]]) -> str:
    size, unit = next(((size, unit) for size, unit in units if abs(value) >= size), units[-1])
    if not value and unit == "ns":
        return "0 s"
    return f"{value / size:.10g} {unit}"


def provenance(facts: Facts) -> dict[str, object]:
    """Section about the makers of these results."""
    header, briefs = facts.results.header, facts.results.briefs
    rows: list[list[object]] = [[f"version of {name}", text] for name, text in header.versions.items()]
    rows += [["testbed", header.testbed], ["results", str(facts.results.path)]]
    if briefs:
        started = sorted(brief.started for brief in briefs)
        rows += [
            ["first run started", started[0]],
            ["last run started", started[-1]],
            ["time the runs took", f"{sum(brief.wall_s for brief in briefs):.4g} s, summed over workers"],
        ]
        machines = dict.fromkeys(tuple(brief.machine.items()) for brief in briefs)
        for machine in machines:
            rows += [[f"machine: {name}", text] for name, text in machine]
        rows += [["machine: " + name, text] for name, text in _machine(briefs)]
        seeds = sorted({brief.seed for brief in briefs if brief.seed is not None})
        rows.append(["seed", ", ".join(map(str, seeds))])
    failed = [[str(brief.run_id), brief.error or ""] for brief in briefs if not brief.complete]
    absent = facts.results.runs.filter(pl.col("status") == "missing")["run_id"].to_list()
    failed += [[str(run), "not carried out yet; cwndlab run --resume does it"] for run in absent]
    found = {json.dumps(brief.facts, sort_keys=True): brief for brief in briefs if brief.facts}
    more = len(found) - MAX_FACTS
    return {
        "origin": Table(["what", "value"], rows, "Where these results come from.", row_heads=1),
        "tables": [
            ("Warnings", _remarks("warnings", _by_run(briefs, "warnings"))),
            ("Notes", _remarks("notes", [*_of_all(facts.results), *_by_run(briefs, "notes")])),
            (
                "Runs that are not complete",
                Table(["run", "reason"], failed[:MAX_ROWS], f"{len(failed)} runs."),
            ),
        ],
        "found": [
            (
                "What the testbed found on its hosts" + (f", run {brief.run_id}" if len(found) > 1 else ""),
                json.dumps(brief.facts, indent=2, ensure_ascii=False),
            )
            for brief in list(found.values())[:MAX_FACTS]
        ],
        "found_more": f"What it found in {more} more runs is in their runs.jsonl." if more > 0 else "",
        "command": f"cwndlab report {facts.directory}",
    }


def _remarks(kind: str, said: Iterable[tuple[str, Sequence[str]]]) -> Table:
    """The `warnings` or `notes`, each with the runs that have it."""
    lines = [[text, some(runs)] for text, runs in said]
    return Table([kind, "runs"], lines, f"{kind.capitalize()} of the runs.")


def _of_all(results: ResultSet) -> list[tuple[str, Sequence[str]]]:
    """The notes on all runs together."""
    found = (epochs.few(results), never_settled(results.briefs))
    return [(each.text, each.runs) for each in found if each]


def _by_run(briefs: Sequence[Brief], kind: str) -> Iterable[tuple[str, Sequence[str]]]:
    """The `warnings` or `notes` of single runs, each once, with these."""
    said: dict[str, list[str]] = {}
    for brief in briefs:
        for text in getattr(brief, kind):
            said.setdefault(text, []).append(str(brief.run_id))
    return said.items()


def _machine(briefs: Sequence[Brief]) -> Iterator[tuple[str, str]]:
    """Facts of real machines that a reader has to know, each fact of several runs once."""
    machines = [brief.facts["machine"] for brief in briefs if "machine" in brief.facts]
    for place, words in _MACHINE.items():
        values = [machine.get(place[0], {}).get(place[1]) for machine in machines]
        known = dict.fromkeys(_fact(value) for value in values if value is not None)
        if known:
            yield words, ", ".join(known)


_MACHINE = {
    ("cpu", "model"): "processor",
    ("cpu", "online"): "processors in use",
    ("cpu", "governor"): "frequency governor",
    ("clock", "source"): "clock source",
    ("clock", "synchronised"): "clock synchronised (NTP)",
}


def _fact(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
