"""The path that a connection saw, from its packets: base RTT, bottleneck rate, buffer, loss, policer.

Each figure is an estimate with a range and the words for what it was taken from; what nothing shows is None.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cwndlab.analysis.explain.evidence import RECEIVER, SENDER, Connection, Packets
from cwndlab.analysis.numeric import Floats

TRAINS = (4, 1)
"""Gaps between acknowledgements, or arrivals, over which a train of packets is timed; pairs where there are
no such trains."""

TIMER_S = 0.02
"""Time from which on a receiver's timer for delayed ACKs may have had a part in a gap: the least is 40 ms."""

MOST_AT_ONCE = 50
"""Packets that an ACK covers at most where it tells of their spacing."""

BIN = 0.02
"""Width of the bins of rates in which the most frequent one is looked for, a share of the rate."""

NEAR_MODE = 0.06
"""Share around the most frequent rate of what counts as that rate."""

FREQUENT = 0.01
"""Share of the bytes from which on a rate is frequent."""

EVEN = 1.5
"""Ratio of the gaps in a train up to which it is even."""

AT_TOP = 0.85
"""Share of the longest wait from which on packets that are lost find the queue full."""

LEAST_TRAINS, LEAST_PAIRS = 5, 3
"""Trains, and pairs, below which no rate is told."""

LEAST_LOSSES = 8
"""Losses below which none is said to be a policer's."""

CLUSTER, LEAST_CLUSTERS = 3, 3
"""Packets lost at once, and how often, from which on a policer is looked for: chance loses them singly."""

ALIKE = 1.3
"""Ratio of the quartiles of what passed meanwhile up to which it is one rate."""

LEAST_QUEUE = 5
"""Packets that may wait before a policer, whose own link has a queue, too."""


@dataclass(frozen=True)
class Estimate:
    """A figure of the path."""

    value: float
    low: float
    high: float
    source: str
    """Reason, to stand behind `from`."""


@dataclass(frozen=True)
class Path:
    """Estimates of the path; None: nothing shows it."""

    rtt_s: Estimate | None
    """Round trip of a small packet while nothing waits."""
    rate_bps: Estimate | None
    """Rate of the bottleneck with all headers, Ethernet's included."""
    buffer_bytes: Estimate | None
    """Most that waited before the bottleneck, with all headers."""
    buffer_full: bool
    """Whether packets were lost when it was full, so that it is not larger."""
    loss: Estimate | None
    """Share of packets lost without a queue."""
    policed: bool
    """Whether `rate_bps` is that of a policer: no queue, and losses at one rate."""
    policer_bytes: Estimate | None
    """Burst that a policer lets pass."""
    lost: Floats
    """Beginnings of losses, each a round trip apart at least, in s."""
    full_rtt_s: float | None
    """Round trip of a full packet while nothing waits."""

    @property
    def bdp_bytes(self) -> float | None:
        """Bandwidth-delay product."""
        if self.rtt_s is None or self.rate_bps is None:
            return None
        return self.rate_bps.value * self.rtt_s.value / 8


def of(found: Connection) -> Path:
    """Estimate the path of a connection from its packets or its rows."""
    packets = found.packets
    if packets is None:
        return _of_rows(found)
    rtt = _rtt(packets)
    full = float(packets.rtt.min()) if len(packets.rtt) else packets.handshake_s
    lost = episodes(packets.lost_s, full or 0.1)
    rate = _rate(found, packets, full)
    queued = _queued(packets, lost, full)
    buffer, is_full = _buffer(packets, rate, queued, full)
    policed = _policed(found, packets) if packets.taken_at == SENDER else None
    if policed is not None:
        buffer, is_full = None, False
    waits = 8 * buffer.value / rate.value if is_full and buffer is not None and rate is not None else None
    loss = _loss(packets, lost, queued, waits) if policed is None else None
    burst = None
    if policed is not None:
        rate, burst = policed
    return Path(rtt, rate, buffer, is_full, loss, policed is not None, burst, lost, full)


def episodes(lost_s: Floats, rtt_s: float) -> Floats:
    """Beginnings of losses: what is sent again within two round trips of the last one belongs to it."""
    if not len(lost_s):
        return lost_s
    return lost_s[np.concatenate(([True], np.diff(lost_s) > 2 * rtt_s))]


