"""Kernels that were built, each in a folder of its own under its name."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from cwndlab.errors import InputError, nearest, shown
from cwndlab.experiment.damage import damage

PROGRAM, ABOUT, SEED = "linux", "kernel.json", "getrandom.so"
"""Files of a kernel's folder: the program, what it was made of, what seeds its random numbers."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that was built, and what it was made of."""

    name: str
    release: str
    """Release of the kernel, as `uname -r` says."""
    hz: int
    tree_sha256: str
    """SHA-256 of the sources that were read, without the patch."""
    config_sha256: str
    patch_sha256: str | None
    sha256: str
    """SHA-256 of the program."""
    compiler: str

    @property
    def folder(self) -> Path:
        """Folder of the kernel."""
        return folder() / self.name

    @property
    def program(self) -> Path:
        """The kernel as a program."""
        return self.folder / PROGRAM

    @property
    def made_of(self) -> str:
        """Hashes of what it was made of, in short, as results record them."""
        patch = f", patch {self.patch_sha256[:16]}" if self.patch_sha256 else ""
        tree = f"tree {self.tree_sha256[:16]}, config {self.config_sha256[:16]}{patch}"
        return f"{self.release}, HZ {self.hz}, {tree}, program {self.sha256[:16]}"


def folder() -> Path:
    """The folder of all kernels, made unless it is there; raises InputError where others can write it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(base) / "cwndlab" / "kernels"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = place.stat()
    except OSError as error:
        raise InputError(
            f"--kernel: {error.filename}: {error.strerror} (XDG_CACHE_HOME says where)"
        ) from None
    if state.st_uid != os.getuid() or state.st_mode & 0o002:
        raise InputError(
            f"--kernel: {place}: others can write it; set XDG_CACHE_HOME to a folder of your own"
        )
    return place


def kernels() -> list[Kernel]:
    """All kernels that were built, by name; raises InputError as `folder`."""
    found = []
    for place in sorted(folder().iterdir()):
        about = place / ABOUT
        if about.is_file():
            found.append(read(place))
    return found


def read(place: Path) -> Kernel:
    """The kernel of a folder; raises InputError where there is none that is whole."""
    unlike = f"{place}: not a kernel that cwndlab kernel build made"
    try:
        kernel = TypeAdapter(Kernel).validate_json((place / ABOUT).read_bytes(), strict=True, extra="forbid")
    except (OSError, ValueError) as error:
        raise InputError(f"{unlike} ({ABOUT}: {damage(error)})") from None
    if kernel.name != place.name:
        raise InputError(f"{unlike} (it is called {shown(kernel.name)})")
    return kernel


def check(kernel: Kernel) -> None:
    """Raises InputError where the program is not the one that was built."""
    try:
        with kernel.program.open("rb") as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{kernel.program}: {error.strerror}") from None
    if found != kernel.sha256:
        raise InputError(
            f"{kernel.program}: was changed since it was built; remove the folder and build again"
        )


def find(text: str) -> Kernel:
    """The kernel of a name, or of the only name that begins so; raises InputError."""
    known = kernels()
    fitting = [kernel for kernel in known if kernel.name == text]
    fitting = fitting or [kernel for kernel in known if kernel.name.startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(kernel.name for kernel in fitting)
        raise InputError(f"--kernel {text}: {len(fitting)} kernels begin so: {names}")
    hint = nearest(text, [kernel.name for kernel in known])
    there = f"there is {', '.join(kernel.name for kernel in known)}" if known else "none was built yet"
    raise InputError(
        f"--kernel {text}: no source tree, no kernel as a program and none that was built;"
        f" {hint or there} (cwndlab kernel build TREE makes one)"
    )


def put(kernel: Kernel, files: dict[str, bytes]) -> Kernel:
    """Keep a kernel with its files; it is whole before it has its name."""
    place = folder() / f".{kernel.name}.{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o755)
    for name, data in files.items():
        (place / name).write_bytes(data)
    (place / PROGRAM).chmod(0o755)
    (place / ABOUT).write_text(json.dumps(asdict(kernel), indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(kernel.folder, ignore_errors=True)
    place.replace(kernel.folder)
    return kernel
