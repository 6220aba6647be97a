"""The limits of a flow, in one wording for tables, the report and advice."""

from collections.abc import Iterator, Mapping

from cwndlab.contract.summary import FlowSummary
from cwndlab.results.metrics import Value

KINDS = ("cwnd", "path", "rwnd", "sndbuf", "app", "host", "pacing")
"""Kinds of limits of a flow, with a metric `limited_KIND_pct` each."""

WORDS = {
    "path": "the path",
    "rwnd": "the receiver's window",
    "sndbuf": "the send buffer",
    "app": "the application",
    "host": "the processing of a host",
    "pacing": "pacing",
}
"""The limits that a reader is told of. `path` is `cwnd`, which follows the path, and a full link, `path`."""

MOSTLY = 50.0
"""Per cent of the time above which a limit is the main one."""

SEVERAL = "several"
"""Stands for the main limit where none is."""

APART = 2.0
"""Ratio from which on the smoothed RTT of TCP and the RTT of the path are not the same thing."""

_BUFFERS = {"rwnd": "receive_buffer", "sndbuf": "send_buffer"}

_WHY = {
    "SO_SNDBUF": "which the application set",
    "SO_RCVBUF": "which the application set",
    "kern.ipc.maxsockbuf": "of which a buffer gets 8/9, and no step of autotuning goes beyond",
}


def shares(row: Mapping[str, Value]) -> dict[str, float]:
    """Per cent of the time by limit, of a row of the summary; empty where nothing is known of them."""
    known = {kind: row.get(f"limited_{kind}_pct") for kind in KINDS}
    found = dict.fromkeys(WORDS, 0.0)
    for kind, share in known.items():
        found["path" if kind == "cwnd" else kind] += float(share or 0.0)
    return found if any(found.values()) else {}


def untold(row: Mapping[str, Value]) -> bool:
    """Whether the flow has a congestion control, and its stack does not tell of any limit."""
    return bool(row.get("cc")) and all(row.get(f"limited_{kind}_pct") is None for kind in KINDS)


def unopened(row: Mapping[str, Value]) -> bool:
    """Whether the flow is a connection of which nothing was seen: it never opened."""
    seen = ("goodput_mbps", "rtt_mean_ms", "srtt_mean_ms", "cwnd_mean_bytes")
    return untold(row) and all(row.get(name) is None for name in seen)


def main(row: Mapping[str, Value]) -> str | None:
    """The limit of more than half of the time, or `several`. None where nothing is known."""
    found = shares(row)
    if not found:
        return None
    kind = max(found, key=lambda each: found[each])
    return kind if found[kind] > MOSTLY else SEVERAL


def buffer(limit: str | None, counted: FlowSummary) -> dict[str, Value]:
    """Size in bytes of the buffer that is the main limit, and what holds it there."""
    known: Mapping[str, object] = counted
    found = known.get(_BUFFERS.get(limit or "", ""))
    if not isinstance(found, dict):
        return {"held_bytes": None, "held_by": None}
    return {"held_bytes": found["bytes"], "held_by": found["held_by"]}


def sentence(row: Mapping[str, Value]) -> str:
    """Say what limited the flow of a row, and for how much of the time, to end a sentence with."""
    said = [f"{percentage(share)} of the time by {WORDS[kind]}{held}" for kind, share, held in _parts(row)]
    return ", ".join(said) or "by nothing for long"


def parts(row: Mapping[str, Value]) -> str:
    """List the limits of the flow of a row with their shares of the time, the largest first."""
    return ", ".join(f"{WORDS[kind]} {percentage(share)}" for kind, share, _ in _parts(row))


def _parts(row: Mapping[str, Value]) -> Iterator[tuple[str, float, str]]:
    found = shares(row)
    for kind in sorted(found, key=lambda each: found[each], reverse=True):
        if found[kind] > 0:
            yield kind, found[kind], f" ({holder(row)})" if kind == main(row) and holder(row) else ""


def holder(row: Mapping[str, Value]) -> str:
    """Name the holder of the buffer that limits the flow of a row. Empty where none is known."""
    size, name = row.get("held_bytes"), str(row.get("held_by") or "")
    if size is None:
        return ""
    if not name:
        return f"a buffer of {int(size):,} bytes, which autotuning may grow"
    why = f", {_WHY[name]}" if name in _WHY else ""
    return f"a buffer of {int(size):,} bytes, held by {name}{why}"


def percentage(share: float) -> str:
    """Per cent of the time, in which 0 and 100 mean none and all of it."""
    # Shares that add up to all of the time may miss it by what floating point makes of them.
    share = round(share, 9)
    if 0 < share < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < share < 100 else f"{share:.0f} %"


def apart(row: Mapping[str, Value]) -> bool:
    """Whether TCP's smoothed RTT is another than the path's."""
    path, tcp = row.get("rtt_p50_ms"), row.get("srtt_mean_ms")
    return bool(path and tcp) and not 1 / APART < float(tcp or 0) / float(path or 1) < APART


def round_trips(row: Mapping[str, Value]) -> str:
    """A sentence where TCP's smoothed RTT is another than the path's; else empty."""
    if not apart(row):
        return ""
    path, tcp = float(row["rtt_p50_ms"] or 0), float(row["srtt_mean_ms"] or 0)
    why = "with what packets wait in the hosts" if tcp > path else "of the segments that it times"
    return (
        f"RTT is that of packets on the path, {path:.3g} ms in the median;"
        f" its sender's TCP smooths {tcp:.3g} ms (srtt), {why}."
    )
