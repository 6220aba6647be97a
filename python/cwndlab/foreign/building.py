"""Compiles congestion controls that were written for a kernel, against headers of our own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError, one_of
from cwndlab.experiment.catalogue import Sysctl
from cwndlab.foreign import Module

ABIS = {
    "linux-3.9": "-DCWNDLAB_LINUX=30900",
    "linux-6.8": "-DCWNDLAB_LINUX=60800",
    "linux-6.12": "-DCWNDLAB_LINUX=61200",
    "linux-6.18": "-DCWNDLAB_LINUX=61800",
    "freebsd-11": "-DCWNDLAB_FREEBSD=1100122",
    "freebsd-13": "-DCWNDLAB_FREEBSD=1300139",
    "freebsd-14": "-DCWNDLAB_FREEBSD=1400097",
    "freebsd-15": "-DCWNDLAB_FREEBSD=1500000",
}
"""The interfaces there are headers for, with the macro that says which."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
"""What a module may be called."""

HERE = Path(__file__).parent / "c"
"""The headers, and what is compiled along with each module."""

FLAGS = (
    *("-shared", "-fPIC", "-O2", "-g", "-std=gnu11", "-fvisibility=hidden"),
    # As kernels are compiled.
    *("-fno-strict-aliasing", "-fwrapv", "-fno-delete-null-pointer-checks"),
    *("-w", "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration"),
    *("-Werror=int-conversion", "-Wl,-z,now", "-Wl,-z,defs"),
)
"""What the compiler is told besides files and folders."""

FAMILY_FLAGS = {"linux": ("-funsigned-char",), "freebsd": ("-D_KERNEL", "-DKLD_MODULE")}
"""And for the kernels of one family."""

DESCRIBE = "import sys; from cwndlab import _native; print(_native.describe_module(sys.argv[1]))"
"""Loads a module in a process of its own, and says what it found."""

DESCRIBE_S = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """What `--cc` asks for: `NAME=FILE[,FILE...][,include=DIR...][,abi=ABI]`."""

    name: str
    files: tuple[Path, ...]
    folders: tuple[Path, ...]
    abi: str | None

    @staticmethod
    def of(text: str) -> Request:
        """Read the option's value; raises InputError."""
        name, equals, rest = text.partition("=")
        if not equals or not NAME.fullmatch(name):
            raise InputError(f"--cc: found {text!r}; expected NAME=FILE[,FILE...][,include=DIR][,abi=ABI]")
        files: list[Path] = []
        folders: list[Path] = []
        abi = None
        for word in rest.split(","):
            key, given, value = word.partition("=")
            if not given:
                files.append(Path(word))
            elif key == "include":
                folders.append(Path(value))
            elif key == "abi" and value in ABIS:
                abi = value
            elif key == "abi":
                raise InputError(f"--cc {name}: abi: found {value!r}; expected {one_of(ABIS)}")
            else:
                raise InputError(f"--cc {name}: found {word!r}; expected a file, include=DIR or abi=ABI")
        for file in files:
            if not file.is_file():
                raise InputError(f"--cc {name}: {file}: there is no such file")
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"--cc {name}: include={folder}: there is no such folder")
        return Request(name, tuple(files), tuple(folders), abi)


def build(request: Request, *, private: bool = False) -> Module:
    """Compile a module, or find it compiled; raises InputError, one line, where that fails."""
    compiler = compiler_of(request.name)
    if request.abi is not None:
        return _finished(request, request.abi, _compile(request, request.abi, compiler), compiler, private)
    compiled: dict[str, Path] = {}
    refusals: list[InputError] = []
    for abi in ABIS:
        try:
            compiled[abi] = _compile(request, abi, compiler)
        except InputError as error:
            refusals.append(error)
    if len(compiled) > 1:
        which = "which differ in what hooks mean"
        raise InputError(f"--cc {request.name}: compiles for {', '.join(compiled)}, {which}; add ,abi=ABI")
    if not compiled:
        raise max(reversed(refusals), key=_progress)
    (abi, library), *_ = compiled.items()
    return _finished(request, abi, library, compiler, private)


def _progress(refusal: InputError) -> int:
    """How far the compiler came: another family's interface lacks a header near the beginning."""
    found = re.search(r":(\d+):\d+: fatal error: .*: No such file", str(refusal))
    return int(found[1]) if found else sys.maxsize


