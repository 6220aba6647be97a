"""Congestion controls written for no kernel: classes of Python, and shared libraries.

They run on the stacks of every family that takes congestion controls from outside.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import Module, compilation, dependencies, statics, store, trial
from cwndlab.foreign.dependencies import Inputs
from cwndlab.foreign.store import Compiled

FAMILIES = ("linux", "freebsd")
"""Families whose stacks run plain controllers."""

CLASS = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
"""Pattern of the name of a class."""

VERSION = 1
"""Version of what classes and libraries are told and asked: CWNDLAB_CC_VERSION in cwndlab_cc.h."""

LIBRARIES = (".so", ".dylib")

TRY = """\
import importlib.metadata, sysconfig
file, name, version = sys.argv[1:]
names = {"__name__": "cwndlab_controller", "__file__": file}
try:
    exec(compile(open(file, encoding="utf-8").read(), file, "exec"), names)
    made = names[name]()
except BaseException as error:
    sys.exit(f"{type(error).__name__}: {error}")
if (asked := names.get("CWNDLAB_CC_VERSION", int(version))) != int(version):
    sys.exit(f"is for version {asked!r} of the interface, and this cwndlab has version {version}")
for method in ("on_ack", "on_loss"):
    if not callable(getattr(made, method, None)):
        sys.exit(f"{name} has no {method}(self, flow)")
installed = tuple(map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
packages = importlib.metadata.packages_distributions()
for imported, module in sorted(sys.modules.items()):
    place = getattr(module, "__file__", None)
    if place and not place.startswith(installed) and imported.partition(".")[0] not in packages:
        sys.exit(f"imports {place}, which is not installed: no result would keep it; put it into the file")
"""
"""Makes a controller in a process of its own, and says what is wrong with it."""


def is_plain(source: str) -> bool:
    """Whether what follows `NAME=` is such a class or library."""
    return bool(CLASS.fullmatch(source)) or source.endswith(LIBRARIES)


def build(name: str, source: str, *, private: bool = False) -> tuple[Module, ...]:
    """The modules that a class or library becomes, one for each family; raises InputError, one line."""
    found = CLASS.fullmatch(source)
    file = Path(source if found is None else found["file"])
    if not compilation.NAME.fullmatch(name):
        raise InputError(f"--cc: found {name!r}; expected NAME=FILE.py:CLASS or NAME=LIBRARY.so")
    if not file.is_file():
        raise InputError(f"--cc {name}: {file}: there is no such file")
    made = _library(name, file) if found is None else _of_class(name, file, found["name"], private=private)
    return tuple(replace(made, family=family) for family in FAMILIES)


def _of_class(name: str, file: Path, class_name: str, *, private: bool) -> Module:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--cc {name}: {file}: {error}") from None
    trial.tried(f"--cc {name}: {file}", TRY, [str(file), class_name, str(VERSION)])
    version = platform.python_version()
    digest = hashlib.sha256(json.dumps([text, class_name, version]).encode()).hexdigest()
    return Module(
        name=name,
        family="",
        abi="python",
        file=file.resolve(),
        file_sha256="",
        knobs=(),
        inputs=Inputs(f"{file.name}:{class_name}", ((file.name, text.encode()),)),
        private=private,
        compiler=f"Python {version}",
        flags="",
        sha256=digest,
        kind="python",
        source=text,
        class_name=class_name,
    )


def _library(name: str, file: Path) -> Module:
    """A library, within what stands between it and the engine."""
    compiler = compilation.compiler_of(name)
    data = file.read_bytes()
    version = compilation.compiler_version(compiler)
    parts = sorted(path for part in ("cwndlab", "plain") for path in (compilation.HERE / part).glob("*.[ch]"))
    digest = hashlib.sha256("\0".join((version, *compilation.FLAGS, *compilation.LINK)).encode() + data)
    for part in parts:
        digest.update(part.read_bytes())
    compiled = store.find(digest.hexdigest()) or _around(name, data, compiler, digest.hexdigest())
    trial.describe(name, compiled)
    return Module(
        name=name,
        family="",
        abi="library",
        file=compiled.file,
        file_sha256=compiled.sha256,
        knobs=(),
        inputs=Inputs(file.name, ((file.name, data),)),
        private=True,
        compiler=version,
        flags="",
        sha256=hashlib.sha256(data).hexdigest(),
        kind="library",
    )


def _around(name: str, data: bytes, compiler: str, made_of: str) -> Compiled:
    """Compile what calls a library under guard, with the library's bytes in it."""
    with tempfile.TemporaryDirectory(dir=store.folder()) as scratch:
        library, made = Path(scratch) / "library.so", Path(scratch) / "module.so"
        library.write_bytes(data)
        statics.check(f"--cc {name}", library, resets=False)
        command = [
            *(compiler, *compilation.FLAGS, f'-DCWNDLAB_LIBRARY="{library}"'),
            *(f"-I{folder}" for folder in (compilation.HERE, compilation.HERE / "plain")),
            *(str(compilation.HERE / part / "runtime.c") for part in ("plain", "cwndlab")),
            *(*compilation.LINK, "-ldl", "-o", str(made)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=dependencies.environment()
        )
        if done.returncode:
            raise InputError(f"--cc {name}: {done.stderr.strip().splitlines()[-1]}")
        return store.put(made_of, made)
