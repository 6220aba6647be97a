"""Applies a patch to a copy of a congestion control's sources, whatever path it calls them by."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cwndlab.errors import InputError
from cwndlab.foreign import compilation, diffs
from cwndlab.foreign.compilation import Request


@contextmanager
def patched(request: Request, patch: Path) -> Iterator[tuple[Request, tuple[str, ...]]]:
    """A copy of what is to be compiled, with the patch applied; and the files that the patch changes besides.

    Raises InputError where no part of the patch is about these files, or one does not apply.
    """
    changes = diffs.by_file(patch)
    with tempfile.TemporaryDirectory(prefix="cwndlab-review-") as scratch:
        copied = _copied(request, Path(scratch))
        own = {path.name: path for path in Path(scratch).rglob("*") if path.is_file()}
        besides: list[str] = []
        for name, change in changes.items():
            place = own.get(PurePosixPath(name).name)
            if place is None:
                besides.append(name)
            else:
                diffs.apply(patch, change, place, place.name)
        if len(besides) == len(changes):
            there = ", ".join(file.name for file in copied.files)
            raise InputError(f"--patch {patch}: changes {', '.join(besides)}, and nothing of {there}")
        yield copied, tuple(besides)


def difference(old: str, new: str) -> str:
    """Difference of two texts, as `diff -u` says it."""
    return "".join(
        difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), "old", "new")
    )


def _copied(request: Request, scratch: Path) -> Request:
    """All that compiling reads, in a directory of its own."""
    return Request.of(f"{request.name}={compilation.inputs_of(request).written(scratch)}")
