"""Results held in memory with the methods of a ResultSet, for tests that need exact input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from cwndlab.results import briefs, columns, metrics
from cwndlab.results.briefs import Brief
from cwndlab.results.catalogue import Header
from cwndlab.results.labels import Labels
from cwndlab.results.parts import RunRecord


@dataclass
class MemoryResults:
    """Answers `summary`, `arrow` and `series` of frames it was given, which carry `run_id`."""

    summary: pl.DataFrame
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    header: Header = field(
        default_factory=lambda: Header("newreno-versus-cubic", "sim", [], {"cwndlab": "0.2.0"})
    )
    path: Path = Path("results/latest")
    experiment: str = "experiment: newreno-versus-cubic\n"
    lines: Sequence[RunRecord] | None = None

    @property
    def arrow(self) -> pa.Table:
        """The summary with every metric; those that it lacks are missing in each row, as a catalogue's."""
        table = self.summary.to_arrow()
        for name in metrics.NAMES:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        return table

    @property
    def runs(self) -> pl.DataFrame:
        return self.summary.unique("run_id", keep="first", maintain_order=True)

    @property
    def keys(self) -> list[str]:
        return columns.swept_keys(self.summary)

    def values_of(self, key: str) -> list[object]:
        return self.summary[key].unique(maintain_order=True).to_list()

    @property
    def labels(self) -> Labels:
        return Labels({key: self.values_of(key) for key in self.keys})

    @property
    def labelled(self) -> pl.DataFrame:
        return self.labels.shown(self.summary)

    def record(self, run_id: object) -> RunRecord:
        return list(self.records())[int(str(run_id))]

    def records(self) -> Iterator[RunRecord]:
        yield from self.lines if self.lines is not None else map(record, range(self.runs.height))

    @property
    def briefs(self) -> list[Brief]:
        return briefs.of_records(self.records())

    def captures(self, run_id: object) -> list[Path]:
        assert run_id in self.runs["run_id"]
        return []

    def series(self, run_id: object, flow: str | None = None, table: str = "tcp") -> pl.DataFrame:
        frame = self.tables.get(table)
        if frame is None:
            return pl.DataFrame()
        frame = frame.filter(pl.col("run_id") == run_id)
        return frame if flow is None else frame.filter(pl.col("flow") == flow)


def summary_row(
    run_id: int, flow: str = "f1", keys: Mapping[str, object] | None = None, **figures: object
) -> dict[str, object]:
    """One row of a summary: the swept keys stand between `testbed` and `stack`, as in the design."""
    row: dict[str, object] = {"run_id": run_id, "repeat": 0, "flow": flow, "testbed": "sim", **(keys or {})}
    row |= {
        "stack": "freebsd-13",
        "cc": "cubic",
        "app": "bulk",
        "goodput_mbps": 9.0,
        "rtt_mean_ms": 41.0,
        "limited_cwnd_pct": 97.0,
        "limited_rwnd_pct": 0.0,
        "limited_sndbuf_pct": 3.0,
        "limited_app_pct": 0.0,
        "load_scenario": None,
        "status": "complete",
    }
    return row | figures


