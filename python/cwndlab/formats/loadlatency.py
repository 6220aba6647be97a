"""The JSON document of a loadlatency run (docs/loadlatency.md): each scenario is a run, its pinger a flow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cwndlab import _native
from cwndlab.contract.summary import LoadScenario
from cwndlab.errors import InputError
from cwndlab.experiment.damage import damage, of_engine
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.formats.directory import Run
from cwndlab.formats.external_sort import StoredTable
from cwndlab.results import summary
from cwndlab.testbeds.logs.connections import Column

NAME = "loadlatency"

PINGER = "pinger"
"""Name of the flow that holds the pinger's round trips."""

BIN_NS = 100_000_000
"""Length of the intervals in which arrivals are counted, ns (crates/measure/src/observed.rs)."""

KIB_S = 1024 * 8 / 1e6
"""Mbit/s of one KiB/s."""


MARKS = {'"kind": "loadlatency"': rb'"kind"\s*:\s*"loadlatency"', '"observed"': rb'"observed"\s*:\s*\{'}
"""Marks of a document of this format, in words, each with the pattern that finds it."""


def recognises(head: bytes) -> bool:
    """Whether the file is a JSON object that says so, wherever that stands."""
    return head.lstrip().startswith(b"{") and re.search(next(iter(MARKS.values())), head) is not None


def read(path: Path) -> list[Recording]:
    """The scenarios of a document; raises InputError for one that is damaged."""
    return [run.recording for run in runs(base.json_text(path), path)]


def runs(text: str, path: Path) -> list[Run]:
    """The scenarios of a document as runs, told apart by their number; `path` is for messages.

    Metrics are made anew of what was observed. Raises InputError, one line, for a document that is damaged.
    """
    unlike = f"{path}: not a document of loadlatency"
    try:
        # The engine knows the document, and refuses what is none.
        document = json.loads(_native.loadlatency_read(text))
    except ValueError as error:
        raise InputError(f"{unlike} ({of_engine(error)})") from None
    try:
        scenarios = document["observed"]["scenarios"]
        return [
            Run(_recording(path, document, place), {"scenario": _label(scenarios, place)})
            for place in range(len(scenarios))
        ]
    except (ValueError, OSError, OverflowError) as error:
        raise InputError(f"{unlike} ({damage(error)})") from None


def _label(scenarios: list[Mapping[str, Any]], place: int) -> str:
    """The number among the nineteen, or `staircase`; a second one of the same gets its place."""
    names = [str(scenario["number"] or "staircase") for scenario in scenarios]
    again = names[:place].count(names[place])
    return names[place] + (f" #{again + 1}" if again else "")