def compiler_of(name: str) -> str:
    """The C compiler of this machine; raises InputError where there is none."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise InputError(f"--cc {name}: no C compiler: there is no cc (on Debian: apt install gcc)")
    return found


def compiler_version(compiler: str) -> str:
    """What a compiler says that it is."""
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.splitlines()[0] if told.stdout else compiler


def _flags(abi: str) -> tuple[str, ...]:
    return (*FLAGS, *FAMILY_FLAGS[_family(abi)], ABIS[abi])


def _family(abi: str) -> str:
    return abi.partition("-")[0]


def _inputs(request: Request) -> Iterator[Path]:
    """Every file that the result may depend on."""
    yield from request.files
    for folder in request.folders:
        yield from sorted(folder.glob("*.h"))
    for file in request.files:
        yield from sorted(file.parent.glob("*.h"))
    yield from sorted(path for path in HERE.rglob("*") if path.suffix in {".c", ".h"})


def _digest(request: Request, abi: str, compiler: str) -> str:
    digest = hashlib.sha256()
    for part in (compiler_version(compiler), *_flags(abi)):
        digest.update(part.encode() + b"\0")
    for path in _inputs(request):
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\0".encode() + data)
    return digest.hexdigest()


def cache() -> Path:
    """Where compiled files are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cwndlab" / "cc"


def _compile(request: Request, abi: str, compiler: str) -> Path:
    """The compiled file, made unless it is there."""
    place = cache() / f"{_digest(request, abi, compiler)}.so"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    family = HERE / _family(abi)
    own = sorted([*family.glob("*.c"), *(HERE / "cwndlab").glob("*.c")])
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        library = Path(scratch) / "module.so"
        folders = [HERE, family / "include", *request.folders, *_as_in_kernel(request, Path(scratch))]
        command = [
            *(compiler, *_flags(abi)),
            *(f"-I{folder}" for folder in folders),
            *(str(file) for file in (*request.files, *own)),
            *("-lpthread", "-o", str(library)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        if done.returncode:
            raise InputError(f"--cc {request.name}: for {abi}: {_reason(done.stderr, abi)}")
        library.replace(place)
    return place


def _as_in_kernel(request: Request, scratch: Path) -> Iterator[Path]:
    """Folders in which FreeBSD's modules find headers of their own, as `netinet/cc/cc_new.h`."""
    given = (*request.folders, *(file.parent for file in request.files))
    for number, folder in enumerate(dict.fromkeys(given)):
        place = scratch / str(number)
        (place / "netinet").mkdir(parents=True)
        (place / "netinet" / "cc").symlink_to(folder.resolve())
        yield place


def _reason(errors: str, abi: str) -> str:
    """The first error, in one line."""
    offers = f"the headers for {abi} do not have it: give the file that defines it, or include=DIR"
    for line in errors.splitlines():
        if found := re.search(r"undefined reference to .(\w+)", line):
            return f"{found[1]}: {offers}"
        if found := re.search(r"implicit declaration of function .(\w+)", line):
            return f"{found[1]}: {offers} ({line.partition(': error')[0]})"
        if " error: " in line:
            return line
    return errors.strip().splitlines()[-1] if errors.strip() else "the compiler failed"


def _finished(request: Request, abi: str, library: Path, compiler: str, private: bool) -> Module:
    described = describe(request.name, library)
    # Linux's parameters have names within their module, FreeBSD's sysctls have whole ones.
    prefix = f"module.{request.files[0].stem}." if described["family"] == "linux" else ""
    knobs = tuple(
        Sysctl(prefix + knob["name"], knob["default"], knob["min"], knob["max"], "of the module")
        for knob in described["knobs"]
    )
    sources = {} if private else {file.name: file.read_text(encoding="utf-8") for file in request.files}
    return Module(
        name=request.name,
        family=described["family"],
        abi=abi,
        file=library,
        knobs=knobs,
        sources=sources,
        compiler=compiler_version(compiler),
        flags=" ".join(_flags(abi)),
        sha256=library.stem,
    )


def describe(name: str, library: Path) -> dict[str, Any]:
    """Family and knobs, from a process that may crash."""
    described: dict[str, Any] = json.loads(tried(f"--cc {name}", [DESCRIBE, str(library)], DESCRIBE_S))
    return described


def tried(what: str, program: Sequence[str], limit_s: float) -> str:
    """What a text of Python prints with its arguments, in a process apart; raises InputError, one line."""
    try:
        told = subprocess.run(
            [sys.executable, "-c", *program], capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{what}: is not loaded after {limit_s:.0f} s") from None
    if told.returncode:
        lines = told.stderr.strip().splitlines()
        why = lines[-1].removeprefix("ValueError: ") if lines else f"the process ended with {told.returncode}"
        raise InputError(f"{what}: {why}")
    return told.stdout
