"""Unified diffs: their parts by file, each handed to `patch` with the one file that it may change.

A patch names files by paths of somebody else's tree, which are never written to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cwndlab.errors import InputError

FILE = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)
"""Pattern of the place where the changes of a file begin in a unified diff."""

MAX_BYTES = 16 << 20
"""Greatest size of a patch, in bytes."""

PATCH_S = 20.0


def read(patch: Path) -> str:
    """The text of a patch; raises InputError, one line."""
    try:
        if patch.stat().st_size > MAX_BYTES:
            raise InputError(f"--patch {patch}: is larger than {MAX_BYTES >> 20} MiB")
        return patch.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"--patch {patch}: {error.strerror}") from None


def by_file(patch: Path) -> Mapping[str, str]:
    """The parts of a unified diff, by the file that each says it changes."""
    text = read(patch)
    heads = list(FILE.finditer(text))
    parts: dict[str, str] = {}
    for place, head in enumerate(heads):
        end = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        before, after = (line[4:].partition("\t")[0].strip() for line in head[0].splitlines())
        name = before if after == "/dev/null" else after
        parts[name] = parts.get(name, "") + text[head.start() : end]
    if not parts:
        raise InputError(f"--patch {patch}: is no unified diff (diff -u, git diff)")
    return parts


def apply(patch: Path, change: str, place: Path, name: str) -> None:
    """Have `patch` change one file, which errors call by a name of its own."""
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
        raise InputError(f"--patch {patch}: does not apply to {name}: {why}")
    Path(f"{place}.new").replace(place)
