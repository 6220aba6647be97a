"""The limit of a flow on a real kernel, from TCP_INFO (tcp_info(7)) and the capacity of its path.

The kernel counts how long it had something to send, and how long of that the receiver's window or the send
buffer kept it from sending. Whether more of either would have brought more it does not know: that is so while
the flow does not fill the path. What the processing of a host limits, or pacing, it does not tell.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Limited
from cwndlab.experiment.scenario.capacity import narrowest

FULL = 0.95
"""A flow has filled so much of its path where more of a window would bring nothing, as on the simulator."""

ROUNDS = 2
"""Round trips over which that is judged at least: what is sent in one comes in bursts."""

_WINDOWS = ("rwnd_limited_ns", "sndbuf_limited_ns")
_COUNTERS = ("busy_ns", "delivered_bytes", *_WINDOWS)


def limited(rows: pl.DataFrame, scenario: Scenario, flow: str, active: int, header: int) -> Limited:
    """Time for which each limit held in the measurement window, in which the flow was active for so long
    (ns).

    `rows` are of the sender's TCP_INFO; packets have `header` bytes besides their payload.
    """
    unknown = Limited(cwnd=None, path=None, rwnd=None, sndbuf=None, app=None, host=None, pacing=None)
    if not rows.height or rows["busy_ns"].null_count():
        return unknown
    counted, rated = dict.fromkeys((*_COUNTERS, "path"), 0.0), True
    for _, socket in rows.group_by("local_port", "remote_port", maintain_order=True):
        mss, lines = max(_most(socket, "mss_bytes"), 1), _Lines(socket)
        for since, until in _rounds(socket, scenario["measure"]["from_ns"], scenario["measure"]["to_ns"]):
            grown = {name: lines.at(name, until) - lines.at(name, since) for name in _COUNTERS}
            found = narrowest(scenario, flow, (since, until))
            bits = 8 * grown["delivered_bytes"] * (1 + header / mss)
            rated &= found is not None
            if found is not None and bits >= FULL * found[1]:
                counted["path"] += sum(grown.pop(name) for name in _WINDOWS)
            for name, value in grown.items():
                counted[name] += value
    whole = {name: round(value) for name, value in counted.items()}
    windows = [whole[name] for name in _WINDOWS]
    return {
        **unknown,
        "cwnd": max(0, whole["busy_ns"] - sum(windows) - whole["path"]),
        "path": whole["path"] if rated else None,
        "rwnd": windows[0],
        "sndbuf": windows[1],
        "app": max(0, active - whole["busy_ns"]),
    }


def _rounds(socket: pl.DataFrame, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a window, from row to row, that are long enough to be judged; together all of it."""
    times: list[int] = socket["t_ns"].to_list()
    shortest = ROUNDS * _most(socket, "srtt_ns")
    since = max(start, times[0])
    for t in times:
        if t - since >= max(shortest, 1) and end - t >= shortest:
            yield since, t
            since = t
    if since < end:
        yield since, end


def _most(socket: pl.DataFrame, column: str) -> int:
    known: list[int] = socket[column].drop_nulls().to_list()
    return max(known, default=0)


class _Lines:
    """Counters of a socket; between two rows on the line through them."""

    def __init__(self, socket: pl.DataFrame) -> None:
        self._times = socket["t_ns"].to_numpy().astype(np.float64)
        self._values = {name: socket[name].fill_null(0).to_numpy().astype(np.float64) for name in _COUNTERS}

    def at(self, counter: str, at: int) -> float:
        """A counter's value at a time."""
        return float(np.interp(at, self._times, self._values[counter]))
