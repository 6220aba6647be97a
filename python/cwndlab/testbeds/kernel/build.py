"""Building kernels: a copy of a source tree, cwndlab's configuration, a patch on top, and `make`."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.testbeds.kernel import store, trees
from cwndlab.testbeds.kernel.store import Kernel
from cwndlab.testbeds.kernel.trees import Tree

HERE = Path(__file__).parent
CONFIG = HERE / "um.config"
"""The configuration of all kernels."""
SEED = HERE / "getrandom.c"
HZ = 1000
"""Clock ticks per second unless asked otherwise: what most distributions' and the models' kernels have."""
HZ_CHOICES = (100, 250, 300, 1000)
TOOLS = {
    "cc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "ld": "binutils",
    "perl": "perl",
}
"""Programs that building a kernel calls, with their Debian packages."""
NEEDED = (
    "CONFIG_UML_TIME_TRAVEL_SUPPORT=y",
    "CONFIG_HOSTFS=y",
    "CONFIG_SYSCTL=y",
    "CONFIG_VETH=y",
    "CONFIG_NET_NS=y",
)
"""Options without which a kernel carries out no run."""
STEPS = 1100
"""About how many lines `make` prints for a whole kernel, by which the time left is told."""
ERRORS = 20
"""Lines of errors that are shown."""
_ENVIRONMENT = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "cwndlab",
    "KBUILD_BUILD_HOST": "cwndlab",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
"""Variables that make a kernel say the same of its making for the same sources."""


_WANTED, _CONFIGURED = ".cwndlab-wanted", ".cwndlab-config"
"""Files of a copy of a tree: the configuration that it is to have, and that it was last given."""

Progress = Callable[[int, int], None]
"""Told how much of a build is done, of how much; of 0 where only what was changed is compiled again."""


def missing() -> list[str]:
    """Programs that building needs and this machine lacks, each with what installs it."""
    return [
        f"{name} (Debian: apt install {package})" for name, package in TOOLS.items() if not shutil.which(name)
    ]


def build(root: Path, hz: int, patch: Path | None, progress: Progress, *, jobs: int) -> tuple[Kernel, bool]:
    """The kernel of a source tree with a patch on top, and whether it had been built before.

    Raises InputError: no source tree, a patch that does not apply, the compiler's errors with their places.
    """
    tree = trees.read(root)
    if lacking := missing():
        raise InputError(f"building a kernel needs {', '.join(lacking)}")
    changes = None if patch is None else _patch(patch)
    with _work(tree, hz) as work:
        tree_sha256 = trees.copy(tree, work)
        _set_hz(work, hz)
        if changes is not None and patch is not None:
            _apply(work, patch, changes)
        made_of = hashlib.sha256()
        compiler = _first_line("cc", "--version")
        for part in (
            tree_sha256,
            str(hz),
            compiler,
            _config(work),
            SEED.read_text("utf-8"),
        ):
            made_of.update(part.encode() + b"\0")
        made_of.update(changes or b"")
        name = f"{tree.release}-{made_of.hexdigest()[:8]}"
        try:
            return store.read(store.folder() / name), True
        except InputError:
            pass
        _make(work, progress, jobs)
        program = work / "linux"
        _told(["strip", str(program)], work)
        files = {
            store.PROGRAM: program.read_bytes(),
            "config": (work / ".config").read_bytes(),
            store.SEED: seed_library(),
            **({} if changes is None else {"patch.diff": changes}),
        }
        kernel = Kernel(
            name=name,
            release=_release(work),
            hz=hz,
            tree_sha256=tree_sha256,
            config_sha256=hashlib.sha256(files["config"]).hexdigest(),
            patch_sha256=None if changes is None else hashlib.sha256(changes).hexdigest(),
            sha256=hashlib.sha256(files[store.PROGRAM]).hexdigest(),
            compiler=compiler,
        )
        return store.put(kernel, files), False


def adopt(program: Path) -> Kernel:
    """Keep a kernel that somebody else built, a program of User Mode Linux; raises InputError where it lacks
    what runs need."""
    config = showconfig(program)
    text = "\n".join(config)
    if lacking := [option for option in NEEDED if option not in config]:
        raise InputError(f"--kernel {program}: it was built without {lacking[0]} (cwndlab kernel config)")
    if "CONFIG_STATIC_LINK=y" in config:
        raise InputError(f"--kernel {program}: CONFIG_STATIC_LINK=y: its random numbers cannot be seeded")
    data = program.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    release = _first_line(str(program.resolve()), "--version")
    (hz,) = re.findall(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
    kernel = Kernel(
        name=f"{release}-{sha256[:8]}",
        release=release,
        hz=int(hz),
        tree_sha256="unknown",
        config_sha256=hashlib.sha256(text.encode()).hexdigest(),
        patch_sha256=None,
        sha256=sha256,
        compiler="unknown",
    )
    if kernel not in store.kernels():
        files = {store.PROGRAM: data, "config": text.encode() + b"\n", store.SEED: seed_library()}
        store.put(kernel, files)
    return kernel


def showconfig(program: Path) -> list[str]:
    """Lines of the configuration of a kernel that is a program; raises InputError where it is none."""
    try:
        told = subprocess.run(
            [program.resolve(), "--showconfig"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--kernel {program}: no kernel as a program ({error})") from None
    lines = told.stdout.splitlines()
    if "CONFIG_UML=y" not in lines:
        raise InputError(
            f"--kernel {program}: no kernel as a program: it shows no configuration with CONFIG_UML=y"
        )
    return lines


def seed_library() -> bytes:
    """The library that a guest's kernel asks for random numbers; raises InputError without a compiler."""
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / store.SEED
        _told(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(SEED)], Path(scratch))
        return library.read_bytes()


