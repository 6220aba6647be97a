"""Files that stand beside an experiment: mahimahi traces, netem's tables of delays, datagrams, and sizes."""

from __future__ import annotations

import re
from pathlib import Path

from cwndlab.errors import shown
from cwndlab.experiment.units import BadValue

MAX_BYTES = 16 << 20
"""Largest file that is read."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
"""Plain names only: a file beside the experiment and nowhere else."""
TRACE_BYTES = 1504
"""Bytes that leave at each opportunity of a mahimahi trace (mahimahi packetshell, PACKET_SIZE)."""
TRACE_OVERHEAD = 4
"""Bytes that mahimahi counts beside an IP packet: those that a TUN device puts before it (linux/if_tun.h,
struct tun_pi), so that an opportunity carries one packet of 1500 bytes."""
DATAGRAMS_HEAD = "interval_ms,bytes"
SIZES_HEAD = "bytes"
MAX_DATAGRAMS = 1_000_000
"""Datagrams or sizes of a file at most, as the engine takes them."""
MAX_DEVIATIONS = 16384
"""Entries of a table of delays at most (iproute2 tc/q_netem.c, MAX_DIST)."""


def trace(experiment: str, name: str) -> tuple[list[int], int]:
    """Return the times of a mahimahi trace's opportunities and when it starts again, both in ns.

    A line holds a time in ms; times do not decrease, and the last one is the length of the trace. Raises
    `BadValue`.
    """
    times = _integers(experiment, name)
    if not times or times[-1] == 0 or times[0] < 0 or times != sorted(times):
        raise BadValue(f"the content of {name}", "times in ms that do not decrease, the last above 0")
    return [time * 10**6 for time in times], times[-1] * 10**6


def deviations(experiment: str, name: str) -> list[int]:
    """Return the entries of a table of delays, in 1/8192 of the standard deviation.

    The format is that of ``tc``'s distribution files: integers, and comments from ``#``. Raises `BadValue`.
    """
    entries = _integers(experiment, name)
    if not entries or len(entries) > MAX_DEVIATIONS or not all(-(1 << 15) <= e < 1 << 15 for e in entries):
        raise BadValue(f"the content of {name}", f"1 to {MAX_DEVIATIONS} whole numbers of 16 bits")
    return entries


def datagrams(experiment: str, name: str) -> list[tuple[int, int]]:
    """Return the datagrams of a CSV file: ns to the next one, and bytes of payload.

    Its first line is ``interval_ms,bytes``; every other holds a time in ms and a whole number. Raises
    `BadValue`.
    """
    head, *lines = _text(experiment, name).splitlines() or [""]
    if head.strip() != DATAGRAMS_HEAD:
        raise BadValue(f"{shown(head[:40])} as the first line of {name}", DATAGRAMS_HEAD)
    rows = []
    for line in filter(str.strip, lines):
        match = re.fullmatch(r"([0-9]{1,7})(?:\.([0-9]{1,6}))? *, *([0-9]{1,5})", line.strip())
        if match is None:
            raise BadValue(f"{shown(line[:40])} in {name}", "a time in ms and bytes, such as 40.5,120")
        rows.append((int(match[1]) * 10**6 + int((match[2] or "").ljust(6, "0")), int(match[3])))
    if not 1 <= len(rows) <= MAX_DATAGRAMS or not any(interval for interval, _ in rows):
        raise BadValue(f"{len(rows)} datagrams in {name}", f"1 to {MAX_DATAGRAMS}, not all at once")
    return rows


def sizes(experiment: str, name: str) -> list[int]:
    """Return the sizes of a CSV file: its first line is ``bytes``, every other a whole number.

    Raises `BadValue`.
    """
    head, *lines = _text(experiment, name).splitlines() or [""]
    if head.strip() != SIZES_HEAD:
        raise BadValue(f"{shown(head[:40])} as the first line of {name}", SIZES_HEAD)
    found = []
    for line in filter(str.strip, lines):
        if not re.fullmatch("0*[1-9][0-9]{0,14}", line.strip()):
            raise BadValue(f"{shown(line[:40])} in {name}", "a number of bytes above 0, such as 14600")
        found.append(int(line))
    if not 1 <= len(found) <= MAX_DATAGRAMS:
        raise BadValue(f"{len(found)} sizes in {name}", f"1 to {MAX_DATAGRAMS}")
    return found


def _integers(experiment: str, name: str) -> list[int]:
    words = [word for line in _text(experiment, name).splitlines() for word in line.partition("#")[0].split()]
    for word in words:
        if not re.fullmatch("-?[0-9]{1,12}", word):
            raise BadValue(f"{shown(word[:40])} in {name}", "whole numbers")
    return [int(word) for word in words]


def _text(experiment: str, name: str) -> str:
    """Return the text of a file beside the experiment."""
    if not NAME.fullmatch(name):
        raise BadValue(shown(name), "the name of a file beside the experiment")
    path = Path(experiment).parent / name
    try:
        if path.exists() and not path.is_file():
            raise BadValue(f"{name}, which is no regular file", "a text file beside the experiment")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadValue(f"{name} of {path.stat().st_size} bytes", f"at most {MAX_BYTES}")
        return data.decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a text file"
        raise BadValue(f"{name}: {reason}", "a text file beside the experiment") from None
