"""The limiter of a connection over time: what kept its sender from sending more, in slots of round trips.

A capture shows what was in flight, the window that was offered, and whether data left when an ACK came. Who
sends less than it just did, with both windows open, waits for its application or for room in its send buffer:
the second ends when an ACK comes, with data still in flight.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cwndlab.analysis.explain.evidence import SENDER, Connection, Packets
from cwndlab.analysis.explain.path import Path
from cwndlab.analysis.numeric import Floats

LINK, SLOW_START, GROWTH, LOSS = "link", "slow-start", "growth", "loss"
RWND, SNDBUF, APP, UNKNOWN = "rwnd", "sndbuf", "app", "unknown"

KIND = {
    LINK: "path",
    SLOW_START: "path",
    GROWTH: "path",
    LOSS: "path",
    RWND: "rwnd",
    SNDBUF: "sndbuf",
    APP: "app",
}
"""Limits as `results.limits` names them."""

HELD = 0.1
"""Share of a slot from which on a sender that waits is what limits: one that always has data never does."""

FULL = 0.93
"""Share of the bottleneck's rate from which on the link is full."""

BELOW = 0.92
"""Share of what was just in flight below which a sender does not use its window."""

ROUNDS = 4
"""Round trips for which it is remembered what was in flight."""

LEAST_SLOT_S = 0.25
"""Length of a slot at least, but for connections of few of them."""

MOST_SLOTS = 400
"""Slots of a connection at most."""

FLAT_ROUNDS, FLAT_S = 10, 5.0
"""Round trips, and seconds where losses were seen, for which the flight has to be flat to be held by a
buffer: CUBIC is as flat where it meets the window before a loss, for some seconds."""

FLAT_PACKETS = 1.5

LEAST_PERIODS, PACED = 10, 0.02
"""Intervals, and their interquartile range as a share of the median up to which they are a clock's."""

REACTIONS, LEAST_REACTION_S, WOKEN_S = 30, 2e-6, 300e-6
"""Quickest reactions of the sender to an ACK within which data are let leave by it: a writer that has to wake
takes that long. A time within which they always are, and one that counts however often ACKs come."""

CLOCKED = 0.8
"""Share of the bytes acknowledged from which on data leave at ACKs."""


@dataclass(frozen=True)
class Interval:
    """A stretch of time with one limiter."""

    begin_s: float
    end_s: float
    limiter: str
    rate_bps: float
    """Payload acknowledged in a second."""
    flight: float
    """Most that was in flight, bytes."""
    window: float | None
    """Window that the receiver offered, the mean, bytes; None where nothing says."""
    evidence: str

    @property
    def length_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Timeline:
    """Intervals from the first data to the last acknowledgement."""

    intervals: Sequence[Interval]
    plateau: float | None
    """Most in flight, bytes, in the intervals that the send buffer limited."""
    unsaid: str = ""
    """Words for what the file does not tell; empty of a capture."""

    def shares(self) -> dict[str, float]:
        """Share of the time by limiter, the largest first."""
        total = sum(each.length_s for each in self.intervals) or 1.0
        found: dict[str, float] = {}
        for each in self.intervals:
            found[each.limiter] = found.get(each.limiter, 0.0) + each.length_s / total
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def main(self) -> str:
        """The kind of limit that held for most of the time: `path`, `rwnd`, `sndbuf`, `app` or `unknown`."""
        kinds: dict[str, float] = {}
        for limiter, share in self.shares().items():
            kind = KIND.get(limiter, UNKNOWN)
            kinds[kind] = kinds.get(kind, 0.0) + share
        return max(kinds, key=lambda kind: kinds[kind])

    def detail(self) -> str:
        """The limiter of the main kind that held longest."""
        main = self.main()
        return next(each for each in self.shares() if KIND.get(each, UNKNOWN) == main)


