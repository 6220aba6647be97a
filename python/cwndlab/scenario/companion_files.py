"""Files that stand beside an experiment: mahimahi traces and netem's tables of delays."""

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


def _integers(experiment: str, name: str) -> list[int]:
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
        text = data.decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a text file"
        raise BadValue(f"{name}: {reason}", "a text file beside the experiment") from None
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    for word in words:
        if not re.fullmatch("-?[0-9]{1,12}", word):
            raise BadValue(f"{shown(word[:40])} in {name}", "whole numbers")
    return [int(word) for word in words]
