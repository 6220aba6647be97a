"""FreeBSD's own network stack as a guest: compiles a tree of F-Stack, which carries it for user space."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import store

GLUE = Path(__file__).parent / "c" / "guest" / "freebsd"
"""Folder of the machine around the stack, and of the rules that compile both."""

LIBRARY = "freebsd.so"
"""Name of the library that a tree becomes."""

MARKS = ("freebsd/netinet/tcp_input.c", "lib/ff_compat.c")
"""Files that a tree of F-Stack has."""

SIGNS = (" error: ", "undefined reference", " *** ")
"""Signs of the lines in which compilers, linkers and make say what is wrong."""


def compiled(what: str, tree: Path) -> bytes:
    """The library that a tree becomes; what is compiled stays, and a changed file is compiled alone.

    Raises InputError, one line that begins with `what`.
    """
    missing = next((mark for mark in MARKS if not (tree / mark).is_file()), None)
    if missing is not None:
        raise InputError(f"{what}: {tree}: not a tree of F-Stack, which has {missing}")
    make = shutil.which("gmake") or shutil.which("make")
    if make is None:
        raise InputError(f"{what}: compiling FreeBSD's stack needs GNU make, which is not here")
    place = objects(tree)
    if spaced := next((folder for folder in (tree.resolve(), place) if len(str(folder).split()) > 1), None):
        raise InputError(f"{what}: {spaced}: make takes no folder with a space in its name")
    place.mkdir(exist_ok=True)
    made = place / LIBRARY
    options = (f"TREE={tree.resolve()}", f"OUT={made}", f"BUILD={place}", f"JOBS={os.cpu_count() or 1}")
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [make, "--silent", "-C", str(GLUE), *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise InputError(f"{what}: {_first_error(done.stderr)}")
        return made.read_bytes()


def objects(tree: Path) -> Path:
    """Folder of what is compiled of a tree, which is its own."""
    return store.folder() / f"f-stack-{hashlib.sha256(bytes(tree.resolve())).hexdigest()[:16]}"


def _first_error(text: str) -> str:
    """The first line of a compiler, a linker or make that says what is wrong."""
    lines = text.strip().splitlines() or ["make failed"]
    return next((line for line in lines if any(sign in line for sign in SIGNS)), lines[-1])
