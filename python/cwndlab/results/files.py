"""Writing files so that each is as before or whole, and errors that name the file they are about."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file or directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that it is either as before or whole, whenever the machine stops or the disk is full.

    A symlink at `path` is replaced, never followed. Raises OSError that names `path`.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with naming(path):
        try:
            aside.unlink(missing_ok=True)
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(data)
            sync(aside)
            aside.replace(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        sync(path.parent)


def save(path: Path, data: bytes) -> None:
    """Write a file that a user named: as `replace`, but through a symlink, and into what is no file as it is.

    So `-o /dev/stdout` works. Raises OSError that names `path`.
    """
    if path.exists() and not path.is_file():
        with naming(path), path.open("wb") as file:
            file.write(data)
    else:
        replace(path.resolve() if path.is_symlink() else path, data)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let every OSError name `path`, whatever file it was about: one written aside, or none."""
    try:
        yield
    except OSError as error:
        if error.filename == str(path):
            raise
        # Arrow's errors are long, and have the number.
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise OSError(error.errno or 0, reason, str(path)) from None