def _rtt(packets: Packets) -> Estimate | None:
    known = [
        (value, source)
        for value, source in (
            (packets.handshake_s, "the handshake"),
            (float(packets.rtt.min()) if len(packets.rtt) else None, "the least of its round trips"),
        )
        if value
    ]
    if not known:
        return None
    value, source = min(known)
    values = [each for each, _ in known]
    return Estimate(value, min(values), max(values), source)


def _rate(found: Connection, packets: Packets, full: float | None) -> Estimate | None:
    """The rate at which trains of packets arrived that the bottleneck spread, or that waited before it.

    Where no trains are long enough, pairs tell.
    """
    behind = packets.taken_at == RECEIVER
    times, total = _arrivals(packets, behind=behind)
    passed = _Passed(packets, times, total, full)
    return next((rate for size in TRAINS if (rate := _of_trains(found, passed, size))), None)


@dataclass(frozen=True)
class _Passed:
    """When packets passed the bottleneck."""

    packets: Packets
    times: Floats
    total: Floats
    """Bytes so far."""
    full: float | None
    """Round trip of a full packet while nothing waits."""


def _of_trains(found: Connection, passed: _Passed, size: int) -> Estimate | None:
    """The rate by trains of `size` gaps."""
    packets, times, total = passed.packets, passed.times, passed.total
    behind = packets.taken_at == RECEIVER
    if len(times) <= size + LEAST_TRAINS:
        return None
    span, count = times[size:] - times[:-size], total[size:] - total[:-size]
    good = (span > 0) & (count >= found.mss * min(size, 2))
    least = LEAST_TRAINS if size > 1 else LEAST_PAIRS
    if size == 1:
        # One ACK that its receiver's timer held back is no pair.
        good &= span < TIMER_S
    if behind:
        # A short packet takes less time than its payload says: of trains all packets are full.
        good &= np.convolve(packets.length == found.mss, np.ones(size + 1), "valid") == size + 1
        good = _even(times, good, size)
    elif passed.full is None:
        return None
    else:
        good &= _busy(passed, passed.full, size)
    # Times have a resolution: a span of few of its steps tells no rate.
    good &= span > 20 * _step(times)
    if good.sum() < least:
        return None
    rates, weights = 8 * count[good] / span[good], count[good]
    mode = _mode(rates, weights, fastest=behind)
    near = np.abs(rates / mode - 1) < NEAR_MODE
    if near.sum() < least:
        return None
    low, middle, high = (
        found.wire * each for each in _quantiles(rates[near], weights[near], (0.05, 0.5, 0.95))
    )
    where = "packets as they arrived" if behind else "ACKs while it was busy"
    what = "trains" if size > 1 else "pairs"
    return Estimate(middle, low, high, f"the spacing of {int(near.sum())} {what} of {where}")


def _arrivals(packets: Packets, *, behind: bool) -> tuple[Floats, Floats]:
    """Times at which packets passed the bottleneck, and the bytes so far."""
    if behind:
        return packets.sent_s, np.cumsum(packets.length)
    on = np.flatnonzero(np.diff(packets.acked, prepend=0) > 0)
    return packets.acked_s[on], packets.acked[on]


def _step(times: Floats) -> float:
    """The resolution of times: the largest power of ten, up to a ms, of which all are multiples."""
    whole = np.rint(times * 1e9).astype(np.int64)
    return next(step for step in (10**6, 10**5, 10**4, 10**3, 1) if not np.any(whole % step)) / 1e9


def _busy(passed: _Passed, full: float, size: int) -> np.ndarray:
    """Whether the bottleneck was busy all through each train.

    So it was where of every gap the first packet that the second ACK covers was sent a whole round trip
    before the first ACK came: it was there when the one before it left. The last one it covers has to have
    been there in time, too.
    """
    packets, times, total = passed.packets, passed.times, passed.total
    first = packets.again == 0
    edge = np.maximum.accumulate((packets.offset + packets.length)[first])
    sent, gaps = packets.sent_s[first], np.diff(times)
    begin = np.minimum(np.searchsorted(edge, total[:-1], side="right"), len(edge) - 1)
    end = np.minimum(np.searchsorted(edge, total[1:]), len(edge) - 1)
    exact = min(2e-4 * full, 0.25 * float(np.median(gaps)))
    # A short packet takes less time than its payload says, and so does the one behind it at a token bucket.
    short = np.cumsum(np.concatenate([[0], packets.length[first] < packets.length.max()]))
    busy = (times[:-1] - sent[begin] >= full - exact) & (short[end + 1] == short[np.maximum(begin - 1, 0)])
    busy &= times[:-1] + gaps / 2 - sent[end] >= full - exact
    # Behind a loss an ACK covers what came long before it.
    busy &= np.diff(total) < MOST_AT_ONCE * float(packets.length.max())
    return np.asarray(np.convolve(busy, np.ones(size), "valid") == size)


