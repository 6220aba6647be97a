"""The text of `cwndlab check` about a plan: the network, what crosses which queue, what it costs,
the notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cwndlab.contract.scenario import Flow, Link
from cwndlab.execution import estimate
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.plan import Plan, PlannedRun
from cwndlab.experiment.scenario import diagram
from cwndlab.experiment.scenario.queries import app_of, full_ns, is_datagrams, rate_of
from cwndlab.experiment.scenario.routes import Routed, Ways
from cwndlab.experiment.units import format_rate, format_share, format_time
from cwndlab.results import texttable
from cwndlab.results.labels import Labels

MAX_NAMES = 24
"""Characters of names in one cell of a table."""

MAX_ROWS = 20
"""Rows of a table, and groups of flows."""


def as_text(plan: Plan, jobs: int, pause_ns: int | None = None) -> str:
    """The plan as a person looks at it before running it."""
    first, ways = plan.runs[0], Ways()
    run = Routed(first.scenario, catalogue(), ways.of(first.scenario["links"]))
    cells = [run.cell for run in plan.runs]
    keys = texttable.telling(plan.keys, cells)
    short, labels = texttable.short_names(keys), Labels({key: [cell[key] for cell in cells] for key in keys})
    cell = ", ".join(f"{short[key]} {labels.value(key, first.cell[key])}" for key in keys)
    which = f"run 0 of {len(plan.runs)}: {cell}" if cell else "every run"
    title = texttable.wrapped(f"network ({which})", texttable.WIDTH)
    lines = [title, "", *(f"  {line}".rstrip() for line in diagram.draw(first.scenario)), ""]
    lines += [*_indented(_links(run)), *_phases(run), "", "flows (* bottleneck)", *_indented(_flows(run)), ""]
    lines += ["bottlenecks in all cells", *_indented(_bottlenecks(plan, ways)), ""]
    return "\n".join([*lines, *estimate.remarks(plan), *estimate.totals(plan, jobs, pause_ns)])


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of text, without the columns that are empty everywhere."""
    columns = [[head, *(row[at] for row in rows)] for at, head in enumerate(heads)]
    columns = [column for column in columns if any(column[1:])]
    return texttable.lines([texttable.Column(column) for column in columns], texttable.WIDTH - 2)


def _links(run: Routed) -> list[str]:
    """The links, those that are alike in one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for link in run.scenario["links"]:
        alike.setdefault(tuple(_about(link)), []).append(link["name"])
    rows = [[_some(names), *about] for about, names in list(alike.items())[:MAX_ROWS]]
    return _table(["link", "rate", "delay", "queue", "when full", "besides"], rows)


def _phases(run: Routed) -> Iterator[str]:
    """Say how far the phases of hosts are spread, from the least to the most, if they are."""
    spreads = run.scenario.get("phase_jitter_ns", {}).values()
    if spreads:
        bounds = dict.fromkeys(map(format_time, (min(spreads), max(spreads))))
        yield f"  in each run all packets of a host are later by a draw below {' to '.join(bounds)}"


def _about(link: Link) -> Iterator[str]:
    rate = rate_of(link)
    yield format_rate(rate) if rate is not None else "no limit"
    yield format_time(link["delay_ns"])
    yield _queue(link)
    yield _full(link)
    loss = link["loss"]
    besides = [f"loss {loss['kind']}" if loss is not None else ""]
    if loss is not None and loss["kind"] == "random":
        besides = [f"loss {format_share(loss['probability_ppb'])}"]
    besides += ["jitter"] if link["jitter"] else []
    besides += [link["shaper"]["kind"]] if link["shaper"] else []
    yield ", ".join(filter(None, besides))


def _queue(link: Link) -> str:
    queue: Mapping[str, Any] = link["queue"]
    if queue.get("limit_packets") is not None:
        return f"{queue['kind']} {queue['limit_packets']}p"
    size = queue.get("limit_bytes") or queue.get("memlimit_bytes")
    return f"{queue['kind']} {estimate.size(size)}" if size else str(queue["kind"])


def _full(link: Link) -> str:
    full = full_ns(link)
    return f"{_ms(full)} ms" if full is not None else ""


def _ms(ns: float) -> str:
    return _number(ns / 1e6)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _flows(run: Routed) -> list[str]:
    """List who sends to whom and over which queues, flows of one way and application together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for flow in run.flows:
        alike.setdefault(tuple(_way(run, flow)), []).append(flow["name"])
    lines: list[str] = []
    for (what, *ways), names in list(alike.items())[:MAX_ROWS]:
        lines += [f"{_some(names)}: {what}", *(f"  {way}" for way in ways)]
    more = len(alike) - MAX_ROWS
    return [*lines, f"and {more} more kinds of flows"] if more > 0 else lines


