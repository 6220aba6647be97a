"""Opens a bundle of anybody's: its paths, sizes and sums are checked, and nothing in it is executed."""

import gzip
import hashlib
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cwndlab.errors import InputError
from cwndlab.formats.bundle import FORMAT
from cwndlab.results import checksums
from cwndlab.results.checksums import Sums

MOST_FILES = 200_000
MOST_BYTES = 64 << 30
"""Size in bytes of the files of a bundle, at most."""

MOST_EXPANSION = 200
"""Number of bytes that a byte of the archive may become, at most; files of results become up to 60."""

MOST_BEFORE_SUMS = 1 << 20
"""Size in bytes of the files that stand in an archive before its list of digests, at most."""

MOST_OF_SUMS = 32 << 20
"""Size in bytes of the list of digests, at most."""

KEPT_FREE = 256 << 20
"""Number of bytes of the disk that a bundle leaves free."""

_BLOCK = 1 << 20
"""Number of bytes read at a time. A header of an archive that asks for more at once is refused."""

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""A file or directory in a bundle: never hidden, never `..`, nothing that a shell or terminal minds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One results directory of a bundle, with the experiment it is of."""

    name: str
    versions: dict[str, str]
    results: Path
    experiment: Path


def unpack(bundle: Path, into: Path, seen: Callable[[int, int], object] | None = None) -> list[Entry]:
    """Write the files of a bundle below `into`, an empty directory, each compared with its digest.

    `seen` is told the number of bytes of the archive that have been read, and of all. Raises InputError, one
    line, for an archive with anything but plain files of plain names, one that is cut, too large or altered,
    or of another format.
    """
    try:
        with bundle.open("rb") as packed, gzip.GzipFile(fileobj=packed) as stream:
            size = bundle.stat().st_size
            source = _Stream(stream, _room(size, into), lambda: seen and seen(packed.tell(), size))
            # The stub asks for methods of a file that is written, too.
            with tarfile.open(fileobj=source, mode="r:") as archive:  # type: ignore[call-overload]
                _Unpacking(into).all_of(archive)
    except _RefusedError as error:
        raise InputError(f"{bundle}: {error}") from None
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise InputError(f"{bundle}: is no whole .tar.gz ({error})") from None
    except (ValueError, RecursionError):  # headers that the module of Python does not look at
        raise InputError(f"{bundle}: is no .tar.gz: a header of a member makes no sense") from None
    except OSError as error:
        raise InputError(f"{bundle}: {error.strerror or error}") from None
    return _entries(bundle, into)


class _RefusedError(Exception):
    """Reason why a bundle is not unpacked, without its name."""


def _room(size: int, into: Path) -> int:
    """Return the number of bytes that an archive of `size` bytes may become."""
    free = max(0, shutil.disk_usage(into).free - KEPT_FREE)
    return min(MOST_BYTES, MOST_EXPANSION * size + _BLOCK, free)


class _Stream:
    """A stream for the reader of an archive: bounded at each read and in all, whatever headers say."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most: int, moved: Callable[[], object]) -> None:
        self._stream = stream
        self._most = most
        self._moved = moved

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _BLOCK:  # a size below 0 would read all there is
            raise _RefusedError(f"a header says that it has {size} bytes; {_BLOCK} are allowed")
        data = self._stream.read(size)
        self._look(self._stream.tell())
        return data

    def seek(self, place: int) -> int:
        self._look(place)
        return self._stream.seek(place)

    def tell(self) -> int:
        return self._stream.tell()

    def _look(self, place: int) -> None:
        if place > self._most:
            raise _RefusedError(
                f"would become more than {self._most >> 20} MiB, which is more than a bundle of its size may "
                "hold or than the disk has free"
            )
        self._moved()


class _Unpacking:
    """The files of an archive on their way to the disk.

    The list of digests stands near the front, so that what it does not list is refused before it is written.
    """

    def __init__(self, into: Path) -> None:
        self._into = into
        self._listed: dict[str, str] | None = None
        self._before: dict[str, str] = {}
        """Digests of the files before the list."""
        self._room_before = MOST_BEFORE_SUMS

    def all_of(self, archive: tarfile.TarFile) -> None:
        """Write every file; what a member says of owners, modes, times and links is not looked at."""
        written = set()
        directories = 0
        while (member := archive.next()) is not None:
            # The list of all members, which the stub lacks, would grow with the archive.
            archive.members.clear()  # type: ignore[attr-defined]
            if member.isdir():
                directories += 1
                if directories > MOST_FILES:
                    raise _RefusedError(f"holds more than {MOST_FILES} directories")
                continue
            words = member.name.split("/")
            plain = member.isreg() and not member.issparse() and len(words) > 1
            if not plain or not all(map(_WORD.fullmatch, words)):
                raise _RefusedError(f"{member.name[:80]!r} is no plain file below one directory")
            name = "/".join(words[1:])
            if name in written:
                raise _RefusedError(f"{name} is there twice")
            written.add(name)
            content = archive.extractfile(member)
            assert content is not None  # of a regular file
            self._take(name, member.size, content)
        if self._listed is None:
            raise _RefusedError(f"no {checksums.FILE}; is it a bundle?")
        if missing := self._listed.keys() - written:
            raise _RefusedError(f"{min(missing)} is listed in {checksums.FILE} and not there")

    def _take(self, name: str, size: int, content: IO[bytes]) -> None:
        if name == checksums.FILE:
            if size > MOST_OF_SUMS:
                raise _RefusedError(f"{checksums.FILE} has {size} bytes; {MOST_OF_SUMS} are allowed")
            self._write(name, content)
            self._listed = _listed(self._into)
            for earlier, digest in self._before.items():
                self._compare(earlier, digest)
            return
        if self._listed is None:
            self._room_before -= size
            if self._room_before < 0 or len(self._before) > 100:
                raise _RefusedError(f"{checksums.FILE} does not stand at its front; is it a bundle?")
            self._before[name] = self._write(name, content)
            return
        if name not in self._listed:
            raise _RefusedError(f"{name} is not listed in {checksums.FILE}")
        self._compare(name, self._write(name, content))

    def _write(self, name: str, content: IO[bytes]) -> str:
        """Write a file; return its SHA-256."""
        target = self._into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with target.open("xb") as file:
            while block := content.read(_BLOCK):
                digest.update(block)
                file.write(block)
        return digest.hexdigest()

    def _compare(self, name: str, digest: str) -> None:
        assert self._listed is not None
        if self._listed.get(name) != digest:
            raise _RefusedError(f"{name} is not as it was bundled (see {checksums.FILE})")


def _listed(into: Path) -> dict[str, str]:
    try:
        lines = (into / checksums.FILE).read_text("ascii").splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        listed = {name: digest for digest, name in pairs}
    except (OSError, ValueError):
        raise _RefusedError(f"{checksums.FILE} is no list of digests; is it a bundle?") from None
    if len(listed) > MOST_FILES:
        raise _RefusedError(f"{checksums.FILE} lists {len(listed)} files; {MOST_FILES} are allowed")
    return listed


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