def _even(times: Floats, good: np.ndarray, size: int) -> np.ndarray:
    """Trains of even gaps, if there are some: a token bucket lets the first packets pass at once."""
    gaps = np.lib.stride_tricks.sliding_window_view(np.diff(times), size)
    even = good & (gaps.max(axis=1) <= EVEN * np.maximum(gaps.min(axis=1), 1e-12))
    return np.asarray(even if even.sum() >= LEAST_TRAINS else good)


def _mode(rates: Floats, weights: Floats, *, fastest: bool) -> float:
    """The most frequent rate by bytes, in bins that grow with it.

    Of trains that the bottleneck may not have spread it is the fastest of the frequent ones.
    """
    place = np.round(np.log(rates) / BIN).astype(np.int64)
    least = int(place.min())
    heights = np.bincount(place - least, weights=weights)
    smooth = np.convolve(heights, np.ones(3), "same")
    at = int(np.argmax(smooth))
    if fastest:
        padded = np.pad(smooth, 1)
        peaks = (smooth >= padded[:-2]) & (smooth > padded[2:]) & (smooth >= FREQUENT * heights.sum())
        at = int(np.flatnonzero(peaks).max(initial=at))
    return float(np.exp((least + at) * BIN))


def _quantiles(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return [
        float(values[order][min(np.searchsorted(total, share * total[-1]), len(order) - 1)])
        for share in shares
    ]


def _queued(packets: Packets, lost: Floats, full: float | None) -> Floats:
    """Delay in the queue just before each loss: the largest of the round trip before data were sent again."""
    if full is None or not len(packets.rtt):
        return np.empty(0)
    found = []
    for at in lost:
        start, end = np.searchsorted(packets.rtt_s, [at - 2 * full - 1e-3, at])
        if end > start:
            found.append(float(packets.rtt[start:end].max()) - full)
    return np.array(found)


def _buffer(
    packets: Packets, rate: Estimate | None, queued: Floats, full: float | None
) -> tuple[Estimate | None, bool]:
    """The most that waited; and whether losses came when that much did."""
    if rate is None or full is None or not len(packets.rtt):
        return None, False
    most = float(np.quantile(packets.rtt, 0.999)) - full
    packet = 8 * 1514 / rate.value
    if most < 2 * packet:
        return None, False
    # Losses at one height of the queue are those of a full one; at random heights they are of the path.
    at_top = queued[queued > AT_TOP * most]
    # One of them is the highest by itself.
    if len(at_top) >= max(0.5 * len(queued), 1):
        value = float(np.median(at_top)) * rate.value / 8
        low, high = (float(np.quantile(at_top, each)) * rate.value / 8 for each in (0.1, 0.9))
        return Estimate(value, low, max(high, value), f"what waited before {len(at_top)} losses"), True
    value = most * rate.value / 8
    return Estimate(value, value, np.inf, "the longest round trip: no loss shows its end"), False


def _loss(packets: Packets, lost: Floats, queued: Floats, full_s: float | None) -> Estimate | None:
    """The share of packets that the path itself loses: not those before a queue that is full at `full_s`."""
    if not len(packets.rtt):
        return None
    counts = np.diff(np.append(np.searchsorted(packets.lost_s, lost), len(packets.lost_s)))
    # Chance loses packets singly, and a queue that overflows several at once.
    below = int(counts[counts < CLUSTER].sum())
    if full_s is not None:
        below = min(below, int((queued < AT_TOP * full_s).sum()))
    if not below:
        return None
    share = below / len(packets.sent_s)
    spread = 2 * share / np.sqrt(below)
    return Estimate(
        share, max(share - spread, 0), share + spread, f"{below} packets lost without a full queue"
    )


def _policed(found: Connection, packets: Packets) -> tuple[Estimate, Estimate] | None:
    """The rate and burst of a policer: where several packets are lost at once, the others pass at its rate.

    So they do before a full queue, but then they wait.
    """
    first = packets.again == 0
    sent, size = packets.sent_s, found.wire * packets.length
    gone = first & np.isin(packets.offset, packets.offset[~first])
    if gone.sum() < LEAST_LOSSES or not len(packets.rtt):
        return None
    full = float(packets.rtt.min())
    places = np.flatnonzero(gone)
    cuts = np.flatnonzero(np.diff(sent[places]) > full)
    passed, spans, beyond = [], [], []
    total = np.cumsum(np.where(gone, 0, size))
    for group in np.split(places, cuts + 1):
        begin, end = int(group[0]), int(group[-1])
        if len(group) >= CLUSTER and sent[end] > sent[begin]:
            passed.append(float(total[end] - total[begin]))
            spans.append(float(sent[end] - sent[begin]))
            beyond.append(begin)
    if len(spans) < LEAST_CLUSTERS:
        return None
    rates = 8 * np.array(passed) / np.array(spans)
    # In the long run no more than its rate passes, and while packets are lost no less.
    whole = total[places[-1]] - total[places[0]]
    rate = float(8 * max(sum(passed) / sum(spans), whole / (sent[places[-1]] - sent[places[0]])))
    low, high = (float(each) for each in np.quantile(rates, [0.25, 0.75]))
    waited = float(np.quantile(packets.rtt, 0.99)) - full
    if high > ALIKE * low or waited > max(8 * LEAST_QUEUE * 1514 / rate, 0.1 * full):
        return None
    used = total - rate / 8 * sent
    burst = float(
        np.median([(used[: at + 1] - np.minimum.accumulate(used[: at + 1]))[-1] for at in beyond[1:]])
    )
    spread = float(np.std(rates)) / np.sqrt(len(rates))
    source = f"what passed while packets were lost, {len(spans)} times, without a queue"
    return (
        Estimate(rate, rate - 2 * spread, rate + 2 * spread, source),
        Estimate(burst, 0.5 * burst, 2 * burst, "what passed beyond that rate before losses"),
    )


def _of_rows(found: Connection) -> Path:
    """Rows tell of the path its least round trip, and a rate where acknowledged bytes and round trips do."""
    rows = found.rows
    trips = rows.get("rtt_s", rows.get("srtt_s", np.empty(0)))
    trips = trips[np.isfinite(trips) & (trips > 0)]
    if not len(trips):
        return Path(None, None, None, False, None, False, None, np.empty(0), None)
    least = float(trips.min())
    smoothed = "rtt_s" not in rows
    rtt = Estimate(
        least,
        least,
        float(np.quantile(trips, 0.05)),
        "the least " + ("smoothed " if smoothed else "") + "round trip",
    )
    again = rows.get("retransmits")
    lost = np.empty(0)
    if again is not None:
        grown = np.diff(np.nan_to_num(again), prepend=np.nan_to_num(again[:1])) > 0
        lost = episodes(rows["t_s"][grown], least)
    rate = _rate_of_rows(found, trips, least)
    buffer = None
    most = float(np.quantile(trips, 0.999)) - least
    if rate is not None and most > 2 * 8 * 1514 / rate.value:
        value = most * rate.value / 8
        buffer = Estimate(value, value, np.inf, "the longest round trip")
    return Path(rtt, rate, buffer, False, None, False, None, lost, least)


def _rate_of_rows(found: Connection, trips: Floats, least: float) -> Estimate | None:
    """Rate while a queue stood: in flight over the round trip, where that is long."""
    rows = found.rows
    flight = rows.get("inflight_bytes", rows.get("cwnd_bytes"))
    name = "rtt_s" if "rtt_s" in rows else "srtt_s"
    if flight is None:
        return None
    trip = rows[name]
    good = np.isfinite(trip) & np.isfinite(flight) & (flight > 0) & (trip > 1.2 * least)
    if good.sum() < LEAST_TRAINS:
        return None
    rates = 8 * found.wire * flight[good] / trip[good]
    low, middle, high = (float(each) for each in np.quantile(rates, [0.1, 0.5, 0.9]))
    return Estimate(middle, low, high, "what was in flight over the round trip while it was long")
