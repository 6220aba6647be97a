"""Rows of any recording as the stream of notices that a reference congestion control is fed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from cwndlab.analysis.judge.sources import Source
from cwndlab.errors import InputError
from cwndlab.formats.packets import Passed

Rows = np.ndarray[Any, Any]

ACK, LOSS, TIMEOUT, ECN, RECOVERED, UNDO, EXIT, APP_LIMITED, FOLLOWED, UNCLEAR = range(10)
"""Notices, by the numbers that `cwndlab._native.Reference` knows them by."""

UNKNOWN = 2**64 - 1

KINDS = {
    "recovery-in": LOSS,
    "loss": LOSS,
    "rto": TIMEOUT,
    "persistent-congestion": TIMEOUT,
    "reduction": ECN,
    "recovery-out": RECOVERED,
    "undo": UNDO,
    "slow-start-exit": EXIT,
    "app-limited": APP_LIMITED,
}
"""Kinds of events that are notices."""

CUT = 0.95
"""Share of a window below which a threshold, or the next window, is a reduction; above it is a rounding."""


@dataclass
class Stream:
    """Notices of a sender, in the order of time."""

    rows: Rows
    """Ten numbers a row, as `cwndlab._native.Reference.feed` takes them."""
    told: bool
    """Whether the sender says when a recovery is over."""
    acks: int
    duration_s: float
    busy_s: float
    """Time in which something was in flight."""
    rtt_s: float
    """Median round trip; 0 where none was recorded."""
    window: float
    """Median window, bytes."""
    per_ack: float = 0.0
    """Mean of what an ACK covers, bytes."""
    notes: list[str] = field(default_factory=list)
    """Limits of what the rows tell, a sentence each."""

    @property
    def per_round(self) -> float:
        """ACKs in a round trip; 0 of fewer than two, infinite where no round trip was recorded."""
        if not self.busy_s:
            return 0.0
        if not self.rtt_s:
            return np.inf
        return self.acks * self.rtt_s / self.busy_s


def of(source: Source) -> Stream:
    """Make the stream of one flow's rows.

    Of a simulated sender they tell what the receiver has read, and only a capture what was acknowledged.
    Raises InputError for rows without a window.
    """
    notes: list[str] = []
    rows = _rows(source, notes)
    happened = _events(source.events, rows, notes, simulated=source.simulated)
    if source.simulated and source.passed is None:
        rows, happened = _behind_slow_start(rows, happened, source.sender, notes)
    told = bool((happened["notice"] == RECOVERED).any())
    whole = pl.concat(
        [happened.with_columns(order=pl.lit(0)), rows.with_columns(order=pl.lit(1))], how="diagonal"
    )
    whole = _collapsed(whole.sort("t_ns", "order", maintain_order=True), told=told)
    columns = ("t_ns", "notice", "bytes", "rtt_ns", "flight", "cwnd", "ssthresh", "srtt_ns", "left", "most")
    numbers = np.stack(
        [whole[name].cast(pl.UInt64).fill_null(UNKNOWN).to_numpy() for name in columns], axis=1
    )
    acked = rows.filter((pl.col("notice") == ACK) & (pl.col("bytes") > 0))
    span = float(acked["t_ns"][-1] - acked["t_ns"][0]) / 1e9 if acked.height else 0.0
    busy = max(span - _rested_s(rows), 0.0)
    rtt = rows["rtt_ns"].median()
    rtt_s = float(rtt) / 1e9 if isinstance(rtt, float) else 0.0
    window = float(np.median(rows["cwnd"].to_numpy()))
    covered = float(acked["bytes"].sum()) / max(acked.height, 1)
    return Stream(
        np.ascontiguousarray(numbers), told, acked.height, span, busy, rtt_s, window, covered, notes
    )


def _rested_s(acks: pl.DataFrame) -> float:
    """Return for how long nothing was in flight: up to a round trip before the next ACK."""
    left = pl.coalesce("left", pl.col("flight") - pl.col("bytes")).shift()
    rest = (pl.col("t_ns").diff() - pl.col("rtt_ns")).clip(0)
    return float(acks.select(rest.filter(left == 0).sum()).item()) / 1e9


def _collapsed(whole: pl.DataFrame, *, told: bool) -> pl.DataFrame:
    """Leave out the losses that are found in the round trip after a timeout: they were sent before it.

    Where the sender tells its recoveries, it does so for none of them.
    """
    if told or not (whole["notice"] == TIMEOUT).any():
        return whole
    began = pl.when(pl.col("notice") == TIMEOUT).then("t_ns").forward_fill()
    late = pl.col("t_ns") - began <= pl.col("rtt_ns").forward_fill().fill_null(0)
    return whole.filter(~((pl.col("notice") == LOSS) & late.fill_null(value=False)))


def _rows(source: Source, notes: list[str]) -> pl.DataFrame:
    """The ACKs: one row for each time, with what was in flight before it and the window after it.

    Where the rows have what was in flight after their ACK, what was sent between two of them may have been
    there before the second, or have followed from it.
    """
    held = [
        pl.col(name).forward_fill() for name in ("cwnd_bytes", "ssthresh_bytes", "delivered_bytes", "state")
    ]
    frame = source.tcp.sort("t_ns", maintain_order=True).with_columns(*held)
    frame = frame.filter(pl.col("cwnd_bytes").is_not_null()).unique("t_ns", keep="last", maintain_order=True)
    if not frame.height:
        raise InputError("no row has a congestion window: there is nothing to judge")
    has = {
        name: bool(frame[name].is_not_null().any())
        for name in ("delivered_bytes", "inflight_bytes", "rtt_ns")
    }
    frame = frame.with_columns(pl.col("t_ns", "inflight_bytes").cast(pl.Int64))
    least, left = pl.col("inflight_bytes").shift(), pl.col("inflight_bytes")
    if source.before:
        least, left = left, pl.lit(None, pl.Int64)
    most = least
    if source.passed is not None:
        frame = _with_packets(frame, source.passed)
        acked, least = pl.col("acked").diff().clip(0), pl.col("sent") - pl.col("acked").shift()
        most = least
    elif has["delivered_bytes"]:
        acked = pl.col("delivered_bytes").cast(pl.Int64).diff().clip(0)
    elif has["inflight_bytes"]:
        acked = -pl.col("inflight_bytes").cast(pl.Int64).diff().clip(None, 0)
        notes.append("bytes acknowledged are not recorded: what leaves the flight stands for them")
    else:
        raise InputError(
            "the rows have neither bytes acknowledged nor in flight: growth and window cannot be judged"
        )
    if not has["inflight_bytes"]:
        notes.append("bytes in flight are not recorded: the sender is taken to use its whole window")
    if source.passed is None and not source.before:
        most = pl.max_horizontal(least, left + acked)
        # Of data read it is not known whether they were in flight.
        least = least if source.simulated else most
    return frame.select(
        "t_ns",
        pl.lit(ACK).alias("notice"),
        acked.fill_null(0).alias("bytes"),
        (pl.col("rtt_ns") if has["rtt_ns"] else pl.col("srtt_ns")).cast(pl.Int64).alias("rtt_ns"),
        least.alias("flight"),
        most.alias("most"),
        pl.col("cwnd_bytes").cast(pl.Int64).alias("cwnd"),
        pl.col("ssthresh_bytes").cast(pl.Int64).alias("ssthresh"),
        pl.col("srtt_ns").cast(pl.Int64),
        left.alias("left"),
        pl.col("state").cast(pl.String),
    )


def _with_packets(frame: pl.DataFrame, passed: Passed) -> pl.DataFrame:
    """Give each row what was acknowledged with it, and what had been sent before: all but its own answer."""
    earlier = passed.sent.with_columns(pl.col("t_ns") + 1)
    joined = frame.join_asof(passed.acked, on="t_ns", strategy="backward")
    return joined.join_asof(earlier, on="t_ns", strategy="backward").with_columns(
        pl.col("acked", "sent").fill_null(0)
    )


def _events(events: pl.DataFrame, rows: pl.DataFrame, notes: list[str], *, simulated: bool) -> pl.DataFrame:
    """Notices that are no ACKs, with the window that stood when each was over."""
    found = events.select(
        pl.col("t_ns").cast(pl.Int64),
        pl.col("kind")
        .cast(pl.String)
        .replace_strict(KINDS, default=None, return_dtype=pl.Int32)
        .alias("notice"),
        pl.when(pl.col("kind").cast(pl.String) == "loss").then(pl.col("value").fill_null(0)).alias("bytes"),
    ).drop_nulls("notice")
    # A SYN that was lost is no news to a congestion control, which begins with the first ACK.
    found = found.filter((pl.col("notice") != TIMEOUT) | (pl.col("t_ns") >= rows["t_ns"][0]))
    if (events["kind"].cast(pl.String) == "recovery-in").any():
        # The window that is reduced is the one at the beginning of the recovery.
        # What the simulator's own senders do has a reason.
        found = found if simulated else _founded(found, rows, notes)
        found = found.filter(pl.col("bytes").is_null())
    told = found["notice"].is_in([LOSS, ECN, TIMEOUT]).any()
    if simulated:
        # Nothing else tells when a reaction to an ECN echo is over; one to a loss probe is so at once.
        began = pl.col("t_ns").is_in(found.filter(pl.col("notice") == ECN)["t_ns"].implode())
        ended = (began | pl.col("state").shift().eq("cwr")) & ~pl.col("state").is_in(["cwr", "recovery"])
        over = rows.filter(ended.fill_null(value=False)).select(
            "t_ns", pl.lit(RECOVERED, pl.Int32).alias("notice")
        )
        found = pl.concat([found, over], how="diagonal").sort("t_ns", maintain_order=True)
    states = rows.select("t_ns", pl.col("state").is_in(["recovery", "cwr"]).alias("now")).drop_nulls()
    states = states.with_columns(pl.col("now").shift().fill_null(value=False).alias("before"))
    if not told and states["now"].any():
        changed = states.filter(pl.col("now") != pl.col("before"))
        notice = pl.when("now").then(LOSS).otherwise(RECOVERED).cast(pl.Int32).alias("notice")
        found = pl.concat([found, changed.select("t_ns", notice)], how="diagonal").sort("t_ns")
    elif not told and not simulated:
        found = pl.concat([found, _inferred(rows, notes)], how="diagonal").sort("t_ns")
    # A recovery that a timeout ends has no window of its own.
    timeouts = found.filter(pl.col("notice") == TIMEOUT)["t_ns"].implode()
    found = found.filter(~((pl.col("notice") == RECOVERED) & pl.col("t_ns").is_in(timeouts)))
    windows = rows.select("t_ns", "cwnd", "ssthresh", "flight", "left", "most")
    at, after = found.filter(pl.col("notice") != TIMEOUT), found.filter(pl.col("notice") == TIMEOUT)
    whole = pl.concat(
        [
            at.join_asof(windows, on="t_ns", strategy="backward"),
            after.join_asof(windows, on="t_ns", strategy="forward"),
        ]
    )
    return _at_once(whole, windows).drop_nulls("cwnd").sort("t_ns", maintain_order=True)


def _at_once(found: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Give the window between two recoveries, one of which begins as the other ends: its threshold."""
    kinds = pl.col("notice").is_in([LOSS, RECOVERED])
    pairs = found.filter(kinds).group_by("t_ns").agg(pl.col("notice").n_unique()).filter(pl.col("notice") > 1)
    if not pairs.height:
        return found
    earlier = windows.select(pl.col("t_ns") + 1, pl.col("ssthresh").alias("between")).sort("t_ns")
    known = pairs.select("t_ns").sort("t_ns").join_asof(earlier, on="t_ns", strategy="backward")
    cwnd = pl.when(kinds).then(pl.coalesce("between", "cwnd")).otherwise("cwnd")
    return found.join(known, on="t_ns", how="left").with_columns(cwnd.alias("cwnd")).drop("between")