@dataclass(frozen=True)
class _States:
    """States that hold from each event, a packet sent or an ACK, to the next one."""

    found: Connection
    path: Path
    rtt: float
    t: Floats
    length: Floats
    flight: Floats
    window: Floats
    acked: Floats
    rwnd_full: np.ndarray
    recovering: np.ndarray
    idle: np.ndarray
    held: np.ndarray
    """Below what was just in flight, with the receiver's window open."""
    by_ack: np.ndarray
    """Whether the next data leaves when an ACK comes."""
    first: np.ndarray
    """Whether the event is new data behind a pause."""


def timeline(found: Connection, path: Path) -> Timeline:
    """Tell the limiters of a connection, whose path is known as far as it can be."""
    if found.packets is None:
        return _of_rows(found, path)
    rtt = path.full_rtt_s or (path.rtt_s.value if path.rtt_s else 0.1)
    states = _states(found, found.packets, path, rtt)
    slots = _slots(found, rtt)
    labels = [_label(states, begin, end) for begin, end in slots]
    labels = _flat(states, slots, labels)
    labels = _without_pauses(labels, states, slots)
    intervals = list(_merged(states, slots, labels))
    flights = [each.flight for each in intervals if each.limiter == SNDBUF]
    return Timeline(intervals, float(np.median(flights)) if flights else None)


def _slots(found: Connection, rtt: float) -> list[tuple[float, float]]:
    duration = found.duration_s
    length = max(min(max(ROUNDS * rtt, LEAST_SLOT_S), duration / 10), 1.5 * rtt, duration / MOST_SLOTS)
    count = max(int(duration / length), 1)
    edges = np.linspace(found.begin_s, found.end_s, count + 1)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _states(found: Connection, packets: Packets, path: Path, rtt: float) -> _States:
    acks, sent = len(packets.acked_s), len(packets.sent_s)
    times = np.concatenate([packets.acked_s, packets.sent_s])
    # What an ACK lets leave at the same time comes after it.
    order = np.argsort(times, kind="stable")
    t = times[order]
    is_ack = order < acks
    highest = np.maximum.accumulate(np.concatenate([np.zeros(acks), packets.offset + packets.length])[order])
    acked = np.maximum.accumulate(np.concatenate([packets.acked, np.zeros(sent)])[order])
    place = np.maximum(np.searchsorted(packets.acked_s, t, side="right") - 1, 0)
    window = packets.window[place]
    flight = np.maximum(highest - acked, 0)
    length = np.diff(t, append=t[-1])
    recovering = _recovering(t, highest, acked, path)
    fresh = ~is_ack & (np.concatenate([np.zeros(acks), packets.again])[order] == 0)
    close = _close(packets)
    since = t - packets.acked_s[place]
    before = np.concatenate([[0.0], length[:-1]])
    first = fresh & (before > close)
    # Of each event the next new data, and whether that came with an ACK.
    nexts = np.full(len(t), len(t) - 1)
    at = np.flatnonzero(fresh)
    if len(at):
        nexts = at[np.minimum(np.searchsorted(at, np.arange(len(t)), side="right"), len(at) - 1)]
    rwnd_full = flight + found.mss > window
    idle = (flight == 0) & (length > close) & (t < packets.sent_s[-1])
    peak = _peaks(t, flight, path, rtt)
    held = ~rwnd_full & ~recovering & (flight < BELOW * peak) & ~idle & (t < packets.sent_s[-1])
    if packets.echoes:
        held &= False
    # Who writes by a clock meets ACKs by chance, and only ACKs themselves let data leave at once.
    soon = LEAST_REACTION_S if _paced(t, held, flight) else close
    if packets.taken_at != SENDER and path.rate_bps is not None:
        # Elsewhere data take longer from the sender than the handshake did.
        soon += 2 * 8 * found.wire * found.mss / path.rate_bps.value
    by_ack = (since <= soon)[nexts] & (flight[np.maximum(nexts - 1, 0)] > 0)
    return _States(
        found,
        path,
        rtt,
        t,
        length,
        flight,
        window,
        acked,
        rwnd_full,
        recovering,
        idle,
        held,
        by_ack,
        first,
    )


