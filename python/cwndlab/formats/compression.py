"""The contents of a file that may be compressed with gzip, xz or zstd, or be UTF-16: its first bytes tell."""

from __future__ import annotations

import codecs
import gzip
import itertools
import lzma
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from cwndlab.errors import InputError

GZIP, XZ, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"

PIECE = 256 << 10
"""Bytes that are read, or decompressed, at once."""

MAX_MEMORY = 256 << 20
"""Memory in bytes that xz may take; `xz -9` needs 65 MiB. zstd's is bounded by 128 MiB."""

MAX_CAPTURE = 16 << 30
"""Bytes at most of a capture in xz or zstd: it is decompressed into a temporary file."""


def beginning(path: Path, most: int) -> bytes:
    """The first `most` bytes in a file, decompressed; raises InputError when it cannot be read."""
    found, left = [], most
    with _read(path) as pieces:
        for piece in pieces:
            found.append(piece[:left])
            left -= len(found[-1])
            if not left:
                break
    return b"".join(found)


def pieces(path: Path, most: int) -> Iterator[bytes]:
    """Read the contents of a file, decompressed, in pieces.

    Raises InputError when it cannot be read, or, once so many have come, for more than `most` bytes.
    """
    left = most
    with _read(path) as found:
        for piece in found:
            left -= len(piece)
            if left < 0:
                raise InputError(f"{path}: holds more than {most >> 20} MiB")
            yield piece


def is_longer(path: Path, most: int) -> bool:
    """Whether a file holds more bytes than so many; none are kept, as what is compressed may be endless."""
    with _read(path) as pieces:
        return any((most := most - len(piece)) < 0 for piece in pieces)


@contextmanager
def _read(path: Path) -> Iterator[Iterator[bytes]]:
    """Read the contents of a file in pieces. Raises InputError, then and while the pieces are read."""
    try:
        # What is read from a device, or a pipe, may never end, and cannot be read twice.
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: {'is a directory' if path.is_dir() else 'is no regular file'}")
        with path.open("rb") as file:
            yield _in_utf8(_pieces(file))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not whole as a {_kind(path)} file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


@contextmanager
def capture_file(path: Path) -> Iterator[Path]:
    """The file of a capture as the engine reads it: itself, or, of one in xz or zstd, what is in it.

    One that is cut off is decompressed as far as it goes. Raises InputError when it cannot be read.
    """
    if not path.is_file() or _kind(path) not in ("xz", "zstd"):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="cwndlab-") as plain:
        left = MAX_CAPTURE
        try:
            with path.open("rb") as file:
                for piece in _pieces(file):
                    left -= len(piece)
                    if left < 0:
                        raise InputError(f"{path}: holds more than {MAX_CAPTURE >> 30} GiB, decompressed")
                    plain.write(piece)
        except EOFError:
            pass
        except (lzma.LZMAError, OSError) as error:
            raise InputError(f"{path}: {error}") from None
        plain.flush()
        yield Path(plain.name)


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    known = {GZIP: "gzip", XZ: "xz", ZSTD: "zstd"}
    return next((name for magic, name in known.items() if start.startswith(magic)), "plain")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Read the contents of a file in pieces. Raises EOFError where the file is cut off."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(XZ):
        yield from _of_xz(file)
    elif start.startswith(ZSTD):
        yield from _of_zstd(file)
    else:
        stream: Any = gzip.GzipFile(fileobj=file) if start.startswith(GZIP) else file
        while piece := stream.read(PIECE):
            yield piece


def _in_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Text without the mark that Windows puts before it, and in UTF-8, whatever the mark says."""
    first = next(pieces, b"")
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(first[:2])
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in itertools.chain([first[2:]], pieces):
        yield decoder.decode(piece).encode()


def _of_xz(file: IO[bytes]) -> Iterator[bytes]:
    waiting = file.read(PIECE)
    while waiting:
        # A file may hold several streams, one behind the other.
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY)
        while not decoder.eof:
            if decoder.needs_input and not waiting:
                waiting = file.read(PIECE)
                if not waiting:
                    raise EOFError("it ends too early")
            piece = decoder.decompress(waiting, PIECE)
            waiting = b""
            if piece:
                yield piece
        # Streams are padded with zeros.
        waiting = (decoder.unused_data or file.read(PIECE)).lstrip(b"\0")


def _of_zstd(file: IO[bytes]) -> Iterator[bytes]:
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.PythonFile(cast(Any, file), mode="r"), "zstd") as stream:
            while piece := stream.read(PIECE):
                yield piece
    except OSError as error:
        if "runcated" in str(error):
            raise EOFError("it ends too early") from None
        raise
