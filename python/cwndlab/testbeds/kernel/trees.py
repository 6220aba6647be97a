"""Source trees of Linux: what of one a build reads, its copy, its hash."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError

_BUILD_FILES = re.compile(r"(Kconfig|Makefile|Kbuild|Build)\b.*")
"""Files that a build reads of every folder, whether or not anything there is compiled."""
_MADE = re.compile(
    r".*\.(o|a|ko|cmd|mod|order|symvers|su|gcno|orig|rej)|\.config(\.old)?|\.git.*|\.missing-syscalls\.d"
)
"""Files that a build has made, which are not read."""
_MADE_FOLDERS = {"include/config", "include/generated", ".git", "debian"}
_DRIVERS = ("base", "char", "net", "pci", "tty")
_SHALLOW = ("net", "pci")
"""Folders of drivers of which only the sources at the top are compiled."""
_TOOLS = ("include", "scripts", "build")
_PLAIN = ("Documentation", "samples", "sound", "rust")
"""Top folders of which no source is compiled."""
_OURS = ("arch/um/", "arch/x86/")

INDEX = ".cwndlab-index.json"
"""File of a copy: what each of its files was copied from."""


@dataclass(frozen=True)
class Tree:
    """A source tree."""

    root: Path
    release: str
    """Version of the kernel by its Makefile, such as 6.12.117."""


def read(root: Path) -> Tree:
    """The source tree of a folder; raises InputError where it is none."""
    makefile = root / "Makefile"
    try:
        text = makefile.read_text(encoding="utf-8", errors="replace")[:4000]
    except OSError as error:
        raise InputError(f"{root}: no source tree of Linux: {makefile.name}: {error.strerror}") from None
    words = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *=[ \t]*(\S*)", text, re.MULTILINE))
    if not {"VERSION", "PATCHLEVEL", "SUBLEVEL"} <= words.keys() or not (root / "arch/um").is_dir():
        raise InputError(
            f"{root}: no source tree of Linux: its Makefile has no VERSION, or there is no arch/um"
        )
    numbers = ".".join(words[part] for part in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
    return Tree(root.resolve(), numbers + words.get("EXTRAVERSION", ""))


def files(root: Path) -> Iterator[str]:
    """The files of a tree that a build reads, by path within it, in order."""
    for folder, folders, names in os.walk(root):
        here = os.path.relpath(folder, root)
        here = "" if here == "." else f"{here}/"
        folders[:] = sorted(name for name in folders if _descends(f"{here}{name}"))
        for name in sorted(names):
            if not _MADE.fullmatch(name) and (_BUILD_FILES.fullmatch(name) or _compiles(here)):
                yield here + name


def _descends(folder: str) -> bool:
    return folder not in _MADE_FOLDERS and not folder.endswith("/include/generated")


def _compiles(here: str) -> bool:
    """Whether more of a folder is read than the files of the build; its path ends with a slash."""
    top, _, rest = here.partition("/")
    if top == "drivers":
        below, _, deeper = rest.partition("/")
        return not rest or (below in _DRIVERS and not (below in _SHALLOW and deeper))
    if top == "tools":
        return not rest or rest.startswith(_TOOLS)
    if top == "arch":
        return not rest or here.startswith(_OURS)
    return top not in _PLAIN


def copy(tree: Tree, to: Path) -> str:
    """Make a folder a copy of what of a tree a build reads; returns the hash of that.

    Files that are there and the same keep their time, so that `make` compiles what was changed only.
    """
    index_file = to / INDEX
    try:
        index: dict[str, list[object]] = json.loads(index_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        index = {}
    index_file.unlink(missing_ok=True)
    made: dict[str, list[object]] = {}
    digest = hashlib.sha256()
    for name in files(tree.root):
        source, target = tree.root / name, to / name
        if source.is_symlink():
            sha256 = _link(source, target)
            state: list[object] = [0, 0, sha256]
        else:
            stat = source.stat()
            known = index.get(name)
            state = [stat.st_size, stat.st_mtime_ns, ""]
            if known is not None and known[:2] == state[:2] and _as_copied(target, known):
                state = known
            else:
                state = _copied(source, target, state)
        made[name] = state
        digest.update(f"{name}\0{state[2]}\0".encode("utf-8", "surrogateescape"))
    for name in index.keys() - made.keys():
        (to / name).unlink(missing_ok=True)
    index_file.write_text(json.dumps(made), encoding="utf-8")
    return digest.hexdigest()


def _link(source: Path, target: Path) -> str:
    leads = source.readlink()
    if not (target.is_symlink() and target.readlink() == leads):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(leads)
    return hashlib.sha256(os.fsencode(leads)).hexdigest()


def _as_copied(target: Path, known: list[object]) -> bool:
    """Whether a file of the copy is as it was left: a patch, or we, may have changed it since."""
    try:
        stat = target.stat()
    except OSError:
        return False
    return known[3:] == [stat.st_size, stat.st_mtime_ns]


def _copied(source: Path, target: Path, state: list[object]) -> list[object]:
    data = source.read_bytes()
    if not (target.is_file() and target.read_bytes() == data):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        shutil.copymode(source, target)
    stat = target.stat()
    return [*state[:2], hashlib.sha256(data).hexdigest(), stat.st_size, stat.st_mtime_ns]