def flights(packets: Packets) -> Floats:
    """Bytes in flight behind each packet with data, as its sender counts."""
    place = np.searchsorted(packets.acked_s, packets.sent_s, side="right") - 1
    acked = np.where(place >= 0, packets.acked[np.maximum(place, 0)], 0.0)
    return np.asarray(np.maximum(np.maximum.accumulate(packets.offset + packets.length) - acked, 0))


def _paced(t: Floats, held: np.ndarray, flight: Floats) -> bool:
    """Whether a sender that held data back sent again at equal intervals."""
    ends = np.flatnonzero(held[:-1] & ~held[1:] & (flight[:-1] > 0))
    if len(ends) < LEAST_PERIODS:
        return False
    low, middle, high = np.quantile(np.diff(t[ends + 1]), [0.25, 0.5, 0.75])
    return bool(high - low < PACED * middle)


def _close(packets: Packets) -> float:
    """The time within which data follow the ACK that let them leave: some of the quickest reactions."""
    apart = np.diff(packets.acked_s)
    apart = apart[apart > 0]
    gap = float(np.median(apart)) if len(apart) else 1e-3
    place = np.searchsorted(packets.sent_s, packets.acked_s)
    followed = place < len(packets.sent_s)
    delay = packets.sent_s[place[followed]] - packets.acked_s[followed]
    quick = float(np.quantile(delay, 0.01)) if len(delay) else gap
    return float(np.clip(REACTIONS * quick, LEAST_REACTION_S, max(0.5 * gap, WOKEN_S)))


def _recovering(t: Floats, highest: Floats, acked: Floats, path: Path) -> np.ndarray:
    """Whether data are sent again: from then on until all is acknowledged that was sent before."""
    found = np.zeros(len(t), bool)
    for at in path.lost:
        begin = min(int(np.searchsorted(t, at)), len(t) - 1)
        end = int(np.searchsorted(acked, highest[begin]))
        found[begin : end + 1] = True
    return found


def _peaks(t: Floats, flight: Floats, path: Path, rtt: float) -> Floats:
    """The most in flight in the round trips before, since the last loss."""
    block = ((t - t[0]) / rtt).astype(np.int64)
    # A long silence has blocks without an event.
    count = int(block[-1]) + 1
    if count > 50 * len(t) + 1000:
        return np.zeros(len(t))
    most = np.zeros(count)
    np.maximum.at(most, block, flight)
    lost = np.zeros(count, bool)
    lost[np.clip(((path.lost - t[0]) / rtt).astype(np.int64), 0, count - 1)] = True
    # Two round trips after a loss the window is what the control made of it.
    hidden = lost | np.roll(lost, 1) | np.roll(lost, 2)
    most[hidden] = 0
    since = np.maximum.accumulate(np.where(hidden, np.arange(count), -1))
    peaks = np.zeros(count)
    for back in range(1, ROUNDS + 1):
        earlier = np.roll(most, back)
        earlier[:back] = 0
        earlier[np.arange(count) - back <= since] = 0
        peaks = np.maximum(peaks, earlier)
    return np.asarray(peaks[block])


def _part(states: _States, begin: float, end: float) -> slice:
    start, stop = np.searchsorted(states.t, [begin, end])
    return slice(max(int(start) - 1, 0), max(int(stop), 1))


def _lengths(states: _States, part: slice, begin: float, end: float) -> Floats:
    """How long each state lasted inside a slot."""
    t = states.t[part]
    return np.asarray(np.maximum(np.minimum(t + states.length[part], end) - np.maximum(t, begin), 0))


