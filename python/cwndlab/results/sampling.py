"""How often the windows of a run were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cwndlab.results.parts import RunRecord

SAMPLED = "sampled_ms"
"""Fact of an imported run, and member of a trace of qlog: milliseconds from one look to the next."""


def every_ms(record: RunRecord) -> float | None:
    """Return the milliseconds between two rows; None where there is a row at each ACK, or nothing tells."""
    told = record.facts.get(SAMPLED)
    if told is not None:
        return float(told)
    recording: Mapping[str, Any] = record.scenario.get("record") or {}
    tcp = recording.get("tcp") or {}
    return tcp["interval_ns"] / 1e6 if tcp.get("kind") == "interval" else None
