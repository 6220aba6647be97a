"""The kernels' own counters of TCP and IP, as nstat(8) and `netstat -s` show them, before and after a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise

from cwndlab.errors import RunError

FILE = "counters.json"
"""File of the counters that changed in a run."""


def changed(texts: Mapping[str, tuple[str, str]]) -> bytes:
    """The JSON text of the counters that changed, before and after, by host, from what the kernel printed."""
    found = {}
    for host, (before, after) in texts.items():
        try:
            then, now = read(before), read(after).items()
        except (ValueError, LookupError):
            raise RunError(f"host {host}: its counters of TCP and IP make no sense") from None
        found[host] = {name: [then.get(name, 0), value] for name, value in now if value != then.get(name, 0)}
    return json.dumps(found, indent=1).encode()


def read(text: str) -> dict[str, int]:
    """Counters of Linux's files by names such as `TcpExt.TCPTimeouts` and `Ip6.OutRequests`, or those of
    `netstat -sp tcp` by their words."""
    lines = text.splitlines()
    found = {}
    for names, values in pairwise(lines):
        table, colon, rest = names.partition(":")
        if colon and values.startswith(f"{table}:") and not rest.split()[0].lstrip("-").isdigit():
            numbers = values.partition(":")[2].split()
            pairs = zip(rest.split(), numbers, strict=True)
            found.update({f"{table}.{name}": int(number) for name, number in pairs})
    for group, name, number in re.findall(r"^(\w+?6)(\w+)\s+(\d+)$", text, re.MULTILINE):
        found[f"{group}.{name}"] = int(number)
    if found:
        return found
    for line in lines:
        if match := re.match(r"\s+(\d+) (.+)", line):
            found[re.sub(r"\s*\([^)]*\d[^)]*\)", "", match[2]).strip()] = int(match[1])
    return found