def _founded(found: pl.DataFrame, rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Leave out recoveries for which nothing was lost, where the rows tell: they are no reason to reduce.

    Lost is what a loss names, and what leaves the flight without being acknowledged. A recovery that takes
    the window or its threshold down has a reason, too, which may be an ECN echo.
    """
    if not rows["left"].is_not_null().any():
        return found
    before, threshold = pl.col("left").shift(), pl.col("ssthresh").ne_missing(pl.col("ssthresh").shift())
    gone = (
        (before - pl.col("left") > pl.col("bytes"))
        | threshold
        | (pl.col("cwnd") < CUT * pl.col("cwnd").shift())
    )
    reasons = rows.filter(gone.fill_null(value=False))["t_ns"].to_numpy()
    losses = found.filter(pl.col("bytes").is_not_null())["t_ns"].to_numpy()
    reasons = np.sort(np.concatenate([reasons, losses]))
    begins = found.filter((pl.col("notice") == LOSS) & pl.col("bytes").is_null())["t_ns"].to_numpy()
    ends = found.filter(pl.col("notice") == RECOVERED)["t_ns"].to_numpy()
    # A reason lies between the end of the recovery before, and this one's own.
    ended = np.concatenate([[-1], ends, [np.iinfo(np.int64).max]])
    place = np.searchsorted(ended, begins, side="right")
    earliest = np.searchsorted(reasons, ended[place - 1], side="right")
    latest = np.searchsorted(reasons, ended[place], side="left")
    without = begins[earliest >= latest]
    if not without.size:
        return found
    times = "time" if without.size == 1 else "times"
    notes.append(
        f"the sender began a recovery {without.size} {times} though nothing was lost: it is no reason"
    )
    return found.filter(~((pl.col("notice") == LOSS) & pl.col("t_ns").is_in(without)))


def _inferred(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Reductions that only the window, or its threshold, shows."""
    before, changed = pl.col("cwnd").shift(), pl.col("ssthresh").ne_missing(pl.col("ssthresh").shift())
    cut = (pl.col("ssthresh") < CUT * before) if rows["ssthresh"].is_not_null().any() else pl.lit(value=False)
    dropped = pl.col("cwnd") < CUT * before
    # Nothing was in flight, so nothing was lost: sending began again.
    rested = (pl.col("left").shift() == 0).fill_null(value=False)
    loss = ((changed & cut) | dropped) & ~rested
    left = changed & pl.col("ssthresh").is_not_null() & pl.col("ssthresh").shift().is_null() & ~loss
    marked = rows.with_columns(
        loss.fill_null(value=False).alias("loss"), left.fill_null(value=False).alias("left")
    )
    marked = marked.filter(pl.col("loss") | pl.col("left"))
    if marked["loss"].any():
        notes.append("losses are not recorded: a window or a threshold that falls stands for one")
    notice = pl.when("loss").then(LOSS).otherwise(EXIT).cast(pl.Int32).alias("notice")
    return marked.select("t_ns", notice)


def _behind_slow_start(
    rows: pl.DataFrame, happened: pl.DataFrame, sender: str, notes: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Have slow start followed and not judged: in it data read and data acknowledged are far apart."""
    # The row before the first threshold has the window that was reduced to it.
    known = pl.col("ssthresh").is_not_null()
    first = rows.filter(known.shift(-1, fill_value=False) | known)["t_ns"].min()
    notes.append(
        "the simulator records what the receiver has read, not what was acknowledged: slow start is not"
        f" judged; with record: {{tcp: per-ack, pcap: [{sender}]}} a capture at the sender tells"
    )
    early = pl.lit(value=True) if first is None else pl.col("t_ns") < first
    slow = early | (pl.col("cwnd").shift() < pl.col("ssthresh")).fill_null(value=False)
    # What was read in it is acknowledged up to a round trip later.
    since = pl.col("t_ns") - pl.when(slow).then("t_ns").forward_fill()
    notice = (
        pl.when(slow | (since <= pl.col("rtt_ns")).fill_null(value=False))
        .then(FOLLOWED)
        .when(pl.col("bytes") == 0)
        .then(UNCLEAR)
        .otherwise("notice")
        .cast(pl.Int32)
        .alias("notice")
    )
    return rows.with_columns(notice), happened.filter(~early)
