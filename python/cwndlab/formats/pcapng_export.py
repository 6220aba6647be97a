"""Captures of a run as one pcapng file: an interface a point, comments where there is something to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from cwndlab import _native
from cwndlab.contract.scenario import Link
from cwndlab.errors import InputError
from cwndlab.results import software
from cwndlab.results.resultset import ResultSet

_FIRST_PORT = 10_000
"""Port of the first flow's opening side, as `crates/sim/src/capture.rs` gives them."""


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write the captures of one run into one file; none where there are none."""
    captures = results.captures(run)
    if not captures:
        return
    record = results.record(run)
    hosts = {str(host["name"]) for host in record.scenario["hosts"]}
    named = [(file.name.partition("-")[2].partition(".pcap")[0], file) for file in captures]
    # A packet leaves its host and enters a link at one time: the host is first.
    points = sorted(named, key=lambda point: (point[0] not in hosts, point[0]))
    target = out / f"{re.sub(r'[^A-Za-z0-9-]', '_', run)}.pcapng"
    made = [(name, str(file)) for name, file in points]
    try:
        _native.annotate(made, _fates(results, run), f"cwndlab {software.release()}", str(target))
    except ValueError as error:
        raise InputError(f"{results.path}: captures of run {run}: {error}") from None
    yield target


def _fates(results: ResultSet, run: str) -> list[tuple[int, str, int, int, bool, str]]:
    """Drops and marks of data: time, place, the flow's port, offset of the first byte, whether marked, why.

    Background traffic has a port for each transfer, and events of all of them.
    """
    scenario = results.record(run).scenario
    ports = {
        str(flow["name"]): _FIRST_PORT + number
        for number, flow in enumerate(scenario["flows"])
        if flow["app"]["kind"] != "background"
    }
    links = {str(link["name"]): link for link in scenario["links"]} if not scenario["schedule"] else {}
    causes = {
        (name, kind): " or ".join(_causes(link, kind))
        for name, link in links.items()
        for kind in ("drop", "mark")
    }
    events = pl.DataFrame(pl.from_arrow(results.rows(run, "events")))
    texts = [pl.col(name).cast(pl.String) for name in ("hop", "flow", "kind")]
    lost = events.with_columns(texts).filter(
        pl.col("kind").is_in(["drop", "mark"])
        & pl.col("seq").is_not_null()
        & pl.col("flow").is_in(list(ports))
    )
    return [
        (t_ns, place, ports[flow], seq, kind == "mark", causes.get((place, kind), ""))
        for t_ns, place, flow, seq, kind in lost.select("t_ns", "hop", "flow", "seq", "kind").iter_rows()
    ]


def _causes(link: Link, kind: str) -> Iterator[str]:
    """Parts of a link that may have dropped or marked a packet; events do not say which did."""
    queue = link["queue"]["kind"]
    yield "its queue was full" if queue in ("pfifo", "bfifo") else f"its {queue}"
    if kind == "mark":
        return
    parts: Mapping[str, object] = link
    for key, cause in (("loss", "its loss"), ("corrupt_ppb", "its damage"), ("shaper", "its shaper")):
        if parts[key]:
            yield cause
