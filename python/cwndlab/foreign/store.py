"""The store of compiled files, each under the hash of what it was made of and the hash of its own bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled file."""

    file: Path
    sha256: str
    """SHA-256 of the file: whoever loads it compares."""


def folder() -> Path:
    """The folder of compiled files, made unless it is there; raises InputError where others can write it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(base) / "cwndlab" / "cc"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = place.stat()
    except OSError as error:
        raise InputError(f"--cc: {error.filename}: {error.strerror} (XDG_CACHE_HOME says where)") from None
    if state.st_uid != os.getuid() or state.st_mode & 0o002:
        raise InputError(f"--cc: {place}: others can write it; set XDG_CACHE_HOME to a folder of your own")
    return place


def find(made_of: str) -> Compiled | None:
    """Find the file made of the inputs with this hash, and remove any that is not as it was written. None
    where there is none.
    """
    for file in sorted(folder().glob(f"{made_of}-*.so")):
        sha256 = file.stem.partition("-")[2]
        try:
            if hashlib.sha256(file.read_bytes()).hexdigest() == sha256:
                return Compiled(file, sha256)
            file.unlink()
        except FileNotFoundError:
            continue  # another process has removed it
    return None


def put(made_of: str, made: Path) -> Compiled:
    """Keep a file from the same file system: it is whole on the disk before it has its name."""
    with made.open("rb") as data:
        sha256 = hashlib.file_digest(data, "sha256").hexdigest()
        os.fsync(data.fileno())
    place = folder() / f"{made_of}-{sha256}.so"
    made.replace(place)
    above = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
    return Compiled(place, sha256)
