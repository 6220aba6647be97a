"""The reports of iperf3 about a flow, for hosts whose system does not tell how much a connection carried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

SECOND = 10**9
MOST_SECONDS = 1 << 20
"""Seconds of a report that are believed."""


def of_iperf3(
    text: str, task: Mapping[str, Any], role: str, measure: tuple[int, int], end_ns: int
) -> dict[str, Any] | None:
    """The report of one end as cwndlab's own applications give it. None where there is none to be read.

    Times of the report count from the flow's start. Between two intervals what was carried is on the line.
    """
    try:
        intervals = [each["sum"] for each in json.loads(text)["intervals"]]
        times = [task["start_ns"], *(task["start_ns"] + float(each["end"]) * SECOND for each in intervals)]
        carried = np.cumsum([0.0, *(float(each["bytes"]) for each in intervals)])
        again = np.cumsum([0.0, *(float(each.get("retransmits", 0)) for each in intervals)])
    except (ValueError, KeyError, TypeError):
        return None
    if not intervals or times[-1] > MOST_SECONDS * SECOND:
        return None

    def between(counter: np.ndarray[Any, Any], window: tuple[int, int]) -> int:
        first, last = np.interp(window, times, counter)
        return round(float(last - first))

    report = {"flow": task["flow"], "role": role, "error": None, "samples": []}
    if role == "from":
        told = "retransmits" in intervals[0]
        return {
            **report,
            "sent_bytes_in_window": between(carried, measure),
            "retransmits_in_window": between(again, measure) if told else None,
        }
    wanted = task["app"]["bytes"]
    done = (wanted is not None and carried[-1] >= wanted) or task["stop_ns"] < end_ns
    seconds = range(task["start_ns"] // SECOND, end_ns // SECOND)
    return {
        **report,
        "read": round(float(carried[-1])),
        "read_in_window": between(carried, measure),
        "seconds": [[at, between(carried, (at * SECOND, (at + 1) * SECOND))] for at in seconds],
        "ended_ns": round(times[-1]) if done else None,
    }
