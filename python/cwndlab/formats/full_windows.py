"""The time for which a capture shows the receiver's window full: as much as a capture tells of what limited a
flow.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import _native

DIRECTIONS = ("forward", "backward")


def connections(capture: _native.Capture) -> Iterator[dict[str, Any]]:
    """The connections of a capture; of each direction with data, `window_full_pct` besides the counters."""
    for number, connection in enumerate(capture.connections()):
        for direction in DIRECTIONS:
            if connection[direction]["data_packets"]:
                share = full_pct(capture, number, direction, connection[direction]["largest_payload"])
                connection[direction]["window_full_pct"] = share
        yield connection


def full_pct(capture: _native.Capture, connection: int, direction: str, segment: int) -> float | None:
    """Per cent of the time, from the first acknowledgement of data to the last, in which a segment more would
    have exceeded the window; None without two of them.

    Of a capture at the sender: elsewhere less is on the way than the sender counts.
    """
    backward = direction == "backward"
    data, acks = (
        pa.record_batch(rows(connection, backward)).to_pydict() for rows in (capture.data, capture.acks)
    )
    if len(acks["t_ns"]) < 2:
        return None
    # At the same time, what an acknowledgement lets leave comes after it.
    times = np.array(acks["t_ns"] + data["t_ns"], dtype=np.int64)
    flight = np.array(acks["flight_bytes"] + data["flight_bytes"], dtype=np.int64)
    window = np.array(acks["window_bytes"] + [-1] * len(data["t_ns"]), dtype=np.int64)
    order = np.argsort(times, kind="stable")
    times, flight, window = times[order], flight[order], window[order]
    # Between two acknowledgements the last one's window holds.
    newest = np.maximum.accumulate(np.where(window >= 0, np.arange(len(window)), 0))
    full = flight + segment > window[newest]
    inside = (times >= acks["t_ns"][0]) & (times <= acks["t_ns"][-1])
    times, full = times[inside], full[inside]
    whole = int(times[-1] - times[0])
    return round(100 * float(np.diff(times)[full[:-1]].sum()) / whole, 3) if whole > 0 else None
