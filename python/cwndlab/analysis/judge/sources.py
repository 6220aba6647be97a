"""The rows of one flow, of a file of any known format or of results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pyarrow as pa

from cwndlab import testbeds
from cwndlab.errors import InputError, unknown
from cwndlab.formats import ack_stream, base, directory, packets, qlog
from cwndlab.formats.packets import Passed
from cwndlab.results import sampling
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import tables

USUAL_MSS = 1448
"""Bytes of a packet where nothing says: 1500 less IP, TCP and timestamps."""

SIMULATED = "sim"


@dataclass(frozen=True)
class Source:
    """Rows of a flow."""

    name: str
    flow: str
    tcp: pl.DataFrame
    events: pl.DataFrame
    mss: int | None
    """Bytes of a packet; None where nothing says."""
    simulated: bool
    before: bool
    """Whether a row has what was in flight before its ACK, and not after."""
    others: int
    """Number of further flows, which were not chosen."""
    passed: Passed | None = None
    """Data and acknowledgements in a capture at a simulated sender; None: there is no such capture."""
    sender: str = ""
    """Host that a simulated flow begins at."""


def read(path: Path, flow: str | None, run: str | None) -> Source:
    """Read a flow, by default the one that has most rows, of a run, by default the first.

    Raises InputError for what cannot be read, and for a flow or run that there is not.
    """
    if path.is_dir():
        return _of_results(ResultSet(path), flow, run)
    recordings = {each.label: each for each in base.read(path)}
    if run is not None and run not in recordings:
        raise InputError(unknown("--run", run, recordings))
    found = recordings[run] if run is not None else next(iter(recordings.values()))
    every = found.facts.get(sampling.SAMPLED)
    _at_each_ack(str(path), float(every) if every else None)
    stored = {name: table.read() for name, table in found.tables.items()}
    size = found.facts.get(qlog.DATAGRAM)
    return _chosen(stored, flow, str(path), int(size) if size else None, found.format)


def _of_results(results: ResultSet, flow: str | None, run: str | None) -> Source:
    runs = [str(each) for each in results.runs["run_id"].to_list()]
    if run is not None and run not in runs:
        raise InputError(unknown("--run", run, runs))
    chosen = run if run is not None else runs[0]
    record = results.record(chosen)
    _at_each_ack(str(results.path), sampling.every_ms(record))
    if testbeds.facts(record.testbed).takes_real_time:
        raise InputError(
            f"{results.path}: a real kernel tells its window before it has processed each ACK;"
            " judge needs results of testbed sim with record: {tcp: per-ack}"
        )
    stored = {name: results.rows(chosen, name) for name in ("tcp", "events")}
    size = record.facts.get(qlog.DATAGRAM) if record.testbed == directory.TESTBED else None
    where = f"{results.path}, run {chosen}"
    simulated = record.testbed == SIMULATED
    made = SIMULATED if simulated else str(record.facts.get("format", ""))
    found = _chosen(stored, flow, where, int(size) if size else None, made)
    if not simulated:
        return found
    begins = next(each["from"] for each in record.scenario["flows"] if each["name"] == found.flow)
    return replace(found, passed=packets.at_sender(results, chosen, found.flow), sender=begins)


def _at_each_ack(where: str, every_ms: float | None) -> None:
    if every_ms is not None:
        raise InputError(
            f"{where}: rows every {every_ms:g} ms do not tell what the window did at each ACK;"
            " judge needs results with record: {tcp: per-ack}"
        )


def _chosen(
    stored: Mapping[str, pa.Table], flow: str | None, where: str, mss: int | None, made: str
) -> Source:
    tcp, events = (_frame(stored.get(name), name) for name in ("tcp", "events"))
    rows = tcp.filter(pl.col("cwnd_bytes").is_not_null())
    counted = (
        rows.group_by("flow", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    )
    flows = [str(name) for name in counted["flow"].to_list()]
    if not flows:
        raise InputError(f"{where}: no flow has a congestion window: there is nothing to judge")
    if flow is not None and flow not in flows:
        raise InputError(unknown("--flow", flow, flows))
    name = flows[0] if flow is None else flow
    of_flow = pl.col("flow") == name
    others = 0 if flow is not None else len(flows) - 1
    return Source(
        f"{where}, {name}",
        name,
        tcp.filter(of_flow),
        events.filter(of_flow),
        mss,
        simulated=made == SIMULATED,
        before=made == ack_stream.NAME,
        others=others,
    )


def _frame(table: pa.Table | None, name: str) -> pl.DataFrame:
    frame = pl.from_arrow(tables.SCHEMAS[name].empty_table() if table is None else table)
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a table of Arrow makes a frame")
    return frame.with_columns(pl.col("flow").cast(pl.String))