def _label(states: _States, begin: float, end: float) -> str:
    part = _part(states, begin, end)
    lengths = _lengths(states, part, begin, end)
    total = lengths.sum() or 1.0

    def share(which: np.ndarray) -> float:
        return float(lengths[which].sum() / total)

    idle, held, by_ack = states.idle[part], states.held[part], states.by_ack[part]
    application, buffer = share(idle | (held & ~by_ack)), share(held & by_ack)
    starts = states.first[part]
    # Data that leave at times of their own, where a window would let them leave at ACKs.
    own = starts & ~(np.roll(states.by_ack, 1)[part])
    tests = (
        (_utilised(states, begin, end) >= FULL, LINK),
        (share(states.rwnd_full[part]) >= 0.5, RWND),
        (application >= max(HELD, buffer), APP),
        (buffer >= HELD, SNDBUF),
        (share(states.recovering[part]) >= 0.3, LOSS),
        (_queue_stands(states.found, states.path, begin, end), LINK),
        (starts.sum() >= 5 and own.sum() > 0.6 * starts.sum() and not states.path.policed, APP),
    )
    return next((label for found, label in tests if found), None) or _growing(states, begin)


def _growing(states: _States, begin: float) -> str:
    """Slow start until the first loss while the flight grows by a quarter in a round trip; else growth."""
    found, path, rtt = states.found, states.path, states.rtt
    if len(path.lost) and begin > path.lost[0]:
        return GROWTH
    now, then = (
        float(states.flight[_part(states, at - rtt, at + rtt)].max(initial=0)) for at in (begin + rtt, begin)
    )
    return SLOW_START if now > 1.25 * then or begin <= found.begin_s + rtt else GROWTH


def _utilised(states: _States, begin: float, end: float) -> float:
    """Share of the bottleneck's rate that was acknowledged in a slot."""
    found, path = states.found, states.path
    if path.rate_bps is None or end <= begin:
        return 0.0
    first, last = (states.acked[max(int(np.searchsorted(states.t, at)) - 1, 0)] for at in (begin, end))
    return float(8 * found.wire * (last - first) / (end - begin) / path.rate_bps.value)


def _queue_stands(found: Connection, path: Path, begin: float, end: float) -> bool:
    """Whether packets waited all the time: nine round trips of ten are longer than that of the empty path."""
    packets = found.packets
    if packets is None or path.full_rtt_s is None or path.rate_bps is None:
        return False
    start, stop = np.searchsorted(packets.rtt_s, [begin, end])
    if stop - start < 5:
        return False
    least = float(np.quantile(packets.rtt[start:stop], 0.1))
    return least > path.full_rtt_s + max(
        4 * 8 * found.wire * found.mss / path.rate_bps.value, 0.05 * path.full_rtt_s
    )


def _flat(states: _States, slots: Sequence[tuple[float, float]], labels: Sequence[str]) -> list[str]:
    """Slots of growth in which nothing grows: held by the send buffer where every ACK lets data leave, and
    else by the application."""
    found, path, rtt = states.found, states.path, states.rtt
    peaks = np.array([states.flight[_part(states, *slot)].max(initial=0) for slot in slots])
    need = max(FLAT_ROUNDS * rtt, FLAT_S if len(path.lost) else 0.0)
    made = list(labels)
    begin = 0
    while begin < len(labels):
        end = begin
        while (
            end < len(labels)
            and labels[end] in (GROWTH, SLOW_START)
            and np.ptp(peaks[begin : end + 1]) <= FLAT_PACKETS * found.mss
        ):
            end += 1
        if end > begin and slots[end - 1][1] - slots[begin][0] >= need:
            clocked = _answered(found, slots[begin][0], slots[end - 1][1])
            made[begin:end] = [SNDBUF if clocked >= CLOCKED else APP] * (end - begin)
        begin = max(end, begin + 1)
    return made


def _answered(found: Connection, begin: float, end: float) -> float:
    """Share of the bytes acknowledged whose ACK let data leave at once."""
    packets = found.packets
    if packets is None:
        return 0.0
    fresh = packets.sent_s[packets.again == 0]
    grown = np.diff(packets.acked, prepend=0.0)
    inside = (packets.acked_s >= begin) & (packets.acked_s < end)
    at = packets.acked_s[inside]
    place = np.searchsorted(fresh, at)
    soon = (place < len(fresh)) & (fresh[np.minimum(place, len(fresh) - 1)] - at <= _close(packets))
    total = float(grown[inside].sum())
    return float(grown[inside][soon].sum()) / total if total else 0.0


