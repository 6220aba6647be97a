"""Compiles congestion controls that were written for a kernel, against cwndlab's own headers."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError, one_of
from cwndlab.experiment.catalogue import Sysctl
from cwndlab.foreign import Module, dependencies, option, statics, store, trial
from cwndlab.foreign.dependencies import Inputs
from cwndlab.foreign.store import Compiled

ABIS = {
    "linux-3.9": "-DCWNDLAB_LINUX=30900",
    "linux-4.4": "-DCWNDLAB_LINUX=40400",
    "linux-4.9": "-DCWNDLAB_LINUX=40900",
    "linux-4.19": "-DCWNDLAB_LINUX=41900",
    "linux-5.4": "-DCWNDLAB_LINUX=50400",
    "linux-5.10": "-DCWNDLAB_LINUX=51000",
    "linux-5.15": "-DCWNDLAB_LINUX=51500",
    "linux-6.1": "-DCWNDLAB_LINUX=60100",
    "linux-6.8": "-DCWNDLAB_LINUX=60800",
    "linux-6.12": "-DCWNDLAB_LINUX=61200",
    "linux-6.18": "-DCWNDLAB_LINUX=61800",
    "linux-7.2": "-DCWNDLAB_LINUX=70200",
    "freebsd-11": "-DCWNDLAB_FREEBSD=1100122",
    "freebsd-13": "-DCWNDLAB_FREEBSD=1300139",
    "freebsd-14": "-DCWNDLAB_FREEBSD=1400097",
    "freebsd-15": "-DCWNDLAB_FREEBSD=1500000",
}
"""The interfaces there are headers for, with the macro that says which."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
"""Pattern of a module's name."""

HERE = Path(__file__).parent / "c"
"""The headers, and what is compiled along with each module."""

FLAGS = (
    *("-fPIC", "-O2", "-std=gnu11", "-fvisibility=hidden"),
    # As kernels are compiled.
    *("-fno-strict-aliasing", "-fwrapv", "-fno-delete-null-pointer-checks"),
    # What a hook of another release, or a function that is not there, is. -w would annul these.
    *("-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration"),
    *("-Werror=int-conversion", "-Werror=implicit-int", "-Werror=return-type", "-Werror=date-time"),
)
"""Options of the compiler besides files and folders."""

LINK = ("-shared", "-Wl,-z,now", "-Wl,-z,defs", "-lpthread")
"""Options of the linker."""

FAMILY_FLAGS = {"linux": ("-funsigned-char",), "freebsd": ("-D_KERNEL", "-DKLD_MODULE")}
"""Options of the compiler for the kernels of one family."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request of an option `--cc`: `NAME=FILE[,FILE...][,include=DIR...][,abi=ABI]`."""

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
    abi = request.abi or _guessed(request, compiler)
    inputs = _read(request, abi, compiler)
    made_of = _digest(inputs, abi, compiler)
    compiled = store.find(made_of) or _compile(request, abi, compiler, inputs)
    described = trial.describe(request.name, compiled)
    # Linux's parameters have names within their module, FreeBSD's sysctls have whole ones.
    prefix = f"module.{request.files[0].stem}." if described["family"] == "linux" else ""
    knobs = tuple(
        Sysctl(prefix + knob["name"], knob["default"], knob["min"], knob["max"], "of the module")
        for knob in described["knobs"]
    )
    return Module(
        name=request.name,
        family=described["family"],
        abi=abi,
        file=compiled.file,
        file_sha256=compiled.sha256,
        knobs=knobs,
        inputs=inputs,
        private=private,
        compiler=compiler_version(compiler),
        flags=" ".join(_flags(abi)),
        sha256=made_of,
    )


def inputs_of(request: Request) -> Inputs:
    """Find all files that compiling reads. Raises InputError."""
    compiler = compiler_of(request.name)
    return _read(request, request.abi or _guessed(request, compiler), compiler)


def _guessed(request: Request, compiler: str) -> str:
    """The interface whose types the source has; of several that mean the same, the newest."""
    fitting: list[str] = []
    refusals: dict[str, InputError] = {}
    for abi in ABIS:
        try:
            _told(request, abi, compiler, "-fsyntax-only")
        except InputError as error:
            refusals[abi] = error
        else:
            fitting.append(abi)
    if not fitting:
        furthest = max(refusals, key=lambda abi: _progress(refusals[abi], request))
        family = [error for abi, error in refusals.items() if _family(abi) == _family(furthest)]
        # What is missing is said of an interface whose hooks the source has.
        raise ([error for error in family if not OTHER_HOOK.search(str(error))] or family)[-1]
    if len({_meaning(abi) for abi in fitting}) > 1:
        which = "which differ in what hooks mean"
        raise InputError(f"--cc {request.name}: compiles for {', '.join(fitting)}, {which}; add ,abi=ABI")
    if len(fitting) > 1 and (place := _untyped_hook(request, fitting[-1], compiler)):
        which = f"as a hook has lost its type at {place}"
        raise InputError(f"--cc {request.name}: compiles for {', '.join(fitting)}, {which}; add ,abi=ABI")
    return fitting[-1]


