"""SHA256SUMS: what the files of a directory hash to, in the form of `sha256sum`, checked before one is read.

A directory of results has one for its own files, and each part one for its. Whatever happens to a file's
bytes, it is refused before anything takes them for data.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.results import files

FILE = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  ([!-.0-~]+)")
"""A digest and a name, which is no path. Names of files are quoted where they hold other characters."""


class Sums:
    """The digests that a directory's files may have, as its SHA256SUMS says.

    A file has two while it is being replaced. Raises InputError, one line, for a directory without the file,
    and for one with another line in it.
    """

    def __init__(self, directory: Path) -> None:
        """Read those of `directory`."""
        self.directory = directory
        self._listed = _read(directory)
        self._checked: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The files, in the order they are listed."""
        return list(self._listed)

    def digests(self, name: str) -> list[str]:
        """The digests that a file may have, unless its name is not listed."""
        return self._listed.get(name, [])

    def load(self, name: str) -> bytes:
        """The bytes of a file; raises InputError unless they are those that were written."""
        data = _bytes(self.directory / name)
        self._compare(name, sha256(data))
        return data

    def check(self, name: str) -> None:
        """Raises InputError unless a file is as it was written; reads it once, however often asked."""
        if name not in self._checked:
            self._compare(name, digest(self.directory / name))
            self._checked.add(name)

    def _compare(self, name: str, found: str) -> None:
        if name not in self._listed:
            raise damaged(self.directory / name, f"{FILE} does not list it")
        if found not in self._listed[name]:
            raise damaged(self.directory / name, f"is not as it was written (see {FILE})")


def digest(file: Path) -> str:
    """The SHA-256 of a file in hexadecimal; raises InputError if it cannot be read."""
    try:
        _regular(file)
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise damaged(file, error.strerror or str(error)) from None


def sha256(data: bytes) -> str:
    """The SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def seal(directory: Path, names: Iterable[str]) -> None:
    """Write the SHA256SUMS of files that are there."""
    files.replace(directory / FILE, _text({name: [digest(directory / name)] for name in names}))


def replace(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write files and their digests, so that the directory can be read whenever the machine stops.

    Both the old and the new digest of a file are listed while it is replaced.
    """
    before = _read(directory) if (directory / FILE).exists() else {}
    new = {name: [sha256(data)] for name, data in contents.items()}
    both = {name: [*before.get(name, []), *new.get(name, [])] for name in {**before, **new}}
    files.replace(directory / FILE, _text(both))
    for name, data in contents.items():
        files.replace(directory / name, data)
    files.replace(directory / FILE, _text(before | new))


def damaged(file: Path, reason: str) -> InputError:
    """Return the error for a file of results that cannot be trusted."""
    return InputError(f"{file}: {reason}; the results are damaged")


def _bytes(file: Path) -> bytes:
    try:
        _regular(file)
        return file.read_bytes()
    except OSError as error:
        raise damaged(file, error.strerror or str(error)) from None


def _regular(file: Path) -> None:
    """Refuse what could be read without end; what is not there is left to the reader."""
    if file.exists() and not file.is_file():
        raise OSError(0, "is no file")


def _read(directory: Path) -> dict[str, list[str]]:
    file = directory / FILE
    if not os.path.lexists(file):
        raise InputError(
            f"{directory}: {FILE} is not there; results of format 2 and before have none: read them with the "
            "version of cwndlab that wrote them, or run the experiment again"
        )
    try:
        text = _bytes(file).decode("ascii")
    except UnicodeDecodeError:
        raise damaged(file, "is no list of digests") from None
    listed: dict[str, list[str]] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise damaged(file, f"line {number} is no digest and name")
        listed.setdefault(found[2], []).append(found[1])
    if not text.endswith("\n"):
        raise damaged(file, "was cut")
    return listed


def _text(listed: Mapping[str, Iterable[str]]) -> bytes:
    return "".join(f"{sha}  {name}\n" for name, shas in listed.items() for sha in shas).encode("ascii")
