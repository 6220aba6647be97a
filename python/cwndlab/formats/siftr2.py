"""siftr2 logs (`testbeds.logs.siftr2`): a successor of SIFTR outside FreeBSD's base system."""

from __future__ import annotations

from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import siftr, siftr2

NAME = "siftr2"


MARKS = {
    "a header with enable_time_secs= and siftrver=2": rb"enable_time_secs=\d.{0,999}siftrver=2",
    "records by flow ID": rb"^[io],\d+\.\d+,[0-9a-f]{8},|^[0-9a-f]{1,8},[io],",
    "18 or 21 fields in them": rb"^(?:[^,\n]*,){17}(?:(?:[^,\n]*,){3})?[^,\n]*\r?$",
}
"""Marks of a log, in words, and how it is found."""


def recognises(head: bytes) -> bool:
    """Whether the file has siftr2's header, or its records."""
    return siftr.module(head) == "siftr2"


def read(path: Path) -> list[Recording]:
    """The runs of a log: each time that logging began is one.

    Raises InputError for a log without records, or one whose header makes no sense.
    """
    try:
        sessions = siftr2.sessions(base.pieces(path))
        return series.of_sessions(NAME, path, sessions)
    except ValueError as error:
        raise InputError(f"{path}: not a header of siftr2: {error}") from None