OTHER_HOOK = re.compile(r"error: initialization of .*\(\*\).* from incompatible pointer type")
"""An error that is of a hook of another interface."""

UNTYPED_HOOK = re.compile(
    r"(\S+:\d+):\d+: warning: (?:ISO C forbids initialization between function pointer and .void \*"
    r"|initializing .*\(\*\).* with an expression of type .void \*)"
)
"""A warning of GCC or Clang of a pointer that fits every hook."""


def _untyped_hook(request: Request, abi: str, compiler: str) -> str | None:
    """Where the source takes a hook's type away, so that it compiles for interfaces that it is not for."""
    with tempfile.TemporaryDirectory(prefix="cwndlab-cc-") as scratch:
        command = [
            compiler,
            *_flags(abi),
            "-Wpedantic",
            "-fsyntax-only",
            *_folders(request, abi, Path(scratch)),
        ]
        found = UNTYPED_HOOK.search(_carried_out(request, abi, [*command, *map(str, request.files)]).stderr)
    return found[1] if found else None


def _meaning(abi: str) -> str:
    """Return one name for interfaces whose hooks mean the same wherever their types are equal."""
    return "linux since 4.4" if _family(abi) == "linux" and abi != "linux-3.9" else abi


def _progress(refusal: InputError, request: Request) -> int:
    """Line that the compiler reached in the given files: another family's interface fails near the
    beginning.
    """
    for file in request.files:
        if found := re.search(rf"{re.escape(str(file))}:(\d+)", str(refusal)):
            return int(found[1])
    return sys.maxsize


def compiler_of(name: str) -> str:
    """The C compiler of this machine; raises InputError where there is none."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise InputError(f"{option(name)}: no C compiler: there is no cc (on Debian: apt install gcc)")
    return found


def compiler_version(compiler: str) -> str:
    """Version of a compiler, in its own words."""
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.splitlines()[0] if told.stdout else compiler


def _flags(abi: str) -> tuple[str, ...]:
    return (*FLAGS, *FAMILY_FLAGS[_family(abi)], ABIS[abi])


def _family(abi: str) -> str:
    return abi.partition("-")[0]


def _read(request: Request, abi: str, compiler: str) -> Inputs:
    """Ask the compiler which files it reads, without its own and those of cwndlab."""
    told = _told(request, abi, compiler, "-M")
    system = (*dependencies.system_folders(compiler), HERE)
    outside = [path for path in told if not any(path.is_relative_to(folder) for folder in system)]
    try:
        return dependencies.read(request.files, request.folders, outside, abi)
    except OSError as error:
        raise InputError(f"--cc {request.name}: {error.filename}: {error.strerror}") from None


def _told(request: Request, abi: str, compiler: str, what: str) -> list[Path]:
    """Ask the compiler with `-M`, or `-fsyntax-only`, for the files it reads of the given ones. Raises
    InputError.
    """
    with tempfile.TemporaryDirectory(prefix="cwndlab-cc-") as scratch:
        place = Path(scratch)
        command = [compiler, *_flags(abi), what, *_folders(request, abi, place), *map(str, request.files)]
        found = dependencies.dependencies(_carried_out(request, abi, command).stdout)
        # Links of ours into the folders that were given.
        return [path.parent.resolve() / path.name if path.is_relative_to(place) else path for path in found]


def _folders(request: Request, abi: str, scratch: Path) -> list[str]:
    folders = [HERE, HERE / _family(abi) / "include", *request.folders, *_as_in_kernel(request, scratch)]
    return [f"-I{folder}" for folder in folders]


def _as_in_kernel(request: Request, scratch: Path) -> Iterator[Path]:
    """Folders in which FreeBSD's modules find headers of their own, as `netinet/cc/cc_new.h`."""
    given = (*request.folders, *(file.parent for file in request.files))
    for number, folder in enumerate(dict.fromkeys(given)):
        place = scratch / str(number)
        (place / "netinet").mkdir(parents=True)
        (place / "netinet" / "cc").symlink_to(folder.resolve())
        yield place


def _carried_out(request: Request, abi: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler's command and return what it said. Raises InputError with its first error."""
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=dependencies.environment()
    )
    if done.returncode:
        raise InputError(f"--cc {request.name}: for {abi}: {_reason(done.stderr, abi)}")
    return done


