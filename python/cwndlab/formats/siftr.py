"""SIFTR logs of FreeBSD (`siftr_output`): told from siftr2's by their records.

The log has no counter of what was delivered or retransmitted, so goodput stays empty. Fields that the `tcp`
table has no place for become samples `siftr.NAME`; those behind the known ones are named by their number.
"""

from __future__ import annotations

from pathlib import Path

from cwndlab import siftr_output
from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording

NAME = "SIFTR"


def recognises(head: bytes) -> bool:
    """Whether the file begins with SIFTR's header, and not with that of siftr2."""
    line = head.split(b"\n", 1)[0]
    return line.startswith(b"enable_time_secs=") and b"siftrver=" in line and not siftr_output.is_siftr2(head)


def read(path: Path) -> list[Recording]:
    """The one run of a log.

    Raises InputError for a log without records, or one whose header makes no sense.
    """
    try:
        log = siftr_output.parse(base.text(path))
    except ValueError as error:
        raise InputError(f"{path}:1: not a header of SIFTR: {error}") from None
    facts, warnings = log.facts, log.warnings
    return [
        series.recording(NAME, path, path.name, log.flows, facts=facts, warnings=warnings, prefix="siftr")
    ]
