"""Recorded events of FreeBSD's congestion controls, which the example `replay` of crate tcp plays to ours."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[3]
"""The clone: the recordings are in its groundtruth/, the pages of evidence in its docs/."""


def played(directory: Path) -> str:
    """A line of JSON for each file of events below a directory of recordings.

    Raises InputError, with one line, for a file that cannot be understood, and where cargo fails.
    """
    built = ("cargo", "run", "--quiet", "--locked", "--profile", "ci", "-p", "cwndlab-tcp")
    command = [*built, "--example", "replay", "--", str(directory.resolve())]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"cargo: {error.strerror}; it builds what plays recorded events") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(said[-1])
    return done.stdout


def scores(directory: Path) -> Iterator[dict[str, Any]]:
    """The lines that `played` returns, as objects; no program runs where there is no file of events."""
    if any((directory / "freebsd" / "cc-vectors").glob("*.jsonl.gz")):
        yield from map(json.loads, played(directory).splitlines())