def _without_pauses(
    labels: Sequence[str], states: _States, slots: Sequence[tuple[float, float]]
) -> list[str]:
    """Without single slots in which a sender that the path limits sent less, but was never idle: BBR does,
    to look for the least round trip."""
    made = list(labels)
    for place in range(1, len(labels) - 1):
        if KIND[labels[place]] not in ("app", "sndbuf"):
            continue
        last = place + 1 if labels[place + 1] in (APP, SNDBUF) and place + 2 < len(labels) else place
        around = labels[place - 1], labels[last + 1]
        idle = states.idle[_part(states, slots[place][0], slots[last][1])].any()
        if not idle and all(KIND[each] == "path" for each in around) and KIND[made[place - 1]] == "path":
            made[place : last + 1] = [around[0]] * (last + 1 - place)
    return made


def _merged(
    states: _States, slots: Sequence[tuple[float, float]], labels: Sequence[str]
) -> Iterator[Interval]:
    start = 0
    for place in range(1, len(labels) + 1):
        if place < len(labels) and labels[place] == labels[start]:
            continue
        begin, end = slots[start][0], slots[place - 1][1]
        part = _part(states, begin, end)
        lengths = _lengths(states, part, begin, end)
        total = lengths.sum() or 1.0
        first, last = (states.acked[max(int(np.searchsorted(states.t, at)) - 1, 0)] for at in (begin, end))
        rate = 8 * float(last - first) / max(end - begin, 1e-9)
        flight = float(np.quantile(states.flight[part], 0.99))
        window = float((states.window[part] * lengths).sum() / total)
        words = _evidence(states, begin, end, labels[start])
        yield Interval(begin, end, labels[start], rate, flight, window, words)
        start = place


def _evidence(states: _States, begin: float, end: float, label: str) -> str:
    """Words for what shows the limiter of an interval."""
    part = _part(states, begin, end)
    lengths = _lengths(states, part, begin, end)
    total = lengths.sum() or 1.0
    used = 100 * min(_utilised(states, begin, end), 1)
    lost = int(((states.path.lost >= begin) & (states.path.lost < end)).sum())
    idle = 100 * lengths[states.idle[part]].sum() / total
    full = 100 * lengths[states.rwnd_full[part]].sum() / total
    flight = float(np.quantile(states.flight[part], 0.99))
    return {
        LINK: f"{used:.0f} % of the bottleneck's rate",
        RWND: f"the window was full for {full:.0f} % of the time",
        SNDBUF: f"{flight / 1e3:.4g} kB in flight at most, with the receiver's window open, losses: {lost}",
        APP: f"nothing in flight for {idle:.0f} % of the time, with both windows open"
        if idle >= 1
        else "data leave at times of their own, not at ACKs",
        LOSS: f"losses: {lost}, and what follows from one",
        SLOW_START: "what is in flight grows by a quarter or more in a round trip",
        GROWTH: f"{used:.0f} % of the bottleneck's rate, no full window, nothing held back",
    }[label]