@contextmanager
def _work(tree: Tree, hz: int) -> Iterator[Path]:
    """The folder in which a tree is built, for this process alone; what was compiled stays."""
    key = hashlib.sha256(f"{tree.root}\0{hz}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    place = store.folder() / ".work" / key
    place.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def _set_hz(work: Path, hz: int) -> None:
    """Set the clock ticks per second, which arch/um/Kconfig has fixed."""
    kconfig = work / "arch/um/Kconfig"
    text = kconfig.read_text(encoding="utf-8")
    changed, count = re.subn(r"(config HZ\n\tint\n\tdefault )\d+", rf"\g<1>{hz}", text)
    if count != 1:
        raise InputError(f"{kconfig}: this tree does not fix HZ where others do; its HZ cannot be {hz}")
    if changed != text:
        kconfig.write_text(changed, encoding="utf-8")


def _patch(patch: Path) -> bytes:
    try:
        return patch.read_bytes()
    except OSError as error:
        raise InputError(f"--patch {patch}: {error.strerror}") from None


def _apply(work: Path, patch: Path, changes: bytes) -> None:
    for dry in (["--dry-run"], []):
        done = subprocess.run(
            ["patch", "-p1", "--forward", "--batch", "--no-backup-if-mismatch", "--reject-file=-", *dry],
            cwd=work,
            input=changes,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
            lines = [
                line
                for line in text.splitlines()
                if "FAILED" in line or "can't" in line or "malformed" in line
            ]
            raise InputError(f"--patch {patch}: does not apply: {'; '.join(lines[:3]) or text.strip()[:200]}")


def _make(work: Path, progress: Progress, jobs: int) -> None:
    environment = {**os.environ, **_ENVIRONMENT, "KCONFIG_ALLCONFIG": str(work / _WANTED)}
    for name in (
        "ARCH",
        "CROSS_COMPILE",
        "KBUILD_OUTPUT",
        "O",
        "MAKEFLAGS",
        "MFLAGS",
        "MAKELEVEL",
        "LD_PRELOAD",
    ):
        environment.pop(name, None)
    wanted = _config(work)
    if not (work / ".config").is_file() or _configured(work) != wanted:
        (work / _WANTED).write_text(wanted, encoding="utf-8")
        _told(["make", "ARCH=um", "allnoconfig"], work, environment)
        config = (work / ".config").read_text(encoding="utf-8").splitlines()
        if lacking := [option for option in NEEDED if option not in config]:
            raise InputError(f"this tree knows no {lacking[0]}, which testbed kernel needs")
        (work / _CONFIGURED).write_text(wanted, encoding="utf-8")
    log = work / ".cwndlab-log"
    steps = 0 if (work / "linux").is_file() else STEPS
    with log.open("w", encoding="utf-8") as errors:
        # `make` says on its output what it does, a line each, and what is wrong elsewhere.
        command = ["nice", "make", "ARCH=um", f"-j{jobs}", "linux"]
        with subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None  # it is a pipe
            done = 0
            for line in process.stdout:
                done += line.startswith("  ")
                progress(done, steps)
    if process.returncode:
        raise InputError(_errors(log.read_text(encoding="utf-8", errors="replace"), work))


def _config(work: Path) -> str:
    """The configuration of a tree: ours, and what this tree needs besides."""
    text, mounts = CONFIG.read_text(encoding="utf-8"), work / "init/do_mounts.c"
    if mounts.is_file() and "mount_nodev_root" not in mounts.read_text(encoding="utf-8", errors="replace"):
        # The code for block devices alone mounts the first file system, before 5.15.
        return f"{text}CONFIG_BLOCK=y\n"
    return text


def _configured(work: Path) -> str | None:
    """The configuration that a tree was last given. None: none yet."""
    try:
        return (work / _CONFIGURED).read_text(encoding="utf-8")
    except OSError:
        return None


def _errors(text: str, work: Path) -> str:
    """Find the compiler's errors, each with file and line, or the end of the output where it names none."""
    lines = [line.replace(f"{work}/", "") for line in text.splitlines()]
    wrong = [line for line in lines if re.search(r":\d+(:\d+)?: (fatal )?error: |undefined reference", line)]
    shown = wrong[:ERRORS] or lines[-ERRORS:] or ["make failed without a word"]
    return "the kernel does not build:\n" + "\n".join(shown)


def _release(work: Path) -> str:
    return (work / "include/config/kernel.release").read_text(encoding="utf-8").strip()


def _first_line(*command: str) -> str:
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return (told.stdout.splitlines() or [command[0]])[0]


def _told(command: list[str], place: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program and return its output. Raises InputError with the end of its standard error where it
    fails.
    """
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.split()[-60:]) or "nothing said"
        raise InputError(f"{' '.join(command[:3])} failed: {said}")
    return done.stdout