def _recording(path: Path, document: Mapping[str, Any], place: int) -> Recording:
    scenario, metrics = document["observed"]["scenarios"][place], document["metrics"][place]
    conditions = document["conditions"]
    transfers, pings = scenario["transfers"], scenario["pings"]
    idle = scenario["idle_pings"] or document["observed"]["idle_pings"]
    rates = {row["flow"]: row["kib_s"] * KIB_S for row in metrics["goodput"]}
    found: dict[str, dict[str, float]] = {name: {"goodput_mbps": rate} for name, rate in rates.items()}
    rtt = np.array([ping[1] for ping in pings], dtype=np.float64)
    if len(rtt):
        found[PINGER] = series.rtt_metrics(rtt / 1e6)
    # A staircase is none of the scenarios.
    if scenario["number"]:
        for transfer in transfers:
            found[transfer["name"]]["smoothness_hz"] = summary.smoothness_hz(transfer)
        if len(rtt):
            of_load = {"load_scenario": scenario["number"], **summary.of_load(metrics)}
            found[PINGER] |= {name: value for name, value in of_load.items() if value is not None}
    off_ms = summary.of_load(metrics)["one_way_error_ms"]
    if off_ms is not None:
        found[PINGER]["one_way_error_ms"] = off_ms
    warnings = [f"{PINGER}: one-way changes may be off by {off_ms:.4g} ms: two clocks"] if off_ms else []
    warnings += [
        f"{transfer['name']} was killed: {transfer['killed']}" for transfer in transfers if transfer["killed"]
    ]
    if scenario["forced"]:
        warnings.append("was forced to end before its metrics were stable")
    if scenario["interrupted"]:
        warnings.append(f"was cut short: {conditions['message']}")
    started = conditions["started_unix_s"]
    controls = sorted({transfer["sender"]["cc"] or "" for transfer in transfers} - {""})
    return Recording(
        format=NAME,
        source=path,
        label=f"{path.name} scenario {_label(document['observed']['scenarios'], place)}",
        flows=(*(transfer["name"] for transfer in transfers), *([PINGER] if len(rtt) else [])),
        metrics=found,
        tables={
            "tcp": StoredTable.of(_tcp(transfers, pings)),
            "samples": StoredTable.of(_samples(scenario, idle)),
        },
        started=None
        if started is None
        else datetime.fromtimestamp(started + scenario["start_ns"] // 10**9, UTC),
        facts={**conditions["facts"], **({"cc": "/".join(controls)} if controls else {})},
        warnings=tuple(warnings),
    )


def _tcp(transfers: list[Mapping[str, Any]], pings: list[list[Any]]) -> Any:
    """Table of the bytes that each flow has delivered at the end of each interval, with the pinger's round
    trips.
    """
    times, names, delivered, rtt = [], [], [], []
    for transfer in transfers:
        counts = np.concatenate([[0], np.cumsum(np.array(transfer["bins"], dtype=np.float64))])
        ends = transfer["start_ns"] + BIN_NS * np.arange(len(counts), dtype=np.int64)
        # The last interval ends with the flow.
        times.append(np.minimum(ends, max(transfer["end_ns"], transfer["start_ns"])))
        names.append([transfer["name"]] * len(counts))
        delivered.append(counts)
        rtt.append(np.full(len(counts), np.nan))
    ends, took = _ended(pings)
    times.append(ends)
    names.append([PINGER] * len(ends))
    delivered.append(np.full(len(ends), np.nan))
    rtt.append(took)
    t_ns = np.concatenate(times)
    order = np.argsort(t_ns, kind="stable")
    flows = np.concatenate([np.array(part, dtype=object) for part in names])
    return base.rows(
        "tcp",
        t_ns=t_ns[order],
        flow=list(flows[order]),
        delivered_bytes=np.concatenate(delivered)[order],
        rtt_ns=np.concatenate(rtt)[order],
    )


def _samples(scenario: LoadScenario, idle: list[list[Any]]) -> Any:
    """Every kind of probe, and how much longer either way took than when idle, at their ends."""
    pings: list[list[Any]] = [*scenario["pings"]]
    kinds: dict[str, list[list[Any]]] = {
        "probe-rtt": pings,
        "connect": [*scenario["connects"]],
        "in-band": [*scenario["in_band"]],
    }
    times, words, values = [], [], []
    for kind, place in (("one-way-up", 2), ("one-way-down", 3)):
        # Changes against the shortest idle round trip: clocks differ by a constant, which cancels out.
        known = [ping for ping in idle if ping[place] is not None]
        before = min(known, key=lambda ping: ping[1])[place] if known else None
        told = [ping for ping in pings if before is not None and ping[place] is not None]
        times.append(np.array([ping[0] + ping[1] for ping in told], dtype=np.int64))
        words += [kind] * len(told)
        values.append(np.array([ping[place] - before for ping in told], dtype=np.float64))
    for kind, probes in kinds.items():
        ends, took = _ended(probes)
        times.append(ends)
        words += [kind] * len(ends)
        values.append(took)
    t_ns = np.concatenate(times)
    order = np.argsort(t_ns, kind="stable")
    return base.rows(
        "samples",
        t_ns=t_ns[order],
        flow=[PINGER] * len(t_ns),
        kind=[words[row] for row in order],
        value=np.concatenate(values)[order],
    )


def _ended(probes: list[list[Any]]) -> tuple[Column, Column]:
    """Times at which probes ended and how long they took, in ns."""
    began = np.array([probe[0] for probe in probes], dtype=np.int64)
    took = np.array([probe[1] for probe in probes], dtype=np.int64)
    return began + took, took.astype(np.float64)