def _way(run: Routed, flow: Flow) -> Iterator[str]:
    app = str(app_of(flow).get("kind") or "another program's")
    words = app if is_datagrams(flow) else f"{app} with {flow['cc']}"
    rtt = run.base_rtt_ns(flow)
    yield f"{flow['from']} -> {flow['to']}, {words}, base RTT {format_time(rtt)}{_bdp_words(run, flow)}"
    yield f"data: {_queues(run.forward(flow))}"
    if not is_datagrams(flow):
        yield f"ACKs: {_queues(run.back(flow))}"


def _queues(links: Sequence[Link]) -> str:
    """The links of a way whose queues a packet can meet: those with a rate; the bottlenecks are marked."""
    names = [
        f"{link['name']}*" if link["bottleneck"] else link["name"]
        for link in links
        if rate_of(link) is not None or link["shaper"]
    ]
    return " > ".join(names) or "no queue, as no link has a rate"


def _bdp_words(run: Routed, flow: Flow) -> str:
    rates = [rate for link in run.forward(flow) if (rate := rate_of(link)) is not None]
    size = min(rates, default=0) * run.base_rtt_ns(flow) / 8e9
    if not size:
        return ""
    packet = max(link["mtu"] + link["overhead"] for link in run.forward(flow))
    return f", BDP {estimate.size(size)} = {_number(size / packet)} packets"


def _bottlenecks(plan: Plan, ways: Ways) -> list[str]:
    """Rate, base RTT, BDP and buffer of every bottleneck in every cell, each combination once."""
    cells: dict[tuple[str, ...], int] = {}
    for planned in plan.runs[:: plan.repeat]:
        for row in _of_cell(planned, ways):
            cells[row] = cells.get(row, 0) + 1
    heads = ["link", "rate", "base RTT", "BDP, p", "queue", "full, ms", "x BDP", "cells"]
    lines = _table(heads, [[*row, str(count)] for row, count in list(cells.items())[:MAX_ROWS]])
    more = len(cells) - MAX_ROWS
    return [*lines, f"and {more} more combinations"] if more > 0 else lines


def _of_cell(planned: PlannedRun, ways: Ways) -> Iterator[tuple[str, ...]]:
    run = Routed(planned.scenario, catalogue(), ways.of(planned.scenario["links"]))
    for name, flows in run.crossing.items():
        link = run.links[name]
        rate, full = rate_of(link), full_ns(link)
        if not link["bottleneck"] or rate is None:
            continue
        rtt = max(map(run.base_rtt_ns, flows))
        packets = rate * rtt / 8e9 / (link["mtu"] + link["overhead"])
        times = _number(full / rtt) if full is not None and rtt else ""
        shown = _ms(full) if full is not None else ""
        yield name, format_rate(rate), format_time(rtt), _number(packets), _queue(link), shown, times


def _some(names: Sequence[str]) -> str:
    if len(names) == 2 and names[1] == f"{names[0]}.reverse":
        return f"{names[0]}, both ways"
    if len(", ".join(names)) <= MAX_NAMES:
        return ", ".join(names)
    return f"{names[0]} and {len(names) - 1} more"
