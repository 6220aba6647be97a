"""SIFTR logs of FreeBSD (`testbeds.logs.siftr`): told from siftr2's by their records.

The log has no counter of what was delivered or retransmitted, so goodput stays empty. Fields that the `tcp`
table has no place for become samples `siftr.NAME`; those behind the known ones are named by their number.
"""

from __future__ import annotations

from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import siftr

NAME = "SIFTR"


MARKS = {
    "a header with enable_time_secs=": rb"enable_time_secs=\d",
    "siftrver= in it": rb"enable_time_secs=\d.{0,999}siftrver=",
    "records that begin with i or o, time, addresses and ports": (
        rb"^[io],(?:0x[0-9a-f]+,)?\d+\.\d+,[0-9a-f]*[.:][0-9a-f.:]*,\d+,"
    ),
    "25 to 32 fields in them": rb"^[io],(?:[^,\n]*,){23,30}[^,\n]*\r?$",
}
"""Marks of a log, in words, and how it is found."""


def recognises(head: bytes) -> bool:
    """Whether the file has SIFTR's header, or its records."""
    return siftr.module(head) == "siftr"


def read(path: Path) -> list[Recording]:
    """The runs of a log: each time that logging began is one.

    Raises InputError for a log without records, or one whose header makes no sense.
    """
    try:
        sessions = siftr.sessions(base.pieces(path))
        return series.of_sessions(NAME, path, sessions, prefix="siftr")
    except ValueError as error:
        raise InputError(f"{path}: not a header of SIFTR: {error}") from None
