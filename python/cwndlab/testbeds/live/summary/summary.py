"""The summary of a run on live hosts, from TCP_INFO, the path's counters and what the applications
saw.

It has the fields of the simulator's (docs/architecture.md), over the same window. What nobody here can know
is None, and stays empty in every table.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from cwndlab.contract.scenario import Flow, Scenario
from cwndlab.contract.summary import (
    FlowSummary,
    GoodputSeconds,
    Limited,
    Load,
    LoadScenario,
    LoadTransfer,
    SocketBuffer,
    Status,
    Summary,
    Times,
)
from cwndlab.experiment.scenario.queries import app_of, ip_header, is_datagrams
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.summary import limits
from cwndlab.testbeds.tables import SCHEMAS

TCP_HEADER = 32
"""Bytes of a TCP header with a timestamp option (RFC 7323)."""
SECOND = 10**9

GONE_INTERVALS = 5
"""Intervals without a row after which a connection is taken to be closed."""

LIMITED = ("bytes", "requests", "rounds", "size_bytes")
"""Parameters that make an app end by itself."""


@dataclass(frozen=True)
class LoadSession:
    """Report of the loadlatency tool about a scenario."""

    document: Mapping[str, Any] | None
    """JSON document of the tool (docs/loadlatency.md). None where it saw nothing."""
    error: str | None
    """Reason why the tool did not see all. None where it did."""

    @property
    def scenario(self) -> LoadScenario | None:
        """The scenario as it observed it, with the idle round trips."""
        if self.document is None or not self.document["observed"]["scenarios"]:
            return None
        scenario: LoadScenario = self.document["observed"]["scenarios"][0].copy()
        scenario["idle_pings"] = scenario.get("idle_pings") or self.document["observed"]["idle_pings"]
        return scenario

    def transfer(self, name: str) -> LoadTransfer | None:
        """Find a flow of data by the tool's name of it."""
        transfers = self.scenario["transfers"] if self.scenario else []
        return next((transfer for transfer in transfers if transfer["name"] == name), None)

    def round_trips(self, zero_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the time of each answer, in ns since CLOCK_MONOTONIC was `zero_ns`, and the round trip."""
        if self.document is None or self.scenario is None:
            return
        began = int(self.document["conditions"]["facts"]["began_monotonic_ns"]) - zero_ns
        before = [(began, ping) for ping in self.document["observed"]["idle_pings"]]
        during = [(began + self.scenario["start_ns"], ping) for ping in self.scenario["pings"]]
        for since, (sent, took, _, _, answered) in [*before, *during]:
            if answered:
                yield since + sent + took, took


@dataclass
class Observed:
    """Observations of a run."""

    scenario: LiveScenario
    senders: pl.DataFrame
    """Rows of the senders' TCP_INFO."""
    receivers: pl.DataFrame
    carried: PathReport
    reports: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Reports of cwndlab's own applications, by flow and role."""
    starts: dict[str, int] = field(default_factory=dict)
    """Time at which each flow was to open, in ns of the run."""
    zero_ns: int = 0
    """CLOCK_MONOTONIC at the start of the run."""
    sessions: dict[str, LoadSession] = field(default_factory=dict)
    """Reports of the loadlatency tool, by the flow of its pinger."""
    clock_errors_ns: Mapping[str, int] = field(default_factory=dict)
    """Uncertainty of the stamps of each host's clock, in ns, by host; empty where one clock is
    everybody's.
    """


def summary(observed: Observed) -> Summary:
    """The summary of a run."""
    return {
        "flows": [_Flow(observed, flow).metrics() for flow in observed.scenario["flows"]],
        "links": observed.carried.links,
        "events": None,
        "packets": sum(link["packets"] for link in observed.carried.links),
    }


def sample_rows(observed: Observed, run_id: int) -> pa.RecordBatch:
    """The `samples` table: what applications saw, and the payload read in each second."""
    rows = sorted(
        (row for flow in observed.scenario["flows"] for row in _Flow(observed, flow).samples()),
        key=lambda row: row[0],
    )
    return _batch("samples", run_id, ([row[place] for row in rows] for place in range(4)))


def event_rows(observed: Observed, run_id: int) -> pa.RecordBatch:
    """The `events` of connections and applications; TCP_INFO tells the former, as exactly as its interval."""
    rows = sorted(
        (row for flow in observed.scenario["flows"] for row in _Flow(observed, flow).events()),
        key=lambda row: row[0],
    )
    return _batch("events", run_id, ([row[place] for row in rows] for place in range(6)))


def opening_skew_ns(observed: Observed) -> dict[str, int]:
    """Delay of each flow's opening against the plan, in ns; for a tool's flow, that of its first data, less a
    round trip.
    """
    skews = {}
    for flow in observed.scenario["flows"]:
        opened = _Flow(observed, flow).opened_ns()
        if opened is not None:
            skews[flow["name"]] = opened - observed.starts[flow["name"]]
    return skews


def headers(scenario: Scenario, flow: Flow) -> int:
    """Bytes that a data packet of a flow has besides its payload, with the bottleneck's overhead."""
    overheads: list[int] = [link["overhead"] for link in scenario["links"] if link["bottleneck"]]
    return ip_header(scenario, flow) + TCP_HEADER + max(overheads, default=0)


class _Flow:
    """One flow of a run."""

    def __init__(self, observed: Observed, flow: Flow) -> None:
        self._observed, self._flow, self._name = observed, flow, str(flow["name"])
        scenario = observed.scenario
        self._from: int = scenario["measure"]["from_ns"]
        self._to: int = scenario["measure"]["to_ns"]
        self._end: int = scenario["duration_ns"]
        self._sent = _of(observed.senders, self._name)
        self._received = _of(observed.receivers, self._name)
        self._own: Mapping[str, Any] = observed.reports.get((self._name, "from"), {})
        self._read: Mapping[str, Any] = observed.reports.get((self._name, "to"), {})
        self._is_stream = is_datagrams(flow)
        self._guest: Mapping[str, Any] | None = self._own.get("guest")
        app = app_of(flow)
        self._part: str | None = app.get("part")
        self._session = observed.sessions.get(app.get("group", ""))
        self._bytes: int | None = app.get("bytes")

    def metrics(self) -> FlowSummary:
        sender, known = self._sent, self._observed.carried.flows.get(self._name, {})
        completion, samples = (
            self._completion_ns(),
            [row for row in self.samples() if self._from <= row[0] < self._to],
        )

        def distribution(kind: str) -> Times:
            return _distribution([row[3] for row in samples if row[2] == kind])

        stalls = [row[3] for row in samples if row[2] == "stall"]
        entries = [
            at for at, kind in self.transitions() if kind == "recovery-in" and self._from <= at < self._to
        ]
        rtos = [at for at, kind in self.transitions() if kind == "rto" and self._from <= at < self._to]
        own = self._is_stream
        metrics: FlowSummary = {
            "flow": self._name,
            "status": self._status(),
            "goodput_bytes": self._goodput_bytes(),
            "unacknowledged_bytes": self._unacknowledged(),
            "wire_bytes": known.get("wire_bytes", self._wire_bytes()),
            "segments_sent": self._own.get("sent_in_window") if own else self._segments(),
            "retransmits": 0 if own else self._retransmits(),
            "drops": self._missing() if self._counts_own_drops() else known.get("drops"),
            "ce_marks": known.get("ce_marks"),
            "rtos": 0 if own else None if self._guest else len(rtos),
            "fast_recoveries": 0 if own else len(entries),
            "recovery_entries_ns": [] if own else entries,
            "rtt": distribution("probe-rtt")
            if own
            else known.get("rtt") or _distribution(_values(self._in_window(sender), "srtt_ns")),
            "queue_delay": known.get("queue_delay", {"count": 0}),
            "cwnd_mean_bytes": _rounded_mean(_values(self._in_window(sender), "cwnd_bytes")),
            "cwnd_max_bytes": max(_values(self._in_window(sender), "cwnd_bytes"), default=None),
            "srtt_mean_ns": _rounded_mean(_values(self._in_window(sender), "srtt_ns")),
            "limited_ns": self._limited_ns(),
            "send_buffer": self._buffer(sender, "send_buffer_bytes"),
            "receive_buffer": self._buffer(self._received, "receive_buffer_bytes"),
            "completion": self._completions(completion, samples),
            "response": distribution("response"),
            "round": distribution("round"),
            "one_way": distribution("one-way-delay"),
            "stalls": len(stalls),
            "stalled_ns": sum(stalls),
            "active_ns": self._active_ns(),
            "completion_ns": completion,
            "start_ns": self.opened_ns(),
            "slow_start_exit_ns": self._slow_start_exit_ns(),
            "goodput_seconds": self._goodput_seconds(),
        }
        errors = self._observed.clock_errors_ns
        if metrics["one_way"]["count"] and errors:
            metrics["one_way_error_ns"] = errors[self._flow["from"]] + errors[self._flow["to"]]
        load = self._load()
        return metrics if load is None else {**metrics, "load": load}

    def _load(self) -> Load | None:
        """Metrics of a loadlatency scenario by the tool, in the simulator's form."""
        if self._session is None or self._session.document is None or self._session.scenario is None:
            return None
        if self._part == "pinger":
            found = self._session.document["metrics"][0]
            if found["one_way"] and not self._observed.clock_errors_ns:
                # The tool takes its ends for two machines; here one clock is everybody's.
                ways = {way: change for way, change in found["one_way"].items() if way != "off_ms"}
                found = {**found, "one_way": ways}
            return {"observed": self._session.scenario, "metrics": found}
        transfer = self._session.transfer(self._name.rpartition(".")[2])
        if transfer is None:
            return None
        return {"longest_gap_ns": transfer["longest_gap_ns"], "killed": transfer["killed"]}

    def _goodput_seconds(self) -> GoodputSeconds:
        """Payload read in each whole second, from the first on."""
        seconds = self._seconds()
        return {"from_ns": seconds[0][0] * SECOND if seconds else 0, "bytes": [count for _, count in seconds]}

    def samples(self) -> Iterator[tuple[int, str, str, int]]:
        """Rows of the `samples` table."""
        for report in (self._own, self._read):
            for at, kind, value, _ in report.get("samples", ()):
                if 0 <= at < self._end:
                    yield at, self._name, kind, value
        if self._part == "pinger" and self._session is not None:
            for at, took in self._session.round_trips(self._observed.zero_ns):
                if 0 <= at < self._end:
                    yield at, self._name, "response", took
        for second, count in self._seconds():
            yield (second + 1) * SECOND, self._name, "goodput", count
        completion, opened = self._completion_ns(), self.opened_ns()
        if completion is not None and opened is not None:
            yield opened + completion, self._name, "completion", completion

    def transitions(self) -> Iterator[tuple[int, str]]:
        """Yield the times at which the sender was first seen beyond slow start, in and out of recovery, and
        in the loss state.

        Packets out of order do not end slow start: in disorder, ssthresh tells.

        Where the kernel counted the entries to recovery, or the timeouts, those that follow each other in one
        sample are seen.
        """
        if self._guest is not None:
            yield from ((at, kind) for at, kind, _, _ in self._guest["events"] if at < self._end)
            return
        if not self._sent.height or self._flow["app"]["kind"] == "background":
            return
        state = pl.col("state").cast(pl.String)
        below = (pl.col("cwnd_bytes") < pl.col("ssthresh_bytes")).fill_null(True)
        slow_start = (state == "slow-start") | ((state == "disorder") & below)
        rows = self._sent.select("t_ns", state, "recoveries", "timeouts", slow_start.alias("slow"))
        before, recovering, counted, started = None, False, rows["recoveries"][0], True
        expired = rows["timeouts"][0]
        for at, state, count, timeouts, slow in rows.iter_rows():
            if started and not slow:
                yield at, "slow-start-exit"
                started = False
            entries = int(state == "recovery" and not recovering) if count is None else count - (counted or 0)
            counted = count
            for _ in range(entries):
                if recovering:
                    yield at, "recovery-out"
                yield at, "recovery-in"
                recovering = True
            if recovering and state != "recovery":
                yield at, "recovery-out"
                recovering = False
            entered = int(state == "loss" and before != "loss")
            for _ in range(entered if timeouts is None else timeouts - (expired or 0)):
                yield at, "rto"
            before, expired = state, timeouts

    def _slow_start_exit_ns(self) -> int | None:
        """Time at which the sender left slow start: of a guest, at which its window first shrank."""
        if self._guest is not None:
            return next((at for at, kind in self.transitions() if kind != "recovery-out"), None)
        return next((at for at, kind in self.transitions() if kind == "slow-start-exit"), None)

    def events(self) -> Iterator[tuple[int, str, None, str, int | None, int | None]]:
        """Rows of the `events` table: recovery, timeouts, and what the application finished."""
        if self._guest is not None:
            for at, kind, written, value in self._guest["events"]:
                if at < self._end:
                    yield at, self._name, None, kind, written, value
        else:
            for at, kind in self.transitions():
                yield at, self._name, None, kind, None, None
        for at, kind, value, read in self._read.get("samples", ()):
            if kind in ("response", "completion") and 0 <= at < self._end:
                yield at, self._name, None, "app", read, value
        completion, opened = self._completion_ns(), self.opened_ns()
        if completion is not None and opened is not None:
            read = self._read["read"] if self._read else self._bytes
            yield opened + completion, self._name, None, "app", read, completion

    def opened_ns(self) -> int | None:
        """Time at which the connection was asked for, as nearly as is known. None where nothing tells."""
        if "opened_ns" in self._own and self._own["opened_ns"] is not None:
            return int(self._own["opened_ns"])
        if not self._sent.height:
            return None
        sending = self._sent.filter(pl.col("sent_bytes") > 0)
        first = (sending if sending.height else self._sent).row(0, named=True)
        busy = first["busy_ns"] or 0
        return max(0, int(first["t_ns"]) - busy - int(first["min_rtt_ns"] or 0))

    def _status(self) -> Status:
        """Status of the flow as the simulator says it, and `unreliable` where the path was not the one
        described.
        """
        errors = [report["error"] for report in (self._own, self._read) if report.get("error")]
        if errors or self._is_lost():
            return "failed"
        if self._observed.starts[self._name] >= self._end or self.opened_ns() is None:
            return "not-started"
        if self._observed.carried.unreliable:
            return "unreliable"
        app, stop = self._flow["app"], self._flow["stop_ns"]
        limited = any(app.get(key) is not None for key in LIMITED) and app["kind"] != "background"
        over = self._is_stream or app["kind"] == "background" or self._completion_ns() is not None
        return "complete" if over or (not limited and (stop is None or stop >= self._end)) else "unfinished"

    def _is_lost(self) -> bool:
        """Whether the loadlatency tool did not carry this connection out, or its stack gave it up."""
        if self._part is None:
            return False
        if self._session is None or self._session.error or self._session.scenario is None:
            return True
        transfer = self._session.transfer(self._name.rpartition(".")[2])
        return self._part != "pinger" and (transfer is None or transfer.get("killed") is not None)

    def _goodput_bytes(self) -> int:
        reader = self._reader
        if reader:
            return int(reader["read_in_window"])
        return self._received_by(self._to) - self._received_by(self._from)

    def _received_by(self, at: int) -> int:
        """Number of bytes that a tool's receiver had by then; the last ones may come and go between
        two rows.
        """
        counted = self._total(self._received, "received_bytes", at)
        ended = self._tool_ended_ns()
        wanted = self._bytes
        return counted if wanted is None or ended is None or at < ended else max(counted, int(wanted))

    @property
    def _reader(self) -> Mapping[str, Any]:
        """Report of cwndlab's own end that reads; for an echo, of the end that sent it."""
        return self._own if self._flow["app"]["kind"] == "ping" else self._read

    def _seconds(self) -> list[tuple[int, int]]:
        """Payload read in each whole second of the run since the flow opened."""
        whole, opened = self._end // SECOND, self.opened_ns()
        if opened is None:
            return []
        if self._reader:
            counts = dict(self._reader["seconds"])
            return [(second, counts.get(second, 0)) for second in range(opened // SECOND, whole)]
        marks = [second * SECOND for second in range(whole + 1)]
        totals = [self._received_by(mark) for mark in marks]
        return [(second, totals[second + 1] - totals[second]) for second in range(opened // SECOND, whole)]

    def _completion_ns(self) -> int | None:
        opened = self.opened_ns()
        if self._is_stream or opened is None or self._flow["app"]["kind"] == "background":
            return None
        if self._read:
            ended = self._read["ended_ns"]
            return None if ended is None or ended >= self._end else max(0, ended - opened)
        ended = self._tool_ended_ns()
        return None if ended is None else max(0, ended - opened)

    def _tool_ended_ns(self) -> int | None:
        """Time at which a tool was done or had stopped: the receiver's last row, if the connection
        is gone.
        """
        wanted = self._bytes
        if (wanted is None and self._flow["stop_ns"] is None) or not self._received.height:
            return None
        times = self._received["t_ns"]
        interval = int(times[1] - times[0]) if len(times) > 1 else 0
        if wanted is not None:
            whole = self._received.filter(pl.col("received_bytes") >= wanted)
            if whole.height:
                return int(whole["t_ns"][0])
        gone = int(times[-1]) + GONE_INTERVALS * interval < self._end
        return int(times[-1]) + interval if gone else None

    def _completions(self, own: int | None, samples: list[tuple[int, str, str, int]]) -> Times:
        if self._flow["app"]["kind"] == "background":
            return _distribution([row[3] for row in samples if row[2] == "completion"])
        return _distribution([] if own is None else [own])

    def _active_ns(self) -> int:
        """Time of the window in which the flow was active, in ns, as in the simulator: from the end of the
        handshake to the end, as a connection stays open; of a transfer that is complete, no longer than
        that took.
        """
        asked = self.opened_ns()
        if asked is None:
            return 0
        if self._is_stream or self._flow["app"]["kind"] == "background":
            stop = self._flow["stop_ns"]
            return self._within(asked, self._end if stop is None else stop)
        handshake = next((value for value in _values(self._sent, "min_rtt_ns") if value), 0)
        if self._guest is not None and self._sent.height:
            # The first look is at a connection that has just opened.
            handshake = int(self._sent["t_ns"][0]) - asked
        active, took = self._within(asked + handshake, self._end), self._completion_ns()
        return active if took is None else min(active, self._within(asked, asked + took))

    def _within(self, begin: int, end: int) -> int:
        """Time from `begin` to `end` that is in the window, in ns."""
        return max(0, min(end, self._to) - max(begin, self._from))

    def _limited_ns(self) -> Limited:
        scenario = self._observed.scenario
        header = headers(scenario, self._flow)
        return limits.limited(self._sent, scenario, self._name, self._active_ns(), header)

    def _buffer(self, rows: pl.DataFrame, column: str) -> SocketBuffer | None:
        """A socket's buffer at the end; what holds it the kernel does not tell."""
        known = _values(rows, column)
        return {"bytes": known[-1], "held_by": None} if known else None

    def _segments(self) -> int | None:
        """Data segments sent: bytes by the segment size, as offloads that hide segments are off.

        A pinger's messages are no full segments, and nobody counts them.
        """
        if self._part == "pinger":
            return None
        if self._guest is not None:
            return self._grown(self._sent, "sent_segments")
        sizes = _values(self._sent, "mss_bytes")
        if _unknown(self._sent, "sent_bytes"):
            told = self._own.get("sent_bytes_in_window")
            return None if told is None or not sizes else -(-told // max(sizes)) + self._retransmits()
        return -(-self._grown(self._sent, "sent_bytes") // max(sizes)) if sizes else 0

    def _retransmits(self) -> int:
        """Segments sent again, as the system counts them, or the tool: 0 where neither does."""
        if _unknown(self._sent, "retransmits"):
            return int(self._own.get("retransmits_in_window") or 0)
        return self._grown(self._sent, "retransmits")

    def _wire_bytes(self) -> int | None:
        """Size of the delivered segments at the bottleneck, in bytes, for a path that does not know flows."""
        if self._is_stream or not self._sent.height or _unknown(self._sent, "delivered_bytes"):
            return None
        if self._guest is not None:
            return None
        payload, sizes = self._grown(self._sent, "delivered_bytes"), _values(self._sent, "mss_bytes")
        return payload + -(-payload // max(sizes)) * headers(self._observed.scenario, self._flow)

    def _counts_own_drops(self) -> bool:
        """Whether the ends of a stream know of drops what the path does not: it knows no flows, or a rule
        behind it drops datagrams."""
        if not self._is_stream:
            return False
        (receiver,) = (host for host in self._observed.scenario["hosts"] if host["name"] == self._flow["to"])
        ruled = receiver["ingress"]["after_gro"] is not None and self._flow["app"]["kind"] != "ping"
        return ruled or self._observed.carried.flows.get(self._name, {}).get("drops") is None

    def _missing(self) -> int | None:
        """Datagrams or echoes that did not come: those before one that did, or all where none did. What was
        sent last may still be on its way."""
        if not self._reader or not self._own:
            return None
        return int(self._reader["missing_in_window"] if self._reader["read"] else self._own["sent_in_window"])

    def _unacknowledged(self) -> int | None:
        """Number of bytes in the sending sockets at the window's end: unacknowledged or not yet sent
        (tcp_info(7)).
        """
        if self._is_stream or not self._sent.height or _unknown(self._sent, "sent_bytes"):
            return None
        counters = ("sent_bytes", "notsent_bytes", "retransmitted_bytes", "delivered_bytes")
        sent, unsent, again, acked = (self._total(self._sent, name, self._to) for name in counters)
        return max(0, sent + unsent - again - acked)

    def _grown(self, rows: pl.DataFrame, counter: str) -> int:
        """Growth of a counter of the flow's sockets in the window."""
        return self._total(rows, counter, self._to) - self._total(rows, counter, self._from)

    @staticmethod
    def _total(rows: pl.DataFrame, counter: str, at: int) -> int:
        """A counter's value at a time, summed over sockets; between two rows on the line through them."""
        if not rows.height:
            return 0
        total = 0.0
        for _, socket in rows.group_by("local_port", "remote_port", maintain_order=True):
            times = socket["t_ns"].to_numpy().astype(np.float64)
            values = socket[counter].fill_null(0).to_numpy().astype(np.float64)
            if at >= times[0]:
                total += float(np.interp(at, times, values))
        return round(total)

    def _in_window(self, rows: pl.DataFrame) -> pl.DataFrame:
        return (
            rows.filter((pl.col("t_ns") >= self._from) & (pl.col("t_ns") < self._to)) if rows.height else rows
        )


def _of(rows: pl.DataFrame, flow: str) -> pl.DataFrame:
    return rows.filter(pl.col("flow").cast(pl.String) == flow) if rows.height else rows


def _values(rows: pl.DataFrame, column: str) -> list[int]:
    return rows[column].drop_nulls().to_list() if rows.height else []


def _unknown(rows: pl.DataFrame, counter: str) -> bool:
    """Whether there are rows, and none knows a counter."""
    return bool(rows.height) and rows[counter].null_count() == rows.height


def _rounded_mean(values: list[int]) -> int | None:
    return round(sum(values) / len(values)) if values else None


def _distribution(values: list[int]) -> Times:
    if not values:
        return {"count": 0}
    found: npt.NDArray[np.int64] = np.asarray(values, dtype=np.int64)
    middle, high = np.percentile(found, [50, 95], method="inverted_cdf")
    return {
        "count": len(values),
        "min_ns": int(found.min()),
        "mean_ns": round(float(found.mean())),
        "p50_ns": int(middle),
        "p95_ns": int(high),
        "max_ns": int(found.max()),
    }


def _batch(table: str, run_id: int, columns: Iterable[list[Any]]) -> pa.RecordBatch:
    """Rows of a table from its columns after `run_id`."""
    schema = SCHEMAS[table]
    fields = list(schema)[1:]
    arrays = [
        pa.array(values, pa.utf8()).dictionary_encode()
        if pa.types.is_dictionary(column.type)
        else pa.array(values, column.type)
        for column, values in zip(fields, columns, strict=True)
    ]
    rows = len(arrays[0])
    return pa.record_batch([pa.array([run_id] * rows, pa.uint32()), *arrays], names=schema.names)