def sawtooth(
    run_id: int,
    flow: str = "f1",
    *,
    epoch_s: float = 4.0,
    peak: float = 100_000.0,
    rate_mbps: float = 9.0,
    seconds: float = 20.0,
) -> pl.DataFrame:
    """A tcp table: cwnd climbs from half its peak to it every `epoch_s`; the counter grows at `rate_mbps`."""
    t_s = np.arange(0, seconds, 0.01)
    phase = (t_s % epoch_s) / epoch_s
    cwnd = peak * (0.5 + 0.5 * phase)
    return pl.DataFrame(
        {
            "run_id": np.full(len(t_s), run_id),
            "t_s": t_s,
            "flow": [flow] * len(t_s),
            "cwnd_bytes": cwnd.astype(np.int64),
            "ssthresh_bytes": pl.Series(
                [None if t < epoch_s else int(peak / 2) for t in t_s], dtype=pl.Int64
            ),
            "srtt_ms": 40 + 10 * phase,
            "rtt_ms": 40 + 11 * phase,
            "inflight_bytes": cwnd.astype(np.int64),
            "delivered_bytes": (t_s * rate_mbps * 125_000).astype(np.int64),
            "arrived_bytes": (t_s * rate_mbps * 125_000 * 1514 / 1448).astype(np.int64),
            "retransmits": (t_s // epoch_s).astype(np.int64),
        }
    )


def queue(
    run_id: int, hop: str = "bottleneck", *, epoch_s: float = 4.0, seconds: float = 20.0
) -> pl.DataFrame:
    """A queue table: the queue fills over each epoch."""
    t_s = np.arange(0, seconds, 0.01)
    packets = (50 * (t_s % epoch_s) / epoch_s).astype(np.int64)
    return pl.DataFrame(
        {
            "run_id": np.full(len(t_s), run_id),
            "t_s": t_s,
            "hop": [hop] * len(t_s),
            "backlog_bytes": packets * 1514,
            "backlog_packets": packets,
            "drops": (t_s // epoch_s).astype(np.int64),
            "ce_marks": np.zeros(len(t_s), dtype=np.int64),
        }
    )


def sweep(
    ccs: Sequence[str] = ("newreno", "cubic"),
    delays: Sequence[str] = ("0ms", "20ms", "100ms"),
    repeats: int = 3,
) -> MemoryResults:
    """A sweep over congestion control and delay with repeats; goodput falls with delay, less so for cubic."""
    rows, tcp, queues, happened = [], [], [], []
    random = np.random.default_rng(1)
    for number, (cc, delay, repeat) in enumerate(
        (c, d, r) for c in ccs for d in delays for r in range(repeats)
    ):
        ms = float(delay.removesuffix("ms"))
        goodput = 9.5 - ms * (0.03 if cc == "newreno" else 0.015) + random.normal(0, 0.15)
        keys = {"hosts.a.cc": cc, "network.dumbbell.bottleneck.delay": delay}
        rows.append(
            summary_row(
                number,
                keys=keys,
                repeat=repeat,
                cc=cc,
                goodput_mbps=goodput,
                rtt_mean_ms=2 * ms + 10 + random.normal(0, 2),
            )
        )
        tcp.append(sawtooth(number, epoch_s=2 + ms / 20, rate_mbps=goodput))
        queues.append(queue(number, epoch_s=2 + ms / 20))
        happened.append(events(number, epoch_s=2 + ms / 20))
    tables = {"tcp": pl.concat(tcp), "queue": pl.concat(queues), "events": pl.concat(happened)}
    return MemoryResults(pl.DataFrame(rows), tables)


def scenario(rate_bps: int = 10_000_000, seconds: int = 20) -> dict[str, object]:
    """A Scenario as the engine takes it: one flow over a dumbbell."""
    link = {
        "name": "bottleneck",
        "from": "left",
        "to": "right",
        "rate_bps": rate_bps,
        "delay_ns": 20_000_000,
        "queue": {"kind": "pfifo", "limit": 90},
        "loss": None,
        "duplicate_ppb": 0,
        "corrupt_ppb": 0,
        "mtu": 1500,
        "overhead": 14,
        "observe": True,
        "bottleneck": True,
    }
    host = {"stack": "freebsd-13", "hz": 1000, "mss": 1460, "ecn": "accept", "sysctl": {}, "ack_every": None}
    nic = {"tx_queue": 1000, "tso": False, "gro": False, "lro": False}
    flow = {
        "name": "f1",
        "from": "a",
        "to": "b",
        "app": {"kind": "bulk", "bytes": None, "write_bytes": 131072},
    }
    return {
        "version": 1,
        "experiment": "newreno-versus-cubic",
        "seed": 7,
        "repeat": 0,
        "duration_ns": seconds * 10**9,
        "start_jitter_ns": 40_000_000,
        "measure": {"from_ns": 0, "to_ns": seconds * 10**9},
        "record": {"tcp": {"kind": "per-ack"}, "queue": {"kind": "per-ack"}, "pcap": []},
        "hosts": [{"name": "a", **host, "nic": nic}, {"name": "b", **host, "nic": nic}],
        "nodes": [{"name": "left"}, {"name": "right"}],
        "links": [link, {**link, "name": "reverse", "from": "right", "to": "left", "bottleneck": False}],
        "flows": [{**flow, "start_ns": 0, "stop_ns": None, "cc": "cubic", "sndbuf": 600_000, "rcvbuf": None}],
        "schedule": [],
    }


def incast(answers: int = 3, rounds: int = 8) -> MemoryResults:
    """An incast whose flows answer one after the other, 1000 bytes each; in round k all take k ms longer.

    The last answer of round 2 lost a packet and waited for a timeout.
    """
    flows = [f"f.{number + 1}" for number in range(answers)]
    tcp, samples, happened = [], [], []
    for turn in range(rounds):
        begins = 1.0 * turn
        for number, flow in enumerate(flows):
            took = 0.001 * (turn + 1 + number) + (0.2 if (turn, number) == (1, answers - 1) else 0.0)
            tcp.append((0, begins + took / 2, flow, 1000 * turn + 400))
            tcp.append((0, begins + took, flow, 1000 * (turn + 1)))
            samples.append((0, begins + took, flow, "response", round(took * 1e9)))
        samples.append((0, begins + took, flow, "round", round(took * 1e9)))
    for kind, at in (("drop", 1.001), ("rto", 1.2)):
        happened.append((0, at, flows[-1], None, kind, None, None))
    told = {
        "tcp": pl.DataFrame(tcp, schema=["run_id", "t_s", "flow", "delivered_bytes"], orient="row"),
        "samples": pl.DataFrame(samples, schema=["run_id", "t_s", "flow", "kind", "value"], orient="row"),
        "events": pl.DataFrame(
            happened, schema=["run_id", "t_s", "flow", "hop", "kind", "seq", "value"], orient="row"
        ),
    }
    told["tcp"] = told["tcp"].sort("t_s")
    told["samples"] = told["samples"].sort("t_s", maintain_order=True)
    asked = scenario()
    app = {"kind": "incast", "size_bytes": 1000, "request_bytes": 100, "group": "f"}
    (first,) = asked["flows"]  # type: ignore[misc]  # a Scenario made by hand has no types
    asked["flows"] = [{**first, "name": flow, "from": "left", "to": "right", "app": app} for flow in flows]
    rows = [summary_row(0, flow, app="incast") for flow in flows]
    return MemoryResults(pl.DataFrame(rows), told, lines=[record(0, scenario=asked)])


def settling(first: int = 20, seconds: int = 100, runs: int = 1) -> MemoryResults:
    """Runs that deliver 1 Mbit/s more in each of the first seconds, then always the same; f2 half of f1."""
    rates = [min(number + 1, first) for number in range(seconds)]
    told = [
        {"flow": flow, "goodput_seconds": {"from_ns": 0, "bytes": [rate * share for rate in rates]}}
        for flow, share in (("f1", 83_334), ("f2", 41_666))
    ]
    asked = scenario(seconds=seconds)
    lines = [record(run, scenario=asked, summary={"flows": told}) for run in range(runs)]
    rows = [summary_row(run, flow, repeat=run) for run in range(runs) for flow in ("f1", "f2")]
    return MemoryResults(pl.DataFrame(rows), lines=lines)


def record(run_id: int, **values: object) -> RunRecord:
    """A line of runs.jsonl."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "repeat": 0,
        "cell": {},
        "scenario_hash": "0" * 64,
        "status": "complete",
        "error": None,
        "warnings": [],
        "notes": [],
        "testbed": "sim",
        "versions": {"cwndlab": "0.2.0", "engine": "0.2.0 (release)"},
        "machine": {"system": "Linux 6.12", "cpu": "x86_64"},
        "facts": {},
        "started": "2026-11-21T11:00:00Z",
        "wall_s": 0.25,
        "tables": {},
        "captures": [],
        "summary": None,
        "scenario": scenario(),
    }
    return RunRecord(**(fields | values))


def events(run_id: int, flow: str = "f1", *, epoch_s: float = 4.0, seconds: float = 20.0) -> pl.DataFrame:
    """An events table: a drop and a recovery at the end of every epoch."""
    ends = np.arange(epoch_s, seconds, epoch_s)
    rows = [
        {
            "run_id": run_id,
            "t_s": end + late,
            "flow": flow,
            "hop": None,
            "kind": kind,
            "seq": seq,
            "value": None,
        }
        for end in ends
        for late, kind, seq in (
            (0.0, "drop", int(end * 1e6)),
            (0.05, "recovery-in", None),
            (0.2, "recovery-out", None),
        )
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
