"""siftr2 logs (`siftr2_output`): a successor of SIFTR outside FreeBSD's base system."""

from __future__ import annotations

from pathlib import Path

from cwndlab import siftr2_output, siftr_output
from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording

NAME = "siftr2"


def recognises(head: bytes) -> bool:
    """Whether the file begins with siftr2's header and records."""
    line = head.split(b"\n", 1)[0]
    return line.startswith(b"enable_time_secs=") and b"siftrver=" in line and siftr_output.is_siftr2(head)


def read(path: Path) -> list[Recording]:
    """The one run of a log.

    Raises InputError for a log without records, or one whose header makes no sense.
    """
    try:
        log = siftr2_output.parse(base.data(path))
    except ValueError as error:
        raise InputError(f"{path}:1: not a header of siftr2: {error}") from None
    return [series.recording(NAME, path, path.name, log.flows, facts=log.facts, warnings=log.warnings)]
