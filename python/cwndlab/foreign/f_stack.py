"""FreeBSD's own network stack as a guest: compiles a tree of F-Stack, which carries it for user space."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from cwndlab.errors import InputError
from cwndlab.foreign import dependencies, diffs, store

GLUE = Path(__file__).parent / "c" / "guest" / "freebsd"
"""Folder of the machine around the stack, and of the rules that compile both."""

LIBRARY = "freebsd.so"
"""Name of the library that a tree becomes."""

MARKS = ("freebsd/netinet/tcp_input.c", "lib/ff_compat.c")
"""Files that a tree of F-Stack has."""

PARTS = ("freebsd", "lib", "mk")
"""Folders of a tree that a build reads. FreeBSD's own tree calls the first `sys`."""

SIGNS = (" error: ", "undefined reference", " *** ")
"""Signs of the lines in which compilers, linkers and make say what is wrong."""


@dataclass(frozen=True)
class Built:
    """A library, and what it was made of."""

    linked: bytes
    tree_sha256: str
    """SHA-256 of the tree's files that the compiler read, without the patch."""
    change: str = ""
    """Text of the patch on top; empty without one."""

    @property
    def made_of(self) -> str:
        """The hashes of tree and patch, for results."""
        patch = hashlib.sha256(self.change.encode("utf-8", "surrogateescape")).hexdigest()
        return f"tree {self.tree_sha256[:16]}" + (f", patch {patch[:16]}" if self.change else "")


def compiled(what: str, tree: Path, patch: Path | None = None) -> Built:
    """The library that a tree becomes, with a patch on top; the tree stays as it is.

    What is compiled stays, and a changed file is compiled alone. Raises InputError, one line that begins with
    `what` or names the patch.
    """
    missing = next((mark for mark in MARKS if not (tree / mark).is_file()), None)
    if missing is not None:
        raise InputError(f"{what}: {tree}: not a tree of F-Stack, which has {missing}")
    place, whole = objects(tree), tree.resolve()
    if spaced := next((folder for folder in (whole, place) if len(str(folder).split()) > 1), None):
        raise InputError(f"{what}: {spaced}: make takes no folder with a space in its name")
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.folder()) as scratch, (place / "lock").open("w") as lock:
        if patch is not None:
            _mirror_with(patch, whole, Path(scratch) / "tree")
        fcntl.flock(lock, fcntl.LOCK_EX)
        own = Built(_made(what, whole, place), _read_sha256(place))
        return own if patch is None else _patched(own, patch, place, Path(scratch))


def objects(tree: Path) -> Path:
    """Folder of what is compiled of a tree, which is its own."""
    return store.folder() / f"f-stack-{hashlib.sha256(bytes(tree.resolve())).hexdigest()[:16]}"


def left_out(tree: Path, patch: Path) -> tuple[str, ...]:
    """Files that a patch changes and the kernel is not made of, such as manual pages. Raises InputError."""
    used = "".join(_changes(tree, patch).values())
    return tuple(name for name, change in diffs.by_file(patch).items() if change not in used)


def _changes(tree: Path, patch: Path) -> Mapping[str, str]:
    """The parts of a patch by the file of the tree that each changes.

    Raises InputError where the tree lacks a file of the kernel, and where none is changed.
    """
    found: dict[str, str] = {}
    others: list[str] = []
    for name, change in diffs.by_file(patch).items():
        if place := _place(tree, PurePosixPath(name).parts, change):
            found[place] = found.get(place, "") + change
        elif {"sys", *PARTS[:1]} & set(PurePosixPath(name).parts[:2]):
            raise InputError(f"--patch {patch}: {name}: {tree} has no such file")
        else:
            others.append(name)
    if not found:
        raise InputError(f"--patch {patch}: changes {', '.join(others)}, and nothing of {tree}")
    return found


def _place(tree: Path, parts: tuple[str, ...], change: str) -> str | None:
    """Path within the tree of what a patch calls by a path within some tree. None where it is not there."""
    if ".." in parts or parts[0] == "/":
        return None
    is_new = change.startswith("--- /dev/null")
    for start in range(len(parts) - 1):
        first, rest = parts[start], parts[start + 1 :]
        tries = [(first, *rest), (PARTS[0], first, *rest)]
        if first == "sys":
            tries.insert(0, (PARTS[0], *rest))
        for path in tries:
            there = tree.joinpath(*path)
            if path[0] in PARTS and (there.is_file() or (is_new and there.parent.is_dir())):
                return "/".join(path)
    return None


def _patched(own: Built, patch: Path, place: Path, scratch: Path) -> Built:
    """The library of the patched tree in a folder, made beside what was compiled of the tree itself."""
    change = diffs.read(patch)
    digest = hashlib.sha256(own.linked + replace(own, change=change).made_of.encode())
    if found := store.find(digest.hexdigest()):
        return replace(own, linked=found.file.read_bytes(), change=change)
    changed, work = scratch / "tree", scratch / "objects"
    shutil.copytree(place, work, symlinks=True)
    for part in ("freebsd", "mk"):
        (work / part).unlink()
        (work / part).symlink_to(changed / part)
    library = _made(f"--patch {patch}", changed, work)
    store.put(digest.hexdigest(), work / LIBRARY)
    return replace(own, linked=library, change=change)


def _mirror_with(patch: Path, tree: Path, place: Path) -> None:
    """Make a folder that is a tree with a patch on top. Raises InputError where the patch does not apply."""
    changes = _changes(tree, patch)
    _mirror(tree, place, [PurePosixPath(name).parts for name in changes])
    for name, change in changes.items():
        diffs.apply(patch, change, place / name, name)


def _mirror(tree: Path, place: Path, files: list[tuple[str, ...]]) -> None:
    """Make a folder that is a tree by links, but for copies of some files and for the folders above them."""
    place.mkdir()
    within: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in files:
        within.setdefault(first, []).append(tuple(rest))
    for entry in tree.iterdir():
        if entry.name not in within:
            (place / entry.name).symlink_to(entry)
    for name, below in within.items():
        if below != [()]:
            _mirror(tree / name, place / name, below)
        elif (tree / name).is_file():
            shutil.copyfile(tree / name, place / name)
        else:
            (place / name).touch()


def _made(what: str, tree: Path, place: Path) -> bytes:
    """Have make compile a tree in a folder."""
    make = shutil.which("gmake") or shutil.which("make")
    if make is None:
        raise InputError(f"{what}: compiling FreeBSD's stack needs GNU make, which is not here")
    made = place / LIBRARY
    options = (f"TREE={tree}", f"OUT={made}", f"BUILD={place}", f"JOBS={os.cpu_count() or 1}")
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


def _read_sha256(place: Path) -> str:
    """Hash of the tree's files that the compiler read, by path and content, as it told make."""
    lib = place / "lib"
    rules = "\n".join(path.read_text(errors="surrogateescape") for path in sorted(lib.glob("*.d")))
    digest = hashlib.sha256()
    for path in sorted({os.path.normpath(path) for path in dependencies.dependencies(rules)}):
        if not path.startswith("/"):
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0")
            digest.update(hashlib.sha256((lib / path).read_bytes()).digest())
    return digest.hexdigest()


def _first_error(text: str) -> str:
    """The first line of a compiler, a linker or make that says what is wrong; paths are those of the tree."""
    lines = text.strip().splitlines() or ["make failed"]
    others = [line for line in lines if not re.match(r"g?make(\[\d+\])?: ", line)] or lines
    return next((line for line in lines if any(sign in line for sign in SIGNS)), others[-1]).removeprefix(
        "../"
    )
