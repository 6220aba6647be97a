"""Opens a bundle of anybody's: its paths, sizes and sums are checked, and nothing in it is executed."""

import json
import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from cwndlab.bundle import FORMAT
from cwndlab.errors import InputError
from cwndlab.parts import sums
from cwndlab.parts.sums import Sums

MOST_FILES = 200_000
MOST_BYTES = 64 << 30
"""A bundle above this is refused before it fills the disk."""

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""A file or directory in a bundle: never hidden, never `..`, nothing that a shell or terminal minds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One results directory of a bundle, with the experiment it is of."""

    name: str
    versions: dict[str, str]
    results: Path
    experiment: Path


def unpack(bundle: Path, into: Path) -> list[Entry]:
    """Write the files of a bundle below `into`, an empty directory, and check them against its sums.

    Raises InputError, one line, for an archive with anything but plain files of plain names, one that is cut,
    too large or altered, or of another format.
    """
    try:
        with tarfile.open(bundle, mode="r:gz") as archive:
            _extract(bundle, archive, into)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise InputError(f"{bundle}: is no whole .tar.gz ({error})") from None
    except OSError as error:
        raise InputError(f"{bundle}: {error.strerror or error}") from None
    _check(bundle, into)
    return _entries(bundle, into)


def _extract(bundle: Path, archive: tarfile.TarFile, into: Path) -> None:
    """Write each file ourselves: what a member says of owners, modes, times and links is not looked at."""
    size = 0
    for count, member in enumerate(archive, start=1):
        size += member.size
        if count > MOST_FILES or size > MOST_BYTES:
            raise InputError(f"{bundle}: more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB")
        if member.isdir():
            continue
        words = member.name.split("/")
        if not member.isreg() or len(words) < 2 or not all(map(_WORD.fullmatch, words)):
            raise InputError(f"{bundle}: {member.name[:80]!r} is no plain file below one directory")
        content = archive.extractfile(member)
        assert content is not None  # of a regular file
        target = into.joinpath(*words[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while block := content.read(1 << 20):
                file.write(block)


def _check(bundle: Path, into: Path) -> None:
    """Refuse a bundle whose files are not those that its sums list."""
    there = {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()}
    listed = _listed(bundle, into)
    if odd := sorted(there ^ {*listed, sums.FILE}):
        raise InputError(f"{bundle}: {odd[0]} is not both there and listed in {sums.FILE}")
    for name, digest in listed.items():
        if sums.digest(into / name) != digest:
            raise InputError(f"{bundle}: {name} is not as it was bundled (see {sums.FILE})")


def _listed(bundle: Path, into: Path) -> dict[str, str]:
    try:
        lines = (into / sums.FILE).read_text("ascii").splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        return {name: digest for digest, name in pairs}
    except (OSError, ValueError):
        raise InputError(f"{bundle}: no {sums.FILE}, or no list of digests; is it a bundle?") from None


def _entries(bundle: Path, into: Path) -> list[Entry]:
    try:
        said = json.loads((into / "bundle.json").read_text("utf-8"))
        if said["format"] != FORMAT:
            raise InputError(f"{bundle}: a bundle of format {said['format']!r}; this cwndlab reads {FORMAT}")
        entries = [
            Entry(
                name := str(entry["name"]),
                {str(key): str(value) for key, value in entry["versions"].items()},
                into / "results" / name,
                into / "experiments" / name / "experiment.yaml",
            )
            for entry in said["results"]
            if _WORD.fullmatch(str(entry["name"]))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{bundle}: bundle.json does not say what is in it") from None
    if not entries or not all(entry.results.is_dir() and entry.experiment.is_file() for entry in entries):
        raise InputError(f"{bundle}: bundle.json names results that are not there")
    for entry in entries:
        Sums(entry.results)  # which says what is wrong with results of an older format
    return entries