def _of_rows(found: Connection, path: Path) -> Timeline:
    """The limiter by what a log's rows say: which of its windows the flight fills."""
    rows, t = found.rows, found.rows["t_s"]
    cwnd, flight, offered = (rows.get(name) for name in ("cwnd_bytes", "inflight_bytes", "send_window_bytes"))
    queued, buffer = rows.get("queued"), rows.get("send_buffer_bytes")
    trip = rows.get("rtt_s", rows.get("srtt_s"))
    estimated = flight is None
    if flight is None and trip is not None and "delivered_bytes" in rows:
        delivered = np.nan_to_num(rows["delivered_bytes"])
        rate = np.gradient(delivered, t) if len(t) > 1 else np.zeros(len(t))
        flight = rate * trip
    if flight is None or cwnd is None:
        return Timeline([_unknown(found)], None, "it tells neither a window nor what was in flight")
    missing = [
        word
        for word, column in (("the receiver's window", offered), ("the send buffer", buffer))
        if column is None
    ]
    labels = np.full(len(t), UNKNOWN if missing else APP, dtype=object)
    room = 2 * found.mss if not estimated else 0.15 * np.nan_to_num(cwnd)
    if queued is not None and buffer is not None:
        labels[queued >= 0.9 * buffer] = SNDBUF
    if offered is not None:
        labels[flight + room >= offered] = RWND
    limited = (flight + room >= cwnd) & ~(
        (labels == RWND) & (np.nan_to_num(offered if offered is not None else cwnd) <= cwnd)
    )
    labels[limited] = GROWTH
    threshold = rows.get("ssthresh_bytes")
    if threshold is not None:
        labels[limited & (cwnd < np.where(np.isfinite(threshold), threshold, np.inf))] = SLOW_START
    if trip is not None and path.full_rtt_s:
        labels[limited & (trip > 1.2 * path.full_rtt_s)] = LINK
    others = "one of them" if len(missing) > 1 else "that"
    unsaid = f"it does not tell {' and '.join(missing)}; {others} or the application limited the rest"
    if not missing or UNKNOWN not in labels:
        unsaid = ""
    return Timeline(list(_merged_rows(found, labels, flight, offered)), _buffered(labels, flight), unsaid)


def _buffered(labels: np.ndarray, flight: Floats) -> float | None:
    held = flight[labels == SNDBUF]
    return float(np.quantile(held, 0.95)) if len(held) else None


def _unknown(found: Connection) -> Interval:
    return Interval(found.begin_s, found.end_s, UNKNOWN, found.goodput_bps or 0.0, 0.0, None, "nothing tells")


def _merged_rows(
    found: Connection, labels: np.ndarray, flight: Floats, offered: Floats | None
) -> Iterator[Interval]:
    """Intervals by the label that most rows of a slot have."""
    t = found.rows["t_s"]
    count = max(min(MOST_SLOTS // 4, len(t)), 1)
    edges = np.linspace(t[0], t[-1], count + 1)
    chosen: list[tuple[float, float, str]] = []
    for begin, end in itertools.pairwise(edges.tolist()):
        start, stop = np.searchsorted(t, [begin, end])
        stop = max(int(stop), int(start) + 1)
        names, counts = np.unique(labels[start:stop].astype(str), return_counts=True)
        label = str(names[int(np.argmax(counts))]) if len(names) else chosen[-1][2] if chosen else UNKNOWN
        if chosen and chosen[-1][2] == label:
            chosen[-1] = (chosen[-1][0], float(end), label)
        else:
            chosen.append((float(begin), float(end), label))
    words = {
        LINK: "the window was full while round trips were long",
        GROWTH: "the congestion window was full",
        SLOW_START: "the congestion window was full, below its threshold",
        RWND: "the receiver's window was full",
        SNDBUF: "the send buffer was full, and no window was",
        APP: "no window was full, nor the send buffer",
        UNKNOWN: "the congestion window was not full",
    }
    delivered = found.rows.get("delivered_bytes")
    for begin, end, label in chosen:
        start, stop = np.searchsorted(t, [begin, end])
        stop = max(int(stop), int(start) + 1)
        rate = 0.0
        if delivered is not None and stop - start > 1:
            known = np.nan_to_num(delivered[start:stop])
            rate = 8 * float(known[-1] - known[0]) / max(float(t[stop - 1] - t[start]), 1e-9)
        window = None if offered is None else float(np.nanmean(offered[start:stop]))
        yield Interval(
            begin, end, label, rate, float(np.nanmax(flight[start:stop], initial=0)), window, words[label]
        )
