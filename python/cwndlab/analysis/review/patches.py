"""Applies a patch to a copy of a congestion control's sources.

A patch names files by paths of somebody else's tree. Those paths are never used: each part of the patch is
handed to `patch` with the one file that it may change, a copy in a temporary directory.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cwndlab.errors import InputError
from cwndlab.foreign import compilation
from cwndlab.foreign.compilation import Request

FILE = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)
"""Pattern of the place where the changes of a file begin in a unified diff."""

MAX_BYTES = 16 << 20
"""Greatest size of a patch, in bytes."""

PATCH_S = 20.0


@contextmanager
def patched(request: Request, patch: Path) -> Iterator[tuple[Request, tuple[str, ...]]]:
    """A copy of what is to be compiled, with the patch applied; and the files that the patch changes besides.

    Raises InputError where no part of the patch is about these files, or one does not apply.
    """
    changes = _by_file(patch)
    with tempfile.TemporaryDirectory(prefix="cwndlab-review-") as scratch:
        copied = _copied(request, Path(scratch))
        own = {path.name: path for path in Path(scratch).rglob("*") if path.is_file()}
        besides: list[str] = []
        for name, change in changes.items():
            place = own.get(PurePosixPath(name).name)
            if place is None:
                besides.append(name)
            else:
                _apply(patch, change, place)
        if len(besides) == len(changes):
            there = ", ".join(file.name for file in copied.files)
            raise InputError(f"--patch {patch}: changes {', '.join(besides)}, and nothing of {there}")
        yield copied, tuple(besides)


def difference(old: str, new: str) -> str:
    """Difference of two texts, as `diff -u` says it."""
    return "".join(
        difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), "old", "new")
    )


def _by_file(patch: Path) -> Mapping[str, str]:
    """The parts of a unified diff, by the file that each says it changes."""
    try:
        if patch.stat().st_size > MAX_BYTES:
            raise InputError(f"--patch {patch}: is larger than {MAX_BYTES >> 20} MiB")
        text = patch.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"--patch {patch}: {error.strerror}") from None
    heads = list(FILE.finditer(text))
    parts: dict[str, str] = {}
    for place, head in enumerate(heads):
        end = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        name = head[0].splitlines()[1].removeprefix("+++ ").partition("\t")[0].strip()
        parts[name] = parts.get(name, "") + text[head.start() : end]
    if not parts:
        raise InputError(f"--patch {patch}: is no unified diff (diff -u, git diff)")
    return parts


def _copied(request: Request, scratch: Path) -> Request:
    """All that compiling reads, in a directory of its own."""
    return Request.of(f"{request.name}={compilation.inputs_of(request).written(scratch)}")


def _apply(patch: Path, change: str, place: Path) -> None:
    """Have `patch` change one file, which it is told by name."""
    program = shutil.which("patch")
    if program is None:
        raise InputError("--patch: the program patch is not here (on Debian: apt install patch)")
    try:
        done = subprocess.run(
            [program, "-u", "-N", "-t", "-r", "-", "-o", f"{place}.new", str(place)],
            input=change.encode("utf-8", "surrogateescape"),
            capture_output=True,
            cwd=place.parent,
            timeout=PATCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"--patch {patch}: patch takes more than {PATCH_S:.0f} s") from None
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        why = next(
            (line for line in said if "FAILED" in line or "malformed" in line), said[-1] if said else ""
        )
        raise InputError(f"--patch {patch}: does not apply to {place.name}: {why}")
    Path(f"{place}.new").replace(place)
