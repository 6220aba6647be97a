"""Capture files as they are opened: two that hold a direction each are one capture, and the control
connection of iperf3 is no flow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import _native
from cwndlab.errors import InputError
from cwndlab.formats import compression

Ends = tuple[str, int, str, int]
"""Address and port of the sender, then of the receiver."""

CONTROL_SHARE = 0.01
"""Payload of iperf3's control connection at most, as a share of that of a connection with data: it holds the
parameters and the results, and single bytes in between."""

KINDS = 8
"""Kinds of packets without TCP that are named."""


@dataclass(frozen=True)
class Opened:
    """A capture: one file, or two that hold a direction each."""

    path: Path
    capture: _native.Capture
    beside: Path | None = None

    @property
    def name(self) -> str:
        """The file's name; of two files both."""
        return self.path.name if self.beside is None else f"{self.path.name} with {self.beside.name}"


def open_all(paths: Sequence[Path]) -> list[Opened]:
    """The captures in files, in their order.

    A file that holds one direction of every connection belongs to one that holds the other: that with
    `.reverse` in its name, as testbed `netns` writes them, or the only one there is. Raises InputError for
    one that cannot be read.
    """
    pairs = len(paths) > 1
    opened = [_open(path, None, pairs=pairs) for path in paths]
    sent = [_sent_one_way(found.capture) for found in opened]
    partners: dict[int, int] = {}
    for place, ends in enumerate(sent):
        others = [
            other
            for other, theirs in enumerate(sent)
            if other not in partners and theirs and ends and not theirs.isdisjoint(map(_turned, ends))
        ]
        named = [other for other in others if paths[other] == reverse_of(paths[place])]
        named += [other for other in others if paths[place] == reverse_of(paths[other])]
        chosen = named or (
            others if len(others) == 1 and sum(_meet(ends, them) for them in sent) == 1 else []
        )
        if chosen and place not in partners:
            partners[place], partners[chosen[0]] = chosen[0], place
    for place, other in partners.items():
        if place < other:
            # The one that is not called the reverse stands for both.
            first, second = (other, place) if reverse_of(paths[other]) == paths[place] else (place, other)
            opened[place] = _open(paths[first], paths[second], pairs=pairs)
    return [found for place, found in enumerate(opened) if partners.get(place, place) >= place]


def open_with_reverse(path: Path) -> Opened:
    """A capture, with that of the other direction if it lies beside it (`.reverse` in its name).

    Raises InputError for one that cannot be read.
    """
    other = reverse_of(path)
    return open_all([path, other] if other.is_file() else [path])[0]


def passed_over(skipped: _native.NotUsed) -> list[str]:
    """Name the packets of a capture that were not used, a phrase each."""
    other, fragments, cut, malformed, ends = skipped
    kinds = ", ".join(f"{count} {what}" for what, count in sorted(other, key=lambda kind: -kind[1])[:KINDS])
    more = f", {len(other) - KINDS} more kinds" if len(other) > KINDS else ""
    said = [
        (other, f"{sum(count for _, count in other)} packets not read as TCP: {kinds}{more}"),
        (fragments, f"{fragments} fragments without a TCP header"),
        (cut, f"{cut} packets of which the capture holds too little"),
        (malformed, f"{malformed} malformed packets"),
        (ends, "ends in the middle of a record"),
    ]
    return [text for count, text in said if count]


def without_packets(skipped: _native.NotUsed) -> str:
    """Reason why a capture shows no TCP packet, as a phrase."""
    return "no TCP packet in this capture: " + ("; ".join(passed_over(skipped)) or "it is empty")


def without_data(capture: _native.Capture) -> str:
    """Reason why a capture shows no flow, as a phrase."""
    entries = capture.connections()
    packets = sum(entry[way]["packets"] for entry in entries for way in ("forward", "backward"))
    if not packets:
        return without_packets(capture.skipped())
    return "; ".join([f"none of its {packets} TCP packets has data", *passed_over(capture.skipped())])


def is_one_way(capture: _native.Capture) -> bool:
    """Whether a capture holds one direction of every connection."""
    return bool(_sent_one_way(capture))


def control_connections(capture: _native.Capture) -> set[int]:
    """Find the control connections of iperf3, by number.

    Such a connection goes from the same host to the same port as one that carries data one way, holds little
    beside it, and in both directions single bytes, by which client and server tell what comes next. (Its
    beginning may be older than the capture, and its payload cut off.)
    """
    entries = capture.connections()
    services: dict[tuple[str, frozenset[Any]], list[int]] = {}
    for number, entry in enumerate(entries):
        for host, service in (
            (entry["source"], (entry["target"], entry["target_port"])),
            (entry["target"], (entry["source"], entry["source_port"])),
        ):
            services.setdefault((host, frozenset(service)), []).append(number)
    found = set()
    for numbers in services.values():
        data = [_payload(entries[number]) for number in numbers if _carries_data(entries[number])]
        for number in numbers:
            mine = entries[number]
            small = any(_payload(mine) <= CONTROL_SHARE * payload for payload in data)
            if small and not _carries_data(mine) and _has_single_bytes(capture, number):
                found.add(number)
    return found


def _carries_data(entry: Mapping[str, Any]) -> bool:
    """Whether a connection carries data one way; iperf3's own begin with a cookie of 37 bytes."""
    return 0 in (entry["forward"]["payload_bytes"], entry["backward"]["payload_bytes"])


def _payload(entry: Mapping[str, Any]) -> int:
    return int(entry["forward"]["payload_bytes"] + entry["backward"]["payload_bytes"])


def _has_single_bytes(capture: _native.Capture, number: int) -> bool:
    sizes = (
        pa.record_batch(capture.data(number, backward))["bytes"].to_numpy() for backward in (False, True)
    )
    return all(bool(np.any(size == 1)) for size in sizes)


def _open(path: Path, beside: Path | None, *, pairs: bool) -> Opened:
    try:
        with compression.capture_file(path) as plain, compression.capture_file(beside or path) as other:
            found = _native.Capture(str(plain), pairs, None if beside is None else str(other))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return Opened(path, found, beside)


def _sent_one_way(capture: _native.Capture) -> set[Ends]:
    """Find who sent to whom, if every connection holds only one direction; else nothing."""
    found = set()
    for entry in capture.connections():
        ends = (entry["source"], entry["source_port"], entry["target"], entry["target_port"])
        there, back = entry["forward"]["packets"] > 0, entry["backward"]["packets"] > 0
        if there and back:
            return set()
        found.add(ends if there else _turned(ends))
    return found


def _turned(ends: Ends) -> Ends:
    return (ends[2], ends[3], ends[0], ends[1])


def _meet(ends: set[Ends], others: set[Ends]) -> bool:
    return not others.isdisjoint(map(_turned, ends))


def reverse_of(path: Path) -> Path:
    """Name of the file with the capture of the other direction."""
    ends = r"(.*?)((?:\.(?:pcap|pcapng|dmp|cap))?(?:\.(?:gz|xz|zst))?)"
    stem, suffix = re.fullmatch(ends, path.name).groups()  # type: ignore[union-attr]
    return path.with_name(f"{stem}.reverse{suffix}")
