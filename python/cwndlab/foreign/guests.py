"""Guests from outside: other people's transport protocols, in C that exports `cwndlab_guest`."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import GUEST, Module, compilation, dependencies, f_stack, statics, store, trial
from cwndlab.foreign.dependencies import Inputs
from cwndlab.foreign.store import Compiled

FLAGS = ("-fPIC", "-O2", "-shared", "-fvisibility=hidden", "-Wl,-z,now", "-Wl,-z,defs")
"""Options of the compiler for a guest in C."""

PARTS = ("cwndlab", "guest")
"""Folders of what stands between a guest and the engine."""

LIBRARIES = (".so", ".dylib")


def build(name: str, source: str, *, private: bool = False, patch: Path | None = None) -> Module:
    """The guest of a `--guest NAME=SOURCE`, by the stack's name, a tree's with a patch on top.

    Raises InputError, one line.
    """
    own = name.removeprefix(GUEST)
    what = f"--guest {own}"
    if not compilation.NAME.fullmatch(own) or not source:
        raise InputError(
            f"--guest: found {f'{own}={source}'!r}; expected NAME=FILE.so, NAME=FILE.c or NAME=TREE"
        )
    file = Path(source)
    if not file.exists():
        raise InputError(f"{what}: {file}: there is no such file")
    compiler = compilation.compiler_of(name)
    tree = f_stack.compiled(what, file, patch) if file.is_dir() else None
    data = tree.linked if tree else file.read_bytes()
    is_library = tree is not None or source.endswith(LIBRARIES)
    library = data if is_library else _compiled(what, file, compiler)
    file_name = f_stack.LIBRARY if tree else file.name
    compiled = _around(what, library, compiler)
    described = trial.describe(name, compiled)
    told = described.get("guest")
    if told is None:
        raise InputError(f"{what}: {file}: exports no cwndlab_guest")
    return Module(
        name=name,
        family="guest",
        abi=told["name"],
        file=compiled.file,
        file_sha256=compiled.sha256,
        knobs=(),
        inputs=Inputs(file_name, ((file_name, data),)),
        private=private or is_library,
        compiler=compilation.compiler_version(compiler),
        flags=" ".join(FLAGS),
        sha256=hashlib.sha256(library).hexdigest(),
        kind="guest",
        guest=told,
        made_of=tree.made_of if tree else "",
        change=tree.change if tree and not private else "",
    )


def _compiled(what: str, file: Path, compiler: str) -> bytes:
    """The library that a source in C becomes."""
    with tempfile.TemporaryDirectory(dir=store.folder()) as scratch:
        made = Path(scratch) / "guest.so"
        command = [compiler, *FLAGS, f"-I{compilation.HERE / 'guest'}", "-x", "c", str(file), "-o", str(made)]
        _carried_out(what, command)
        return made.read_bytes()


def _around(what: str, library: bytes, compiler: str) -> Compiled:
    """Compile what calls a library under guard, with the library's bytes in it, unless that is done."""
    parts = sorted(path for part in PARTS for path in (compilation.HERE / part).glob("*.[ch]"))
    options = (compilation.compiler_version(compiler), *compilation.FLAGS, *compilation.LINK)
    digest = hashlib.sha256("\0".join(options).encode() + library)
    for part in parts:
        digest.update(part.read_bytes())
    if found := store.find(digest.hexdigest()):
        return found
    with tempfile.TemporaryDirectory(dir=store.folder()) as scratch:
        inner, made = Path(scratch) / "library.so", Path(scratch) / "module.so"
        inner.write_bytes(library)
        statics.check(what, inner, resets=False)
        command = [
            *(compiler, *compilation.FLAGS, f'-DCWNDLAB_LIBRARY="{inner}"'),
            *(f"-I{folder}" for folder in (compilation.HERE, compilation.HERE / "guest")),
            *(str(compilation.HERE / part / "runtime.c") for part in PARTS),
            *(*compilation.LINK, "-ldl", "-o", str(made)),
        ]
        _carried_out(what, command)
        return store.put(digest.hexdigest(), made)


def _carried_out(what: str, command: Sequence[str]) -> None:
    """Run a compiler's command. Raises InputError with its first error."""
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=dependencies.environment()
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the compiler failed"]
        wrong = (line for line in lines if "error" in line or "undefined" in line)
        raise InputError(f"{what}: {next(wrong, lines[-1])}")
