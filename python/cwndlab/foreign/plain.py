"""Congestion controls written for no kernel: classes of Python, and shared libraries.

They run on the stacks of every family that takes congestion controls from outside.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import Module, building

FAMILIES = ("linux", "freebsd")
"""Whose stacks run them."""

CLASS = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
"""How a class is named."""

LIBRARIES = (".so", ".dylib")

TRY = """\
import sys
file, name = sys.argv[1:]
names = {"__name__": "cwndlab_controller", "__file__": file}
try:
    exec(compile(open(file, encoding="utf-8").read(), file, "exec"), names)
    made = names[name]()
except BaseException as error:
    sys.exit(f"{type(error).__name__}: {error}")
for method in ("on_ack", "on_loss"):
    if not callable(getattr(made, method, None)):
        sys.exit(f"{name} has no {method}(self, flow)")
"""
"""Makes a controller in a process of its own, and says what is wrong with it."""

TRY_S = 30.0


def is_plain(source: str) -> bool:
    """Whether what follows `NAME=` is such a class or library."""
    return bool(CLASS.fullmatch(source)) or source.endswith(LIBRARIES)


def build(name: str, source: str, *, private: bool = False) -> tuple[Module, ...]:
    """The modules that a class or library becomes, one for each family; raises InputError, one line."""
    found = CLASS.fullmatch(source)
    file = Path(source if found is None else found["file"])
    if not building.NAME.fullmatch(name):
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
    building.tried(f"--cc {name}: {file}", [TRY, str(file), class_name], TRY_S)
    version = platform.python_version()
    digest = hashlib.sha256(json.dumps([text, class_name, version]).encode()).hexdigest()
    return Module(
        name=name,
        family="",
        abi="python",
        file=file.resolve(),
        knobs=(),
        sources={} if private else {file.name: text},
        compiler=f"Python {version}",
        flags="",
        sha256=digest,
        kind="python",
        source=text,
        class_name=class_name,
    )


def _library(name: str, file: Path) -> Module:
    """A library, with what stands between it and the engine compiled for it."""
    compiler = building.compiler_of(name)
    data = file.read_bytes()
    version = building.compiler_version(compiler)
    own = [building.HERE / "plain" / "runtime.c", building.HERE / "cwndlab" / "runtime.c"]
    headers = sorted(building.HERE.glob("cwndlab/*.h")) + sorted(building.HERE.glob("plain/*.h"))
    digest = hashlib.sha256(version.encode() + data)
    for part in (*own, *headers):
        digest.update(part.read_bytes())
    cache = building.cache()
    copy, glue = (cache / f"{digest.hexdigest()}{end}" for end in ("-copied.so", ".so"))
    if not glue.exists():
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        aside = glue.with_suffix(".aside")
        command = [
            *(compiler, "-shared", "-fPIC", "-O2", "-g", "-std=gnu11", "-fvisibility=hidden", "-Wl,-z,defs"),
            f'-DCWNDLAB_LIBRARY="{copy}"',
            *(f"-I{folder}" for folder in (building.HERE, building.HERE / "plain")),
            *(str(part) for part in own),
            *("-lpthread", "-ldl", "-o", str(aside)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"--cc {name}: {done.stderr.strip().splitlines()[-1]}")
        aside.replace(glue)
    building.describe(name, glue)
    return Module(
        name=name,
        family="",
        abi="library",
        file=glue,
        knobs=(),
        sources={},
        compiler=version,
        flags="",
        sha256=hashlib.sha256(data).hexdigest(),
        kind="library",
    )