def _digest(inputs: Inputs, abi: str, compiler: str) -> str:
    """Return the SHA-256 of everything that the result depends on."""
    digest = hashlib.sha256()
    for part in (compiler_version(compiler), *_flags(abi), "-c", *LINK, inputs.request):
        digest.update(part.encode() + b"\0")
    own = ((str(path.relative_to(HERE)), path.read_bytes()) for path in sorted(HERE.rglob("*.[ch]")))
    for files in (inputs.files, own):
        for name, data in files:
            digest.update(f"{name} {len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return digest.hexdigest()


def _compile(request: Request, abi: str, compiler: str, inputs: Inputs) -> Compiled:
    """Compile what was read."""
    own = sorted([*(HERE / _family(abi)).glob("*.c"), *(HERE / "cwndlab").glob("*.c")])
    with tempfile.TemporaryDirectory(dir=store.folder()) as scratch:
        library = Path(scratch) / "module.so"
        command = [compiler, *_flags(abi), *_folders(request, abi, Path(scratch))]
        made = [Path(scratch) / f"{number}.o" for number in range(len(request.files))]
        for file, place in zip(request.files, made, strict=True):
            _assemble(request, abi, command, file, place)
        _carried_out(request, abi, [*command, *map(str, (*made, *own)), *LINK, "-o", str(library)])
        if _read(request, abi, compiler) != inputs:
            raise InputError(f"--cc {request.name}: its sources were changed while they were compiled")
        statics.check(f"--cc {request.name}", library, resets=True)
        return store.put(_digest(inputs, abi, compiler), library)


STRING = re.compile(rb'^\t\.(?:ascii|asciz|string)\t"(?:\\.|[^"\\\n])*"$', re.MULTILINE)
"""Line of the compiler's assembly that is data of a program."""

READS = re.compile(rb"\.(?:incbin|include|macro|irpc?|rept?)\b", re.IGNORECASE)
"""Directive of the assembler that reads a file, or can put together one that does."""

NAME_OF_SOURCE = re.compile(rb'^\t\.file\t"[^"\\\n]*"$', re.MULTILINE)
"""Line of the compiler's assembly that the assembler would take for a file it reads."""


def _assemble(request: Request, abi: str, command: Sequence[str], source: Path, made: Path) -> None:
    """Compile one source; raises InputError where its assembly reads files.

    The compiler tells of none, and the source may spell them in pieces, or by macros of the assembler.
    """
    text, rules = made.with_suffix(".s"), made.with_suffix(".d")
    # Clang's own assembler tells of no file that it reads, and would leave nothing to be seen of that.
    clang = "clang" in compiler_version(command[0])
    apart = ("-fno-integrated-as",) if clang else ()
    _carried_out(request, abi, [*command, *apart, "-S", str(source), "-o", str(text)])
    if not text.exists():
        raise InputError(f"--cc {request.name}: {source}: is no source in C")
    text.write_bytes(NAME_OF_SOURCE.sub(b"", text.read_bytes()))
    if clang:
        if found := READS.search(STRING.sub(b"", text.read_bytes())):
            wrong = f"its assembly has {found[0].decode()}, by which it may read what Clang does not tell of"
            raise InputError(f"--cc {request.name}: {source}: {wrong}")
        _carried_out(request, abi, [*command, "-c", str(text), "-o", str(made)])
        return
    _carried_out(request, abi, [*command, "-c", str(text), f"-Wa,--MD,{rules}", "-o", str(made)])
    told = dependencies.dependencies(rules.read_text(encoding="utf-8", errors="surrogateescape"))
    if others := [path for path in told if path != text]:
        wrong = f"its assembly reads {others[0]}, of which the compiler does not tell"
        raise InputError(f"--cc {request.name}: {source}: {wrong}")


CORE = re.compile(
    r"struct \w+.* has no member named|(?:undefined|incomplete) type .*struct"
    r"|fatal error: (?:linux|net|trace|asm|uapi)/.*: No such file|assertion failed: .*ICSK_CA_PRIV_SIZE"
)
"""An error that asks for more of the kernel than there is here."""


def _reason(errors: str, abi: str) -> str:
    """The first error, in one line."""
    offers = f"the headers for {abi} do not have it: give the file that defines it, or include=DIR"
    core = "what is not here of the kernel's core needs a real kernel"
    if _family(abi) == "linux":
        core += " (--testbed kernel)"
    includer = ""
    for line in errors.splitlines():
        if found := re.match(r"(?:In file included|\s+) from (\S+:\d+)", line):
            includer = found[1]
        if found := re.match(r"/usr/(?:local/)?include/\S*?((?:asm|linux|net|uapi)/\S+?):\d.* error: ", line):
            return f"{includer}: {found[1]} is here as programs see it, and not as the kernel does; {core}"
        if found := re.search(r"undefined reference to .(\w+)", line):
            return f"{found[1]}: {offers}; {core}"
        if found := re.search(r"implicit declaration of function .(\w+)", line):
            return f"{found[1]}: {offers} ({line.partition(': error')[0]}); {core}"
        if " error: " in line:
            return f"{line}; {core}" if CORE.search(line) else line
    return errors.strip().splitlines()[-1] if errors.strip() else "the compiler failed"
