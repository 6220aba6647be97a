"""The packets of a run as a source about its flows: data sent again, duplicate ACKs, SACK blocks.

An imported capture has it in its events. A run that recorded captures of its own has it in those: flow n
sends from port 10000 + n on every testbed, and the times count from the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import InputError
from cwndlab.experiment.scenario.queries import CLIENT_PORT
from cwndlab.results.resultset import ResultSet

KINDS = ("retransmission", "duplicate-ack", "sack", "duplicate-sack")
"""Kinds of events that packets tell; `seq` and `value` are the first byte and the number of bytes; of a
duplicate ACK `seq` is what it acknowledges."""


@dataclass(frozen=True)
class Passed:
    """Data and acknowledgements of a flow as a capture at the sender has them, each in order of time."""

    sent: pl.DataFrame
    """t_ns, and `sent`, the end of what was sent until then in bytes."""
    acked: pl.DataFrame
    """t_ns, and `acked`, the end of what was acknowledged until then in bytes."""


_SCHEMA = {"t_s": pl.Float64, "flow": pl.String, "kind": pl.String, "seq": pl.Float64, "value": pl.Float64}


def marks(results: ResultSet, run_id: object) -> pl.DataFrame:
    """Events of `KINDS` of all flows of a run, in order of time: t_s, flow, kind, seq and value in bytes.

    Empty where neither events nor captures tell. Raises InputError for a capture that cannot be read.
    """
    events = results.series(run_id, table="events")
    if events.height:
        told = events.with_columns(pl.col("flow", "kind").cast(pl.String)).filter(
            pl.col("kind").is_in(KINDS), pl.col("seq").is_not_null()
        )
        if told.height:
            return told.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
    captures = results.captures(run_id)
    if not captures:
        return pl.DataFrame(schema=_SCHEMA)
    # Of links, each capture has one direction.
    found = list(_of_captures(captures, results.record(run_id).scenario))
    return (pl.concat(found) if found else pl.DataFrame(schema=_SCHEMA)).sort("t_s", maintain_order=True)


def rows(times: Any, batch: pa.RecordBatch) -> Iterator[tuple[str, Any, Any, Any]]:
    """The blocks of `Capture.sacks` as (kind, t_ns, seq, bytes), kind by kind."""
    again = batch.column("duplicate").to_numpy() > 0
    for kind, chosen in (("sack", ~again), ("duplicate-sack", again)):
        yield (
            kind,
            times[chosen],
            batch.column("offset").to_numpy().astype(np.float64)[chosen],
            batch.column("bytes").to_numpy().astype(np.float64)[chosen],
        )


def _of_captures(captures: Sequence[Path], scenario: Scenario) -> Iterator[pl.DataFrame]:
    starts = {link["name"]: link["from"] for link in scenario["links"]}
    ends = {link["name"]: link["to"] for link in scenario["links"]}
    opened = {_point(path): _opened(path) for path in captures}
    for number, flow in enumerate(scenario["flows"]):
        # At the sender, or at the links next to it; acknowledgements also anywhere else they were seen.
        leaving = [point for point in opened if flow["from"] in (point, starts.get(point))]
        coming = [point for point in opened if flow["from"] in (point, ends.get(point))]
        for point in leaving[:1]:
            yield from _resent(opened[point], flow["name"], CLIENT_PORT + number)
        for point in [*coming, *opened]:
            told = list(_acknowledged(opened[point], flow["name"], CLIENT_PORT + number))
            if told:
                yield from told
                break


def at_sender(results: ResultSet, run_id: object, flow: str) -> Passed | None:
    """Data and acknowledgements of a flow at its sender; None where no capture there has it.

    Raises InputError for a capture that cannot be read.
    """
    flows = results.record(run_id).scenario["flows"]
    [(number, begins)] = [(at, each["from"]) for at, each in enumerate(flows) if each["name"] == flow]
    for path in results.captures(run_id):
        if _point(path) != begins:
            continue
        capture = _opened(path)
        streams = list(_streams(capture, CLIENT_PORT + number))
        if len(streams) == 1:
            data, acks = (
                pl.DataFrame(pa.record_batch(rows))
                for rows in (capture.data(*streams[0]), capture.acks(*streams[0]))
            )
            sent = (pl.col("offset") + pl.col("bytes")).cum_max().alias("sent")
            return Passed(
                data.select(pl.col("t_ns").cast(pl.Int64), sent),
                acks.select(pl.col("t_ns").cast(pl.Int64), pl.col("acked").cum_max()),
            )
    return None


def _point(capture: Path) -> str:
    return unquote(capture.stem.partition("-")[2])


def _opened(path: Path) -> _native.Capture:
    try:
        return _native.Capture(str(path), False)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _streams(capture: _native.Capture, port: int) -> Iterator[tuple[int, bool]]:
    """Connections of a flow, and whether its data go back to the side that opened it."""
    for connection, entry in enumerate(capture.connections()):
        if port in (entry["source_port"], entry["target_port"]):
            yield connection, entry["target_port"] == port


def _resent(capture: _native.Capture, flow: str, port: int) -> Iterator[pl.DataFrame]:
    for connection, backward in _streams(capture, port):
        data = pa.record_batch(capture.data(connection, backward))
        again = data.column("repeated_bytes").to_numpy() > 0
        t_ns, seq, count = (
            data.column(name).to_numpy().astype(np.float64)[again] for name in ("t_ns", "offset", "bytes")
        )
        yield _frame(flow, "retransmission", t_ns, seq, count)


def _acknowledged(capture: _native.Capture, flow: str, port: int) -> Iterator[pl.DataFrame]:
    for connection, backward in _streams(capture, port):
        acks = pa.record_batch(capture.acks(connection, backward))
        again = acks.column("duplicate").to_numpy() > 0
        if again.any():
            t_ns, seq = (acks.column(name).to_numpy().astype(np.float64)[again] for name in ("t_ns", "acked"))
            yield _frame(flow, "duplicate-ack", t_ns, seq, np.full(len(t_ns), np.nan))
        blocks = pa.record_batch(capture.sacks(connection, backward))
        if blocks.num_rows:
            times = blocks.column("t_ns").to_numpy().astype(np.float64)
            for kind, t_ns, seq, count in rows(times, blocks):
                yield _frame(flow, kind, t_ns, seq, count)


def _frame(flow: str, kind: str, t_ns: Any, seq: Any, count: Any) -> pl.DataFrame:
    columns = {"t_s": t_ns / 1e9, "flow": flow, "kind": kind, "seq": seq, "value": count}
    return pl.DataFrame(columns, schema=_SCHEMA).with_columns(pl.col("value").fill_nan(None))
